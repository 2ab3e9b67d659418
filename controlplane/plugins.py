"""Finds the plugins of a worker: Kafka's own, those of a catalogue file, and those in Python.

Kafka's own plugins and definitions lie beside this package as data files, written from Kafka's own
classes (`tests/oracle/definitions.py`), and descriptions of their settings in our own words.
Connectors in Python are found by entry points of the group `controlplane.connectors`, as packages
declare them:

    [project.entry-points."controlplane.connectors"]
    orders = "example.orders:OrdersSource"

What such a class tells of itself is written at `Connector`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, ClassVar, Literal, Protocol

from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.file_sentences import unreadable
from controlplane.core.plan import Done, HookOutcome, Offsets, Thrown
from controlplane.core.plugins import (
    CatalogueError,
    Own,
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

GROUP = "controlplane.connectors"


class Connector(Protocol):
    """What the class of a connector in Python tells of itself; none of it needs an instance."""

    kind: ClassVar[Literal["source", "sink"]]
    version: ClassVar[str]
    config: ClassVar[Sequence[ConfigKey]]
    """The keys that it defines."""

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Whether these offsets are surely where the connector looks for them (KIP-875).

        Raises:
            ValueError: they are refused; the message is what the asker reads.
            NotImplementedError: nobody may alter them from outside.
        """
        ...


class Unloadable(Exception):
    """A connector is declared and cannot be used. The message says which, and why."""


@cache
def kafkas_own() -> Own:
    """What Kafka itself brings, of every release."""
    folder = resources.files("controlplane") / "catalogues"
    plugins = parse_plugins((folder / "plugins.json").read_bytes())
    own = Own(plugins, parse_definitions((folder / "definitions.json").read_bytes()))
    return with_descriptions(own, parse_descriptions((folder / "descriptions.json").read_bytes()))


def catalogued(
    text: bytes = b"[]", more: Iterable[Plugin] = (), *, trusting: bool = False
) -> Plugins:
    """The plugins that a catalogue file lists, `more` of them, and Kafka's own.

    Where it is `trusting`, every other class is taken to be there; a worker refuses it.

    Raises:
        CatalogueError: it is no catalogue.
    """
    return parse_catalogue(text, kafkas_own(), more, trusting=trusting)


def installed(catalogue: Path | None = None, *, trusting: bool = False) -> Plugins:
    """The plugins of a catalogue file, those of installed packages, and Kafka's own.

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
            f"{catalogue} is no catalogue of connector classes ({error}): give the answer of "
            f"GET /connector-plugins, a list like {_CATALOGUE}, or a file that `controlplane "
            "plugins harvest` wrote"
        ) from None


_CATALOGUE = '[{"class": "org.example.MySource", "type": "source"}]'


def in_python() -> tuple[Plugin, ...]:
    """The connectors that installed packages declare, in the order of their names.

    Raises:
        Unloadable: one of them cannot be used.
    """
    declared = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return tuple(_declared(point) for point in declared)


def described(connector: type[Connector]) -> Plugin:
    """A connector in Python as one plugin among others.

    Raises:
        Unloadable: it does not tell what it must.
    """
    name = f"{connector.__module__}.{connector.__qualname__}"
    try:
        kind, version, config = connector.kind, connector.version, tuple(connector.config)
        _check(kind, version, config)
        checked_keys(config)
    except (AttributeError, TypeError, CatalogueError) as error:
        raise Unloadable(f"{name} is no connector: {error}") from None
    hook = partial(_asked, connector) if hasattr(connector, "alter_offsets") else None
    return Plugin(class_name=name, type=kind, version=version, config=config, hook=hook)


def _check(kind: object, version: object, config: tuple[object, ...]) -> None:
    """What a class tells may be anything.

    Raises:
        TypeError: it is not what it must be.
    """
    if kind not in ("source", "sink"):
        raise TypeError(f"its kind is {kind!r}, not source or sink")
    if not isinstance(version, str):
        raise TypeError(f"its version is {version!r}, which is no text")
    for key in config:
        if not isinstance(key, ConfigKey):
            raise TypeError(f"its config holds {key!r}, which is no ConfigKey")


def _declared(point: EntryPoint) -> Plugin:
    """One bad package keeps every plane from opening, so it is named."""
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
    except Exception as error:
        raise Unloadable(f"{point.value} cannot be loaded: {error!r}") from error
    if not isinstance(loaded, type):
        raise Unloadable(f"{point.value} is no class")
    return loaded


def _asked(connector: type[Connector], config: Mapping[str, Any], offsets: Offsets) -> HookOutcome:
    """The connector's answer, or what a worker says of its error."""
    try:
        return Done(definite=bool(connector.alter_offsets(config, offsets)))
    except NotImplementedError:
        return unsupported(config, offsets)
    except ValueError as refused:
        return Thrown(str(refused))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise  # Ctrl-C: Python tells the main thread of it, and no other
        return Thrown(
            f"Failed to modify offsets for {connector.kind} connector {config.get('name')}"
        )
