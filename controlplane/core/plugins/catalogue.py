"""A catalogue file: which plugins there are, and what is known of each.

A Python control plane cannot load Java classes, so what a worker would learn from its class path
comes from a file: a JSON list, as `GET /connector-plugins` of a real worker answers it, with more
where more is known:

    {"class": "org.example.MySource", "type": "source", "version": "1.2",
     "config": [{"name": "topics", "type": "LIST", "required": true},
                {"name": "rows", "type": "INT", "default": "5", "at_least": 1}],
     "exactly_once": "supported", "transaction_boundaries": "unsupported",
     "alter_offsets": "accepts"}

`config` are the plugin's own keys, as `GET /connector-plugins/{plugin}/config` answers them, or in
fewer words (`keys.ConfigKey`). A plugin without `config` is believed whatever it is configured
with. `alter_offsets` is explained in `hooks`. Of Kafka's own plugins the class alone is enough.

The file may also be an object with that list and with documentation of Kafka's own settings, as
`controlplane plugins harvest` writes it:

    {"plugins": […], "documentation": {"producer": {"linger.ms": "…"}}}
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from controlplane.core.configdef.keys import ConfigKey, WrittenKey, keys_as_of
from controlplane.core.configdef.spans import Change, Span, as_of
from controlplane.core.configdef.valid import UnknownWords, validator
from controlplane.core.configdef.values import Defect
from controlplane.core.plugins.hooks import Hook, UnknownHook, parse_hook
from controlplane.core.profiles import Profile

WORKERS_VERSION = "that of the worker"
"""The version of a plugin that is released with Kafka itself."""

UNDEFINED_VERSION = "undefined"
"""What a worker calls the version of a plugin that tells none."""

UNKNOWN_TYPE = "unknown"

_Maybe = str | msgspec.UnsetType | None


class CatalogueError(ValueError):
    """Not a catalogue of plugins. The message says what is wrong."""


class _PluginChange(Change, frozen=True, kw_only=True):
    """What a plugin was before. Fields are those of `Plugin`."""

    type: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    exactly_once: _Maybe = msgspec.UNSET
    checks: _Maybe = msgspec.UNSET


class Plugin(Span, frozen=True, kw_only=True):
    """One class that a worker can load, and what is known of it."""

    class_name: str
    type: str = UNKNOWN_TYPE
    """`source`, `sink`, `transformation`, `predicate`, `converter`, `header_converter`."""
    version: str = UNDEFINED_VERSION
    extends: tuple[str, ...] = ()
    """Definitions of Kafka's whose keys come in front of its own."""
    config: tuple[ConfigKey, ...] | None = None
    """The keys it defines; None: nobody knows."""
    exactly_once: str | None = None
    """What its `exactlyOnceSupport` answers (KIP-618): `supported`, `unsupported`, or by a rule
    (`validation.capabilities`); None: no answer, as of all connectors that are older."""
    transaction_boundaries: str = "unsupported"
    """Whether it can say itself where a transaction ends (KIP-618)."""
    checks: str | None = None
    """A rule (`validation.capabilities`) for what it looks at beyond single keys."""
    hook: Hook | None = None
    """What its `alterOffsets` does (KIP-875)."""
    told_in_words: bool = False
    """Whether the hook only computes. Code of others may take its time, and change the world."""
    location: str = "classpath"
    bundled: bool = False
    """It comes with every worker."""
    defect: Defect | None = None
    """Why no worker can make it. A config that names such a class is refused."""
    before: tuple[_PluginChange, ...] = ()

    def as_of(self, profile: Profile) -> "Plugin | None":
        """This plugin in the profile's release, keys and all; None if it was not there."""
        plugin = as_of(self, self.before, profile)
        if plugin is None:
            return None
        own = plugin.version == WORKERS_VERSION
        return msgspec.structs.replace(
            plugin,
            version=profile.kafka_release if own else plugin.version,
            config=plugin.config and keys_as_of(plugin.config, profile),
        )


class _Written(Span, frozen=True, kw_only=True, rename={"class_name": "class"}):
    """A plugin as a file spells it: what is left out is taken from Kafka's own, if it is theirs."""

    class_name: str
    type: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    extends: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    config: tuple[WrittenKey, ...] | msgspec.UnsetType = msgspec.UNSET
    exactly_once: _Maybe = msgspec.UNSET
    transaction_boundaries: str | msgspec.UnsetType = msgspec.UNSET
    checks: str | msgspec.UnsetType = msgspec.UNSET
    alter_offsets: str | msgspec.UnsetType = msgspec.UNSET
    location: str | msgspec.UnsetType = msgspec.UNSET
    bundled: bool | msgspec.UnsetType = msgspec.UNSET
    defect: Defect | msgspec.UnsetType = msgspec.UNSET
    before: tuple[_PluginChange, ...] | msgspec.UnsetType = msgspec.UNSET

    def told(self) -> dict[str, Any]:
        """The fields of a `Plugin` that this tells."""
        fields = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if not isinstance(value, msgspec.UnsetType) and value is not None
        }
        if not isinstance(self.config, msgspec.UnsetType):
            fields["config"] = _plain(self.config)
        words = fields.pop("alter_offsets", None)
        if isinstance(words, str):
            keys = fields.get("config", ())
            fields["hook"] = parse_hook(words, {key.name: key.default for key in keys})
            fields["told_in_words"] = True
        return fields


class WrittenCatalogue(msgspec.Struct, frozen=True):
    """A catalogue file as it is written."""

    plugins: list[_Written]
    documentation: dict[str, dict[str, str]] = {}
    """Descriptions of Kafka's own settings, by scope (`descriptions`)."""

    @classmethod
    def read(cls, text: bytes) -> "WrittenCatalogue":
        """The content of a file: an object, or the list of plugins alone.

        Raises:
            CatalogueError: it is no catalogue.
        """
        if text.lstrip()[:1] == b"{":
            return decoded(text, cls)
        return cls(decoded(text, list[_Written]))

    def listed(self, own: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
        """The plugins, with what is known of Kafka's own.

        Raises:
            CatalogueError: one of them is described by unknown words.
        """
        try:
            return tuple(plugin for one in self.plugins for plugin in _plugins(one, own))
        except UnknownHook as error:
            raise CatalogueError(f"alter_offsets: {error}") from None


class Own(msgspec.Struct, frozen=True):
    """What Kafka itself brings: its plugins, and the definitions that all of their kind share."""

    plugins: tuple[Plugin, ...] = ()
    definitions: Mapping[str, tuple[ConfigKey, ...]] = {}
    """`connector`, `source` and `sink` (beyond those of every connector), `transformation` (beyond
    its own), and of clients: `producer`, `consumer`, `admin`."""


def checked_keys(keys: Iterable[ConfigKey]) -> tuple[ConfigKey, ...]:
    """Keys whose words for valid values are understood.

    Raises:
        CatalogueError: those of one are not.
    """
    keys = tuple(keys)
    for key in keys:
        for words in key.all_valid:
            try:
                validator(words)
            except UnknownWords:
                raise CatalogueError(
                    f"{key.name}: {words!r} are no words for valid values, such as '[1,...]', "
                    "'[none, all]' or 'non-empty string'"
                ) from None
    return keys


def _plain(keys: Iterable[WrittenKey]) -> tuple[ConfigKey, ...]:
    return checked_keys(key.plain() for key in keys)


_Decoded = TypeVar("_Decoded")


def decoded(text: bytes, kind: type[_Decoded]) -> _Decoded:
    """A JSON text as a value of this type.

    Raises:
        CatalogueError: it is something else.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CatalogueError(f"not a list of objects with class and type: {error}") from None


def parse_plugins(text: bytes, own: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
    """The plugins that a catalogue file lists.

    Raises:
        CatalogueError: it is none.
    """
    return WrittenCatalogue.read(text).listed(own)


def _plugins(written: _Written, own: Sequence[Plugin]) -> Iterable[Plugin]:
    """One plugin; more where Kafka's own class of that name is a plugin in two ways."""
    told = written.told()
    alike = [one for one in own if one.class_name == written.class_name]
    same = [one for one in alike if one.type == told.get("type", one.type)]
    if not alike:
        yield Plugin(**told)
    for one in same or alike:
        yield msgspec.structs.replace(one, **told)


def parse_definitions(text: bytes) -> Mapping[str, tuple[ConfigKey, ...]]:
    """Definitions by name, each a list of keys.

    Raises:
        CatalogueError: they are none.
    """
    written = decoded(text, dict[str, tuple[WrittenKey, ...]])
    return {name: _plain(keys) for name, keys in written.items()}
