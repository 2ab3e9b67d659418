"""Options that several commands share: which topics, how to get in, how to print."""

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from controlplane.core.plugins import CatalogueError, Plugins, parse_catalogue
from controlplane.core.profiles import Profile, check_support, resolve
from controlplane.core.state import Topics
from controlplane.logs.opening import DumpForm, Opening
from controlplane.security import KafkaSecurity
from controlplane.settings import WorkerSettings, read_worker_properties

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


class Reading(msgspec.Struct, frozen=True):
    """What is told about a log on the command line: a worker's settings and a dump's form."""

    settings: WorkerSettings = WorkerSettings()
    bootstrap: str | None = None
    """The brokers in a worker's file, for whoever says `kafka://` and no more."""
    security: KafkaSecurity | None = None
    format: str | None = None
    topic: str | None = None
    partition: int = 0
    null: str = "null"
    named: frozenset[str] = frozenset()
    """Topics (`config`, `status`, …) whose names were given, by flag or in the worker's file."""

    @property
    def topics(self) -> Topics:
        """The names of the cluster's topics."""
        told = self.settings
        return Topics(told.config_topic, told.offset_topic, told.status_topic, told.commands_topic)

    def opening(self, *, exactly_once: bool = True) -> Opening:
        """How to open the log; `exactly_once` as the worker reads that is asked for."""
        form = DumpForm(self.format, self.topic, self.partition, self.null)
        return Opening(
            self.topics, self.bootstrap, self.security, exactly_once, form, self.named, _NAMING
        )


_NAMING = "topics are named by --config-topic and the like, or by --worker-properties"


_TOPICS = {
    "config_topic": "Topic of configs.",
    "offset_topic": "Topic of source offsets.",
    "status_topic": "Topic of statuses.",
    "command_topic": "Topic of commands (ours).",
}
_FIELDS = {"command_topic": "commands_topic"}
"""Settings whose field has another name than the option."""


def log_options(command: Command) -> Command:
    """Add the options about a log; the command gets them as one argument, `reading: Reading`."""

    @functools.wraps(command)
    def with_reading(**arguments: Any) -> Any:
        told = {name: arguments.pop(name) for name in (*_TOPICS, *_FORM)}
        reading = _reading(arguments.pop("worker_properties"), told)
        return command(reading=reading, **arguments)

    for option in reversed(_log_options()):
        with_reading = option(with_reading)
    return with_reading  # type: ignore[return-value]  # click's decorators change the type


def _log_options() -> list[Callable[[Any], Any]]:
    usual = WorkerSettings()
    names = [
        click.option(
            f"--{name.replace('_', '-')}",
            metavar="NAME",
            help=f"{about} [default: {getattr(usual, _FIELDS.get(name, name))}]",
        )
        for name, about in _TOPICS.items()
    ]
    return [
        *names,
        click.option(
            "--worker-properties",
            type=FILE,
            metavar="FILE",
            help="Take topics, exactly-once support, TLS and SASL from a worker's .properties.",
        ),
        click.option("--format", metavar="NAME", help="Format of a dump, if it is not detected."),
        click.option("--topic", metavar="NAME", help="Topic of a dump that does not name it."),
        click.option(
            "--partition",
            metavar="N",
            type=click.IntRange(0),
            default=0,
            help="Partition of a dump that does not name it. [default: 0]",
        ),
        click.option(
            "--null",
            metavar="TEXT",
            default="null",
            help="What the console consumer printed for null. [default: null]",
        ),
    ]


_FORM = ("format", "topic", "partition", "null")
"""Options on the form of a dump."""


def _reading(properties: Path | None, told: dict[str, Any]) -> Reading:
    """Flags beat the file."""
    settings, bootstrap, security = WorkerSettings(), None, None
    if properties is not None:
        settings, bootstrap, security = read_worker_properties(properties)
    topics = {_FIELDS.get(name, name): told[name] for name in _TOPICS if told[name]}
    settings = msgspec.structs.replace(settings, **topics)
    form = {name: told[name] for name in _FORM}
    named = _named(settings, topics)
    return Reading(settings, bootstrap, security, **form, named=named)


def _named(settings: WorkerSettings, flags: Collection[str]) -> frozenset[str]:
    """Which topics somebody named. A file that repeats the usual name says nothing new."""
    usual = WorkerSettings()
    return frozenset(
        what
        for what, field in zip(Topics.__struct_fields__, _NAMES, strict=True)
        if field in flags or getattr(settings, field) != getattr(usual, field)
    )


_NAMES = tuple(_FIELDS.get(name, name) for name in _TOPICS)
"""The settings with the topics' names, in the order of `Topics`."""


def output_option(command: Command) -> Command:
    """Add `-o table|json`; the command gets `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        help="Tables for people, or JSON for machines.",
    )(command)


def plugins_option(command: Command) -> Command:
    """Add `--plugins FILE`; the command gets `plugins`, the path or None."""
    return click.option(
        "--plugins",
        type=FILE,
        metavar="FILE",
        help="Connector classes, as GET /connector-plugins lists them: types follow from it.",
    )(command)


def read_plugins(path: Path | None) -> Plugins:
    """The catalogue in a file; without one every type is unknown.

    Raises:
        CatalogueError: not a catalogue.
    """
    if path is None:
        return Plugins()
    try:
        return parse_catalogue(path.read_bytes())
    except CatalogueError as error:
        raise CatalogueError(
            f"{path} is no catalogue of connector classes ({error}): give the answer of "
            f"GET /connector-plugins, or a list like {_CATALOGUE}"
        ) from None


_CATALOGUE = '[{"class": "org.example.MySource", "type": "source"}]'


def read_profile(name: str, *, exactly_once: bool = False) -> Profile:
    """The profile of a release by its name; a release too new to be known is warned of.

    Raises:
        UnknownRelease: the name means nothing, or no release with `exactly_once` support.
    """
    found = resolve(name)
    check_support(found.profile, exactly_once=exactly_once)
    if found.warning:
        click.echo(f"Warning: {found.warning}", err=True)
    return found.profile
