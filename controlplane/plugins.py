"""Discovery of a worker's plugins: Kafka's own, those of a catalogue file, and those in Python.

Kafka's own plugins and definitions are data files in `catalogues/`, generated from Kafka's classes
(`tests/oracle/definitions.py`). This project has written the descriptions of their settings.

Packages declare Python connectors by entry points of the group `controlplane.connectors`:

    [project.entry-points."controlplane.connectors"]
    orders = "example.orders:OrdersSource"

`Connector` describes the attributes of such a class.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, ClassVar, Literal, Protocol, get_args

from controlplane.core.configdef.key_definition import ConfigKey, Importance, Type, with_defaults
from controlplane.core.plan import HookFailure, HookOutcome, HookSuccess, Offsets
from controlplane.core.plugins import (
    CatalogueError,
    KafkaPlugins,
    Plugin,
    Plugins,
    checked_keys,
    parse_catalogue,
    parse_definitions,
    parse_descriptions,
    parse_plugins,
    unsupported,
    with_descriptions,
)
from controlplane.core.text.file_errors import unreadable
from controlplane.failure_text import description_of, message_of, place_of, shortened
from controlplane.unrun_calls import checked_result

GROUP = "controlplane.connectors"


class Connector(Protocol):
    """Class of a connector in Python; all attributes belong to the class."""

    kind: ClassVar[Literal["source", "sink"]]
    version: ClassVar[str]
    config: ClassVar[Sequence[ConfigKey]]
    """Config keys that the connector defines."""

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Return True if the connector surely reads these offsets on its next start (KIP-875).

        Raises:
            ValueError: the offsets are refused; the client gets the message.
            NotImplementedError: the connector's offsets cannot be altered from outside.
        """
        ...


class Unloadable(Exception):
    """A declared connector cannot be used. The message names the connector and the reason."""


@cache
def kafkas_own() -> KafkaPlugins:
    """Return Kafka's own plugins and definitions of all releases; cached."""
    folder = resources.files("controlplane") / "catalogues"
    plugins = parse_plugins((folder / "plugins.json").read_bytes())
    kafka_plugins = KafkaPlugins(
        plugins, parse_definitions((folder / "definitions.json").read_bytes())
    )
    return with_descriptions(
        kafka_plugins, parse_descriptions((folder / "descriptions.json").read_bytes())
    )


def catalogued(
    text: bytes = b"[]", more: Iterable[Plugin] = (), *, trusting: bool = False
) -> Plugins:
    """Return the plugins in the text of a catalogue file, those in `more`, and Kafka's own.

    With `trusting`, every other class is accepted as well; a worker refuses it.

    Raises:
        CatalogueError: the text is no catalogue.
    """
    return parse_catalogue(text, kafkas_own(), more, trusting=trusting)


def installed(catalogue: Path | None = None, *, trusting: bool = False) -> Plugins:
    """Return the plugins of a catalogue file, those of installed packages, and Kafka's own.

    Raises:
        CatalogueError: the file is no catalogue, or cannot be read.
        Unloadable: a connector of an installed package cannot be loaded.
    """
    declared = in_python()
    if catalogue is None:
        return catalogued(more=declared, trusting=trusting)
    try:
        return catalogued(catalogue.read_bytes(), declared, trusting=trusting)
    except OSError as error:
        raise CatalogueError(unreadable(catalogue, error)) from None
    except CatalogueError as error:
        raise CatalogueError(
            f"{catalogue} is no catalogue of connector classes ({error}). Give the answer of "
            f"GET /connector-plugins, a list like {_CATALOGUE}, or a file of `controlplane "
            "plugins harvest`"
        ) from None


_CATALOGUE = '[{"class": "org.example.MySource", "type": "source"}]'


def in_python() -> tuple[Plugin, ...]:
    """Return the connectors that installed packages declare, sorted by name.

    Raises:
        Unloadable: a connector cannot be loaded, or is invalid.
    """
    return tuple(_declared(point) for point in declared_connectors())


def declared_connectors() -> Sequence[EntryPoint]:
    """Return the entry points of connectors, sorted by name."""
    return _entry_points(tuple(sys.path))


@cache
def _entry_points(_search_path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Read the metadata of all packages; cached, because that takes milliseconds."""
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def described(connector: type[Any]) -> Plugin:
    """Return a connector, transformation or predicate in Python as a plugin.

    The plugin has the name `java_name` if the class has a twin in Java.

    Raises:
        Unloadable: an attribute is missing or invalid.
    """
    own_name = f"{connector.__module__}.{connector.__qualname__}"
    name: str = getattr(connector, "java_name", own_name)
    try:
        kind, version, config = connector.kind, connector.version, _listed_keys(connector.config)
        _check(kind, version, config)
        checked_keys(config)
        exactly_once = _support(connector, "exactly_once")
        boundaries = _support(connector, "boundaries")
    except (AttributeError, TypeError, CatalogueError) as error:
        raise Unloadable(f"{name} is no connector: {error}") from None
    has_hook = hasattr(connector, "alter_offsets")
    return Plugin(
        class_name=name,
        type=kind,
        version=version,
        config=config,
        hook=partial(_hook_outcome, connector, config) if has_hook else None,
        exactly_once=exactly_once,
        transaction_boundaries=boundaries or _SUPPORT[False],
    )


_KINDS = ("source", "sink", "transformation", "predicate")
_SUPPORT = {True: "supported", False: "unsupported"}
"""Kafka's words for the boolean attributes `exactly_once` and `boundaries` of a class (KIP-618)."""


def _support(connector: object, attribute: str) -> str | None:
    """Return Kafka's word for a boolean attribute of a class; None if the class leaves it open.

    Raises:
        TypeError: the attribute is no boolean.
    """
    declared = getattr(connector, attribute, None)
    if declared is None:
        return None
    if not isinstance(declared, bool):
        raise TypeError(f"its {attribute} is {declared!r:.200}, not True or False")
    return _SUPPORT[declared]


def _listed_keys(config: Any) -> tuple[Any, ...]:
    """Return the keys of a class, which may be of any type.

    Raises:
        TypeError: they are no list.
    """
    if not isinstance(config, Iterable):
        raise TypeError(
            f"its config is {config!r:.200}, which is no list of ConfigKey: "
            'write it like config = (key("topic"),)'
        )
    return tuple(config)


def _check(kind: object, version: object, config: tuple[object, ...]) -> None:
    """Check the attributes of a class, which may have any type.

    Raises:
        TypeError: an attribute has the wrong type.
    """
    if kind not in _KINDS:
        raise TypeError(f"its kind is {kind!r}: use one of {', '.join(_KINDS)}")
    if not isinstance(version, str):
        raise TypeError(f"its version is {version!r}, which is no text")
    for key in config:
        if not isinstance(key, ConfigKey):
            raise TypeError(f"its config holds {key!r}, which is no ConfigKey")
        if key.type not in get_args(Type):
            raise TypeError(f"its key {key.name!r} has the unknown type {key.type!r}")
        if key.importance not in get_args(Importance):
            raise TypeError(f"its key {key.name!r} has the unknown importance {key.importance!r}")


def _declared(point: EntryPoint) -> Plugin:
    """Load an entry point; an error names the package, as it stops every plane from opening."""
    try:
        return described(_loaded(point))
    except Unloadable as error:
        package = "a package" if point.dist is None else f"the package {point.dist.name}"
        raise Unloadable(
            f"{error} (declared as {point.name} by {package}: mend or uninstall it)"
        ) from error


def _loaded(point: EntryPoint) -> type[Connector]:
    if not EntryPoint.pattern.match(point.value):
        raise Unloadable(f"{point.value!r} names no class: write it like package.module:Class")
    try:
        loaded: type[Connector] = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may call `sys.exit`
        raise Unloadable(
            f"{point.value} cannot be loaded: {shortened(description_of(error))}"
        ) from error
    if not isinstance(loaded, type):
        raise Unloadable(f"{point.value} is no class")
    return loaded


def _hook_outcome(
    connector: type[Any], keys: Sequence[ConfigKey], config: Mapping[str, Any], offsets: Offsets
) -> HookOutcome:
    """Call the connector's hook; return its answer.

    An exception of the hook becomes the error that a worker reports.

    `keys`: config keys of the connector. The hook gets their defaults.

    The caller shortens the texts, once secrets are hidden.
    """
    try:
        answer = connector.alter_offsets(with_defaults(keys, config), offsets)
        return HookSuccess(definite=bool(checked_result(answer)))
    except NotImplementedError:
        return unsupported(config, offsets)
    except ValueError as refused:
        return HookFailure(message_of(refused))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise  # Ctrl-C: only the main thread gets this signal
        text = f"Failed to modify offsets for {connector.kind} connector {config.get('name')}"
        return HookFailure(text, f"{description_of(error)} at {place_of(error)}")
