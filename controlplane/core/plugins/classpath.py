"""The plugins that a worker of one release finds, and how it finds them by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from controlplane.core.configdef.definition import NOTHING, Definition
from controlplane.core.configdef.keys import ConfigKey, keys_as_of
from controlplane.core.configdef.values import JavaClass
from controlplane.core.java import string_order
from controlplane.core.plugins.catalogue import Own, Plugin
from controlplane.core.plugins.names import aliases, simple_name
from controlplane.core.profiles import Profile

CONNECTORS = ("source", "sink", "connector")
"""Types of connectors; the last is that of a connector that is neither, which Kafka once had."""


class ClassPath:
    """The classes that a worker of one release finds.

    A class with a defect is found by its full name. Whether it is listed among the plugins depends
    on the release.
    """

    def __init__(
        self, found: Iterable[Plugin], own: Own, profile: Profile, *, trusting: bool = False
    ) -> None:
        self._own, self._profile = own, profile
        self.trusting = trusting
        """True if an unknown class is taken to be there."""
        present = [one for row in found if (one := row.as_of(profile)) is not None]
        self.plugins = tuple(one for one in present if self._is_listed(one))
        self._defective = [one for one in present if one.defect is not None]
        self._aliases = aliases(self.plugins)
        self._by_kind: dict[tuple[str, ...], tuple[Plugin, ...]] = {}
        self._ready: dict[tuple[Any, ...], Definition] = {}

    def _is_listed(self, plugin: Plugin) -> bool:
        """True if a worker takes a class for a plugin when it looks for plugins."""
        if plugin.defect in {None, "abstract"}:
            return plugin.defect is None
        return not self._profile.plugins_instantiated and plugin.type not in CONNECTORS

    def of_kind(self, *kinds: str) -> tuple[Plugin, ...]:
        """Plugins of some kinds, in the order of their names."""
        if kinds not in self._by_kind:
            self._by_kind[kinds] = tuple(one for one in self._sorted if one.type in kinds)
        return self._by_kind[kinds]

    @cached_property
    def _sorted(self) -> Sequence[Plugin]:
        return sorted(self.plugins, key=lambda plugin: string_order(plugin.class_name))

    def full_name(self, name: str) -> str:
        """The class that a name means: an alias, or the class itself."""
        return self._aliases.get(name, name)

    def named(self, class_name: str) -> Sequence[Plugin]:
        """All that the class of this full name is."""
        return self._by_class.get(class_name, ())

    def class_named(self, class_name: str) -> JavaClass:
        """The class of this full name, which may have a defect; of no kind if it is not known."""
        broken = [one for one in self._defective if one.class_name == class_name]
        kinds = frozenset(one.type for one in (*self.named(class_name), *broken))
        defect = broken[0].defect if broken else None
        return JavaClass(class_name, kinds, self.nested(class_name), defect)

    def nested(self, class_name: str) -> tuple[str, ...]:
        """Plugins whose classes stand within this one."""
        return self._nested.get(class_name, ())

    @cached_property
    def _nested(self) -> Mapping[str, tuple[str, ...]]:
        """By class, the plugins within it."""
        within: dict[str, list[str]] = {}
        for name in sorted(self._by_class, key=string_order):
            outer = name.rpartition("$")[0]
            while outer:
                within.setdefault(outer, []).append(name)
                outer = outer.rpartition("$")[0]
        return {outer: tuple(names) for outer, names in within.items()}

    @cached_property
    def _by_class(self) -> Mapping[str, list[Plugin]]:
        found: dict[str, list[Plugin]] = {}
        for plugin in self.plugins:
            found.setdefault(plugin.class_name, []).append(plugin)
        return found

    def connector(self, name: str) -> Plugin | Sequence[Plugin]:
        """The connector that a config means; or, if it is not one, all that it could mean."""
        for plugin in self.named(self.full_name(name)):
            if plugin.type in CONNECTORS:
                return plugin
        meant = [
            one
            for one in self.of_kind(*CONNECTORS)
            if simple_name(one.class_name) in {name, name + "Connector"}
        ]
        return meant[0] if len(meant) == 1 else meant

    def keys_of(self, plugin: Plugin) -> tuple[ConfigKey, ...] | None:
        """The keys that a plugin defines; None: nobody knows."""
        if plugin.config is None:
            return None
        inherited = (key for name in plugin.extends for key in self.definition(name))
        return (*inherited, *plugin.config)

    def definition_of(self, plugin: Plugin) -> Definition:
        """The definition that a plugin brings; one of nothing where nobody knows."""
        return self._made_ready(
            (plugin.class_name, plugin.type), lambda: self.keys_of(plugin) or NOTHING.keys
        )

    def connects(self, kind: str, defaults: Mapping[str, str | None]) -> Definition:
        """Connect's own definition for connectors of a kind; some keys have these defaults."""

        def keys() -> Iterator[ConfigKey]:
            for key in (*self.definition("connector"), *self.definition(kind)):
                known = defaults.get(key.name)
                yield key if known is None else msgspec.structs.replace(key, default=known)

        return self._made_ready((kind, *defaults.items()), keys)

    def _made_ready(
        self, which: tuple[Any, ...], keys: Callable[[], Iterable[ConfigKey]]
    ) -> Definition:
        """Made once: there are as many as there are plugins, and versions of them."""
        if which not in self._ready:
            self._ready[which] = Definition.of(keys())
        return self._ready[which]

    def definition(self, name: str) -> tuple[ConfigKey, ...]:
        """Keys of a definition of Kafka's own, in their order."""
        return self._definitions.get(name, ())

    @cached_property
    def _definitions(self) -> Mapping[str, tuple[ConfigKey, ...]]:
        rows = self._own.definitions.items()
        return {name: keys_as_of(keys, self._profile) for name, keys in rows}


def kind_of(kind: str) -> str:
    """The kind of plugin that a type belongs to: sources and sinks are one kind."""
    return "connector" if kind in CONNECTORS else kind
