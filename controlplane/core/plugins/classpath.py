"""The plugins that a worker of one release has, and their lookup by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from controlplane.core.configdef.definition import NOTHING, Definition
from controlplane.core.configdef.key_definition import ConfigKey, keys_as_of
from controlplane.core.configdef.value_parser import JavaClass
from controlplane.core.java.java_library import string_order
from controlplane.core.plugins.catalogue import KafkaPlugins, Plugin
from controlplane.core.plugins.class_names import aliases, simple_name
from controlplane.core.releases.profiles import Profile

CONNECTORS = ("source", "sink", "connector")
"""Types of connectors. Kafka once had connectors that were neither source nor sink."""


class ClassPath:
    """The classes on a worker's class path, for one release.

    A class with a defect is found by its full name. The release decides whether it is listed among
    the plugins.
    """

    def __init__(
        self,
        plugins: Iterable[Plugin],
        own: KafkaPlugins,
        profile: Profile,
        *,
        trusting: bool = False,
        running_here: bool = False,
    ) -> None:
        self._own, self._profile = own, profile
        self.trusting = trusting
        """True if an unknown class is taken to exist."""
        self.running_here = running_here
        """True if connectors run in this process."""
        present = [dated for plugin in plugins if (dated := plugin.as_of(profile)) is not None]
        self.plugins = tuple(plugin for plugin in present if self._is_listed(plugin))
        self._defective = [plugin for plugin in present if plugin.defect is not None]
        self._aliases = aliases(self.plugins)
        self._by_kind: dict[tuple[str, ...], tuple[Plugin, ...]] = {}
        self._prepared: dict[tuple[Any, ...], Definition] = {}

    def _is_listed(self, plugin: Plugin) -> bool:
        """True if the worker's scan for plugins accepts the class.

        Abstract classes are never listed. A class with another defect is listed if the scan does
        not instantiate it.
        """
        if plugin.defect in {None, "abstract"}:
            return plugin.defect is None
        return not self._profile.plugins_instantiated and plugin.type not in CONNECTORS

    def of_kind(self, *kinds: str) -> tuple[Plugin, ...]:
        """Plugins of some types, sorted by class name."""
        if kinds not in self._by_kind:
            self._by_kind[kinds] = tuple(plugin for plugin in self._sorted if plugin.type in kinds)
        return self._by_kind[kinds]

    @cached_property
    def _sorted(self) -> Sequence[Plugin]:
        return sorted(self.plugins, key=lambda plugin: string_order(plugin.class_name))

    def full_name(self, name: str) -> str:
        """Full class name of an alias; any other name stays as it is."""
        return self._aliases.get(name, name)

    def named(self, class_name: str) -> Sequence[Plugin]:
        """All plugins with this class: one class may be of several kinds."""
        return self._by_class.get(class_name, ())

    def class_named(self, class_name: str) -> JavaClass:
        """The class with this full name, perhaps with a defect; without kinds if unknown."""
        defective = [plugin for plugin in self._defective if plugin.class_name == class_name]
        kinds = frozenset(plugin.type for plugin in (*self.named(class_name), *defective))
        defect = defective[0].defect if defective else None
        return JavaClass(class_name, kinds, self.nested(class_name), defect)

    def nested(self, class_name: str) -> tuple[str, ...]:
        """Full class names of the plugins nested in this class, at any depth."""
        return self._nested.get(class_name, ())

    @cached_property
    def _nested(self) -> Mapping[str, tuple[str, ...]]:
        """Full class names of nested plugins, by outer class."""
        nested_names: dict[str, list[str]] = {}
        for name in sorted(self._by_class, key=string_order):
            outer = name.rpartition("$")[0]
            while outer:
                nested_names.setdefault(outer, []).append(name)
                outer = outer.rpartition("$")[0]
        return {outer: tuple(names) for outer, names in nested_names.items()}

    @cached_property
    def _by_class(self) -> Mapping[str, list[Plugin]]:
        by_class: dict[str, list[Plugin]] = {}
        for plugin in self.plugins:
            by_class.setdefault(plugin.class_name, []).append(plugin)
        return by_class

    def connector(self, name: str) -> Plugin | Sequence[Plugin]:
        """The connector that a class name means; if there is not exactly one, all candidates."""
        for plugin in self.named(self.full_name(name)):
            if plugin.type in CONNECTORS:
                return plugin
        candidates = [
            plugin
            for plugin in self.of_kind(*CONNECTORS)
            if simple_name(plugin.class_name) in {name, name + "Connector"}
        ]
        return candidates[0] if len(candidates) == 1 else candidates

    def keys_of(self, plugin: Plugin) -> tuple[ConfigKey, ...] | None:
        """Keys that a plugin defines, after those of the definitions it extends; None: unknown."""
        if plugin.config is None:
            return None
        inherited = (key for name in plugin.extends for key in self.definition(name))
        return (*inherited, *plugin.config)

    def definition_of(self, plugin: Plugin) -> Definition:
        """Definition of a plugin's own keys; empty if unknown."""
        return self._prepared_definition(
            (plugin.class_name, plugin.type), lambda: self.keys_of(plugin) or NOTHING.keys
        )

    def connector_definition(self, kind: str, defaults: Mapping[str, str | None]) -> Definition:
        """Connect's own definition for connectors of a kind, with defaults for some keys."""

        def keys() -> Iterator[ConfigKey]:
            for key in (*self.definition("connector"), *self.definition(kind)):
                default = defaults.get(key.name)
                yield key if default is None else msgspec.structs.replace(key, default=default)

        return self._prepared_definition((kind, *defaults.items()), keys)

    def _prepared_definition(
        self, cache_key: tuple[Any, ...], keys: Callable[[], Iterable[ConfigKey]]
    ) -> Definition:
        """Definition for a cache key, prepared once."""
        if cache_key not in self._prepared:
            self._prepared[cache_key] = Definition.of(keys())
        return self._prepared[cache_key]

    def definition(self, name: str) -> tuple[ConfigKey, ...]:
        """Keys of one of Kafka's own definitions, in order."""
        return self._definitions.get(name, ())

    @cached_property
    def _definitions(self) -> Mapping[str, tuple[ConfigKey, ...]]:
        rows = self._own.definitions.items()
        return {name: keys_as_of(keys, self._profile) for name, keys in rows}


def type_group(plugin_type: str) -> str:
    """Group of a plugin's type: all types of connectors form one group, `connector`."""
    return "connector" if plugin_type in CONNECTORS else plugin_type
