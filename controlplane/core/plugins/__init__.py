"""Which plugins a worker has: from the class follow the connector's type and what may be asked.

`Plugins` holds what is known for all releases; `at` answers the class path of one. How a catalogue
is written is told in `catalogue`. Kafka's own plugins and definitions lie in data files, which the
rim of the program reads (`controlplane.plugins`): without them nothing is known of Kafka's.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.plugins.catalogue import (
    UNKNOWN_TYPE,
    CatalogueError,
    Own,
    Plugin,
    WrittenCatalogue,
    checked_keys,
    parse_definitions,
    parse_plugins,
)
from controlplane.core.plugins.classpath import CONNECTORS, ClassPath, kind_of
from controlplane.core.plugins.descriptions import (
    Descriptions,
    parse_descriptions,
    with_descriptions,
)
from controlplane.core.plugins.hooks import Hook, declines, undisturbing, unsupported
from controlplane.core.profiles import NEWEST, Profile

__all__ = [
    "CONNECTORS",
    "UNCHECKED",
    "UNKNOWN_TYPE",
    "CatalogueError",
    "ClassPath",
    "ConfigKey",
    "Descriptions",
    "Hook",
    "Own",
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
    """The plugins of a worker. The type of a class that is not among them is `unknown`."""

    def __init__(
        self,
        listed: Iterable[Plugin] = (),
        own: Own | None = None,
        more: Iterable[Plugin] = (),
        *,
        trusting: bool = False,
    ) -> None:
        self.listed = tuple(listed)
        """Plugins of a catalogue. Kafka's own of their kinds are absent unless it lists them."""
        self.own = own or Own()
        self.more = tuple(more)
        """Plugins beside a catalogue; they hide nothing of Kafka's own."""
        self.trusting = trusting
        """True if an unknown class is taken to be there; a worker refuses it."""
        self._at: dict[str, ClassPath] = {}

    def at(self, profile: Profile) -> ClassPath:
        """What a worker of the profile's release finds."""
        found = self._at.get(profile.release)
        if found is None:
            found = self._at[profile.release] = ClassPath(
                (*self.listed, *self.more, *self._kafkas), self.own, profile, trusting=self.trusting
            )
        return found

    @cached_property
    def _kafkas(self) -> tuple[Plugin, ...]:
        """Kafka's own plugins that come with every worker, and all of kinds without any listed."""
        names = {plugin.class_name for plugin in self.listed}
        kinds = {kind_of(plugin.type) for plugin in self.listed}
        others = (plugin for plugin in self.own.plugins if plugin.class_name not in names)
        return tuple(one for one in others if one.bundled or kind_of(one.type) not in kinds)

    def trusting_unknown(self) -> "Plugins":
        """The same plugins for a worker that takes every other class on trust."""
        return Plugins(self.listed, self.own, self.more, trusting=True)

    def type_of(self, connector_class: Any) -> str:
        """`source`, `sink` or `unknown`, by full class name or alias (`FileStreamSource`)."""
        found = self._connector(connector_class)
        known = found is not None and found.type in {"source", "sink"}
        return found.type if found is not None and known else UNKNOWN_TYPE

    def hook(self, connector_class: Any) -> Hook | None:
        """What the connector's `alterOffsets` does; None: nobody knows the class.

        Whatever the hook does with what it is given, nobody else sees it.
        """
        found = self._connector(connector_class)
        return None if found is None else undisturbing(found.hook or declines)

    def may_block(self, connector_class: Any) -> bool:
        """Whether the hook may take its time: then it must not be asked in an event loop."""
        found = self._connector(connector_class)
        return found is not None and found.hook is not None and not found.told_in_words

    def _connector(self, name: Any) -> Plugin | None:
        if not isinstance(name, str):
            return None
        found = self.at(Profile.of(NEWEST)).connector(name)
        return found if isinstance(found, Plugin) else None


UNCHECKED = Plugins(trusting=True)
"""No plugins at all and every class on trust: for reading, and for deciding without a catalogue."""


def parse_catalogue(
    text: bytes, own: Own | None = None, more: Iterable[Plugin] = (), *, trusting: bool = False
) -> Plugins:
    """The plugins that a catalogue file lists, beside those of Kafka's own that are always there.

    Documentation in the file replaces the descriptions of Kafka's own settings, for every release.

    Raises:
        CatalogueError: it is no catalogue.
    """
    written = WrittenCatalogue.read(text)
    own = own or Own()
    if written.documentation:
        own = with_descriptions(own, written.documentation)
    return Plugins(written.listed(own.plugins), own, more, trusting=trusting)
