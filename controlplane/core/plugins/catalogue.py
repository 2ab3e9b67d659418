"""Catalogue file: the plugins of a worker, and their known properties.

A Python control plane cannot load Java classes, so a file replaces the worker's class path. It is a
JSON list as answered by `GET /connector-plugins` of a worker, with optional further fields:

    {"class": "org.example.MySource", "type": "source", "version": "1.2",
     "config": [{"name": "topics", "type": "LIST", "required": true},
                {"name": "rows", "type": "INT", "default": "5", "at_least": 1}],
     "exactly_once": "supported", "transaction_boundaries": "unsupported",
     "alter_offsets": "accepts"}

`config` has the plugin's own keys, as answered by `GET /connector-plugins/{plugin}/config`, or
shorter (`key_definition.WrittenKey`). A plugin without `config` accepts every setting.
`offset_hooks` explains `alter_offsets`. Kafka's own plugins need only their class.

The file may also be an object with that list and with documentation of Kafka's own settings.
`controlplane plugins harvest` writes this form:

    {"plugins": […], "documentation": {"producer": {"linger.ms": "…"}}}
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from controlplane.core.configdef.key_definition import ConfigKey, WrittenKey, keys_as_of
from controlplane.core.configdef.release_spans import EarlierFields, ReleaseSpan, as_of
from controlplane.core.configdef.validators import UnknownWords, validator
from controlplane.core.configdef.value_parser import (
    ConfigValue,
    Defect,
    InvalidValue,
    JavaClass,
    Password,
)
from controlplane.core.plugins.offset_hooks import Hook, UnknownHook, parse_hook
from controlplane.core.releases.profiles import Profile

WORKERS_VERSION = "that of the worker"
"""Version of a plugin that is released with Kafka itself."""

UNDEFINED_VERSION = "undefined"
"""Version that a worker shows of a plugin without one."""

UNKNOWN_TYPE = "unknown"
_TYPES = (
    "source",
    "sink",
    "transformation",
    "predicate",
    "converter",
    "header_converter",
)
"""Types of the plugins that configs name."""
_OTHER_TYPES = (
    "connector",
    "configprovider",
    "rest_extension",
    "connector_client_config_override_policy",
    UNKNOWN_TYPE,
)
"""Further types of Kafka's `PluginType`; a `connector` is neither source nor sink."""

_OptionalText = str | msgspec.UnsetType | None


class CatalogueError(ValueError):
    """The text is no catalogue of plugins; the message says why."""


class _EarlierPlugin(EarlierFields, frozen=True, kw_only=True):
    """Earlier fields of a plugin, named as in `Plugin`."""

    type: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    exactly_once: _OptionalText = msgspec.UNSET
    checks: _OptionalText = msgspec.UNSET


class Plugin(ReleaseSpan, frozen=True, kw_only=True):
    """A class that a worker can load, and its known properties."""

    class_name: str
    type: str = UNKNOWN_TYPE
    """`source`, `sink`, `connector`, `transformation`, `predicate`, `converter`,
    `header_converter`, or `unknown`."""
    version: str = UNDEFINED_VERSION
    extends: tuple[str, ...] = ()
    """Kafka's definitions whose keys come before the plugin's own keys."""
    config: tuple[ConfigKey, ...] | None = None
    """Keys that the plugin defines; None: unknown."""
    exactly_once: str | None = None
    """Answer of `exactlyOnceSupport` (KIP-618): `supported`, `unsupported`, or a rule of
    `validation.capabilities`; None: no answer; connectors before that KIP give none."""
    transaction_boundaries: str = "unsupported"
    """`supported` if the connector can define transaction boundaries itself (KIP-618)."""
    checks: str | None = None
    """Rule (`validation.capabilities`) for its checks beyond single keys."""
    hook: Hook | None = None
    """Behaviour of its `alterOffsets` hook (KIP-875)."""
    hook_is_pure: bool = False
    """True if the hook only computes. Foreign code may be slow and have side effects."""
    location: str = "classpath"
    bundled: bool = False
    """True if every worker has it."""
    defect: Defect | None = None
    """Reason why the class cannot be instantiated. A config that names it is refused."""
    before: tuple[_EarlierPlugin, ...] = ()

    def as_of(self, profile: Profile) -> "Plugin | None":
        """The plugin and its keys in the profile's release; None if the release lacks it."""
        plugin = as_of(self, self.before, profile)
        if plugin is None:
            return None
        is_kafkas = plugin.version == WORKERS_VERSION
        return msgspec.structs.replace(
            plugin,
            version=profile.kafka_release if is_kafkas else plugin.version,
            config=plugin.config and keys_as_of(plugin.config, profile),
        )


class _WrittenPlugin(ReleaseSpan, frozen=True, kw_only=True, rename={"class_name": "class"}):
    """A plugin as written in a file. If the class is Kafka's own, omitted fields are Kafka's."""

    class_name: str
    type: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    extends: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    config: tuple[WrittenKey, ...] | msgspec.UnsetType = msgspec.UNSET
    exactly_once: _OptionalText = msgspec.UNSET
    transaction_boundaries: str | msgspec.UnsetType = msgspec.UNSET
    checks: str | msgspec.UnsetType = msgspec.UNSET
    alter_offsets: str | msgspec.UnsetType = msgspec.UNSET
    location: str | msgspec.UnsetType = msgspec.UNSET
    bundled: bool | msgspec.UnsetType = msgspec.UNSET
    defect: Defect | msgspec.UnsetType = msgspec.UNSET
    before: tuple[_EarlierPlugin, ...] | msgspec.UnsetType = msgspec.UNSET

    def fields(self) -> dict[str, Any]:
        """The fields of a `Plugin` that are given.

        Raises:
            UnknownHook: `alter_offsets` describes no hook.
            CatalogueError: a key has unknown words for valid values.
        """
        fields = {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if not isinstance(value, msgspec.UnsetType) and value is not None
        }
        if not isinstance(self.config, msgspec.UnsetType):
            fields["config"] = _checked_plain_keys(self.config)
        words = fields.pop("alter_offsets", None)
        if isinstance(words, str):
            keys = fields.get("config", ())
            fields["hook"] = parse_hook(words, {key.name: key.default for key in keys})
            fields["hook_is_pure"] = True
        return fields


class WrittenCatalogue(msgspec.Struct, frozen=True):
    """JSON fields of a catalogue file."""

    plugins: list[_WrittenPlugin]
    documentation: dict[str, dict[str, str]] = {}
    """Descriptions of Kafka's own settings, by scope (`descriptions`)."""

    @classmethod
    def read(cls, text: bytes) -> "WrittenCatalogue":
        """Parse a file: an object, or the list of plugins alone.

        Raises:
            CatalogueError: the text is no catalogue.
        """
        if text.lstrip()[:1] == b"{":
            return decoded(text, cls)
        return cls(decoded(text, list[_WrittenPlugin]))

    def listed(self, own: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
        """The plugins, completed from Kafka's own.

        Raises:
            CatalogueError: a plugin has an unknown type or hook, or a key has unknown valid values.
        """
        try:
            return tuple(
                plugin for entry in self.plugins for plugin in _plugins_of_entry(entry, own)
            )
        except UnknownHook as error:
            raise CatalogueError(f"alter_offsets: {error}") from None


class KafkaPlugins(msgspec.Struct, frozen=True):
    """Kafka's own plugins, and the definitions that plugins of one kind share."""

    plugins: tuple[Plugin, ...] = ()
    definitions: Mapping[str, tuple[ConfigKey, ...]] = {}
    """Keys by definition.

    - `connector`: keys of every connector; `source`, `sink`: further keys of these.
    - `transformation`: keys of every transformation, before its own.
    - `producer`, `consumer`, `admin`: keys of clients.
    """


def checked_keys(keys: Iterable[ConfigKey]) -> tuple[ConfigKey, ...]:
    """Return the keys if their words for valid values are known and fit their types (`validators`).

    Raises:
        CatalogueError: a key has other words.
    """
    keys = tuple(keys)
    for key in keys:
        for words in key.all_valid:
            try:
                validator(words)
            except UnknownWords:
                raise CatalogueError(
                    f"{key.name}: {words!r} does not describe valid values: write for example "
                    "'[1,...]', '[none, all]' or 'non-empty string'"
                ) from None
        _check_types(key)
    return keys


_SAMPLES: Mapping[str, ConfigValue] = {
    "BOOLEAN": True,
    "STRING": "ab",
    "INT": 1,
    "SHORT": 1,
    "LONG": 1,
    "DOUBLE": 1.5,
    "LIST": ["ab"],
    "CLASS": JavaClass("a.B"),
    "PASSWORD": Password("ab"),
}
"""A value of each type of key."""


def _check_types(key: ConfigKey) -> None:
    """Refuse words whose validator fails at values of the key's type."""
    for words in key.valid:
        try:
            validator(words)(key.name, _SAMPLES[key.type])
        except InvalidValue:
            pass  # the validator takes the type
        except (TypeError, AttributeError):
            raise CatalogueError(
                f"{key.name}: {words!r} cannot be the valid values of a key of type {key.type}"
            ) from None


def _checked_plain_keys(keys: Iterable[WrittenKey]) -> tuple[ConfigKey, ...]:
    return checked_keys(key.plain() for key in keys)


_Decoded = TypeVar("_Decoded")


def decoded(text: bytes, kind: type[_Decoded]) -> _Decoded:
    """Parse a JSON text to a type.

    Raises:
        CatalogueError: the text is not JSON, does not fit the type, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CatalogueError(f"not the JSON of a catalogue: {error}") from None
    except RecursionError:
        raise CatalogueError("not the JSON of a catalogue: it is nested too deeply") from None


def parse_plugins(text: bytes, own: Sequence[Plugin] = ()) -> tuple[Plugin, ...]:
    """Parse the plugins of a catalogue file.

    Raises:
        CatalogueError: the text is no catalogue.
    """
    return WrittenCatalogue.read(text).listed(own)


def _plugins_of_entry(written: _WrittenPlugin, own: Sequence[Plugin]) -> Iterable[Plugin]:
    """The plugins of an entry; several if Kafka's own class is a plugin of several kinds.

    Raises:
        CatalogueError: the type of the plugin is unknown.
    """
    fields = written.fields()
    of_class = [plugin for plugin in own if plugin.class_name == written.class_name]
    of_type = [plugin for plugin in of_class if plugin.type == fields.get("type", plugin.type)]
    if not of_class:
        plugin = Plugin(**fields)
        if plugin.type not in _TYPES + _OTHER_TYPES:
            raise CatalogueError(
                f"{plugin.class_name}: the type {plugin.type!r} is unknown: use one of "
                f"{', '.join(_TYPES)}"
            )
        yield plugin
    for plugin in of_type or of_class:
        yield msgspec.structs.replace(plugin, **fields)


def parse_definitions(text: bytes) -> Mapping[str, tuple[ConfigKey, ...]]:
    """Parse definitions by name, each a list of keys.

    Raises:
        CatalogueError: the text has another form.
    """
    written = decoded(text, dict[str, tuple[WrittenKey, ...]])
    return {name: _checked_plain_keys(keys) for name, keys in written.items()}
