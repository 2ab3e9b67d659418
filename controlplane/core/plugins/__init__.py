"""Plugins of a worker: connectors, transformations, predicates and converters, by class.

`Plugins` holds those of all releases; `at` gives the class path of one. `catalogue` describes the
file format. Kafka's own plugins and definitions are in data files, which `controlplane.plugins`
loads; without these, nothing is known of Kafka's plugins.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plugins.catalogue import (
    UNKNOWN_TYPE,
    CatalogueError,
    KafkaPlugins,
    Plugin,
    WrittenCatalogue,
    checked_keys,
    parse_definitions,
    parse_plugins,
)
from controlplane.core.plugins.classpath import CONNECTORS, ClassPath, type_group
from controlplane.core.plugins.descriptions import (
    Descriptions,
    parse_descriptions,
    with_descriptions,
)
from controlplane.core.plugins.offset_hooks import Hook, declines, isolated, unsupported
from controlplane.core.releases.profiles import Profile

__all__ = [
    "CONNECTORS",
    "UNCHECKED",
    "UNKNOWN_TYPE",
    "CatalogueError",
    "ClassPath",
    "ConfigKey",
    "Descriptions",
    "Hook",
    "KafkaPlugins",
    "Plugin",
    "Plugins",
    "checked_keys",
    "parse_catalogue",
    "parse_definitions",
    "parse_descriptions",
    "parse_plugins",
    "unsupported",
    "with_descriptions",
]


class Plugins:
    """The plugins of a worker.

    A class that is not among them has the type `unknown`. So has a class that the worker's release
    lacks.
    """

    def __init__(
        self,
        listed: Iterable[Plugin] = (),
        own: KafkaPlugins | None = None,
        more: Iterable[Plugin] = (),
        *,
        trusting: bool = False,
        running_here: bool = False,
    ) -> None:
        self.listed = tuple(listed)
        """Plugins of a catalogue. A worker also has Kafka's own plugins of each `type_group` that
        the catalogue lacks, and all of Kafka's bundled plugins."""
        self.own = own or KafkaPlugins()
        """Kafka's own plugins and definitions."""
        self.added = tuple(more)
        """Plugins in addition to a catalogue; they hide none of Kafka's own."""
        self.trusting = trusting
        """True if unknown classes are taken to exist; a worker refuses them."""
        self.running_here = running_here
        """True if connectors run in this process, which then matches regular expressions itself."""
        self._at: dict[str, ClassPath] = {}

    def at(self, profile: Profile) -> ClassPath:
        """The class path of a worker of the profile's release."""
        class_path = self._at.get(profile.release)
        if class_path is None:
            class_path = self._at[profile.release] = ClassPath(
                (*self.listed, *self.added, *self._kafka_plugins),
                self.own,
                profile,
                trusting=self.trusting,
                running_here=self.running_here,
            )
        return class_path

    @cached_property
    def _kafka_plugins(self) -> tuple[Plugin, ...]:
        """Kafka's own plugins that a worker has besides those of the catalogue.

        These are all bundled plugins, and all of each `type_group` that the catalogue lacks.
        """
        names = {plugin.class_name for plugin in self.listed}
        groups = {type_group(plugin.type) for plugin in self.listed}
        unlisted = (plugin for plugin in self.own.plugins if plugin.class_name not in names)
        return tuple(
            plugin for plugin in unlisted if plugin.bundled or type_group(plugin.type) not in groups
        )

    def trusting_unknown(self) -> "Plugins":
        """Return these plugins, with every unknown class taken to exist."""
        return Plugins(
            self.listed, self.own, self.added, trusting=True, running_here=self.running_here
        )

    def type_of(self, connector_class: Any, profile: Profile) -> str:
        """`source`, `sink` or `unknown`, by full class name or alias (`FileStreamSource`).

        The answer is that of a worker of the profile's release. Kafka:
        `AbstractHerder#connectorType`.
        """
        plugin = self._connector(connector_class, profile)
        if plugin is None or plugin.type not in {"source", "sink"}:
            return UNKNOWN_TYPE
        return plugin.type

    def hook(self, connector_class: Any, profile: Profile) -> Hook | None:
        """The connector's `alterOffsets` hook; None: the class is unknown in the release.

        The hook gets copies, so its changes are visible nowhere else.
        """
        plugin = self._connector(connector_class, profile)
        return None if plugin is None else isolated(plugin.hook or declines)

    def pure_hook(self, connector_class: Any, profile: Profile) -> Hook | None:
        """The connector's `alterOffsets` hook if it only computes; None: it is foreign code.

        Kafka's default hook, which an unknown class is taken to have, only computes.
        """
        plugin = self._connector(connector_class, profile)
        if plugin is None or plugin.hook is None:
            return declines
        return plugin.hook if plugin.hook_is_pure else None

    def may_block(self, connector_class: Any, profile: Profile) -> bool:
        """True if the hook may be slow, so that an event loop must not call it."""
        return self.pure_hook(connector_class, profile) is None

    def _connector(self, name: Any, profile: Profile) -> Plugin | None:
        if not isinstance(name, str):
            return None
        plugin = self.at(profile).connector(name)
        return plugin if isinstance(plugin, Plugin) else None


UNCHECKED = Plugins(trusting=True)
"""No known plugins; every class is taken to exist. For reads, and decisions without a catalogue."""


def parse_catalogue(
    text: bytes,
    own: KafkaPlugins | None = None,
    more: Iterable[Plugin] = (),
    *,
    trusting: bool = False,
) -> Plugins:
    """Plugins of a catalogue file, and Kafka's own that a worker has besides (`Plugins.listed`).

    Documentation in the file replaces the descriptions of Kafka's own settings, for every release.

    Raises:
        CatalogueError: the text is no catalogue.
    """
    written = WrittenCatalogue.read(text)
    own = own or KafkaPlugins()
    if written.documentation:
        own = with_descriptions(own, written.documentation)
    return Plugins(written.listed(own.plugins), own, more, trusting=trusting)
