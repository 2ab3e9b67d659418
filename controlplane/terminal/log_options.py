"""Options that several commands share: about a log, how to print, whose eyes."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.plugins import CatalogueError, Plugins
from controlplane.core.releases.profiles import Profile, check_support, resolve
from controlplane.core.state import Topics
from controlplane.logs.log_factory import DumpForm, Opening
from controlplane.logs.topic_checks import renamed
from controlplane.plugins import installed
from controlplane.settings import Configuration, WorkerSettings
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.table_text import wide_option
from controlplane.terminal.worker_options import FILE, TOPICS, warn_of_unknown, worker_options

__all__ = [
    "FILE",
    "LogOptions",
    "log_options",
    "not_empty",
    "output_option",
    "plugins_option",
    "read_plugins",
    "read_profile",
    "trust_option",
]


class LogOptions(msgspec.Struct, frozen=True):
    """Options about a log: a worker's settings and a dump's form."""

    configuration: Configuration = Configuration()
    settings: WorkerSettings = WorkerSettings()
    """The worker's settings in the configuration."""
    form: DumpForm = DumpForm()

    @property
    def topics(self) -> Topics:
        """The names of the cluster's topics."""
        return self.settings.topics

    @property
    def named(self) -> frozenset[str]:
        """Topics (`config`, `status`, …) that somebody named.

        A flag does. A file that repeats the usual name says nothing new, nor does a variable.
        """
        told = self.configuration.values
        flags = {key for key, one in told.items() if one.source.kind == "flag"}
        names = zip(Topics.__struct_fields__, TOPICS.values(), strict=True)
        return renamed(self.topics) | {what for what, (key, _) in names if key in flags}

    def opening(self, *, exactly_once: bool = True) -> Opening:
        """Options for opening the log; `exactly_once` as the worker reads it."""
        return Opening(self.topics, self.configuration, exactly_once, self.form, self.named, NAMING)


NAMING = "topics are named by --config-topic and the like, or by --worker-properties"


def log_options(command: Decorated) -> Decorated:
    """Add the options about a log; the command gets them as one argument, `reading: Reading`.

    Settings that mean nothing are warned of.
    """

    @functools.wraps(command)
    def with_reading(configuration: Configuration, **arguments: Any) -> Any:
        warn_of_unknown(configuration)
        form = DumpForm(**{name: arguments.pop(name) for name in DumpForm.__struct_fields__})
        settings = configuration.settings(WorkerSettings)
        return command(reading=LogOptions(configuration, settings, form), **arguments)

    for option in reversed(_FORM_OPTIONS):
        with_reading = option(with_reading)
    return worker_options(with_reading)  # type: ignore[return-value]  # click changes the type


def _numbers(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, int]:
    """Numbers by topic, as `TOPIC=N` tells them."""
    found = {}
    for text in given:
        topic, _, number = text.rpartition("=")
        if not topic or not number.isascii() or not number.isdecimal():
            raise click.BadParameter(f"{text!r} is not of the form TOPIC=N")
        found[topic] = int(number)
    return found


_FORM_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--format", metavar="NAME", help="Format of a dump, if it is not detected."),
    click.option("--topic", metavar="NAME", help="Topic of a dump that names none."),
    click.option(
        "--partition",
        metavar="N",
        type=click.IntRange(0),
        default=0,
        help="Partition of a dump that names none. [default: 0]",
    ),
    click.option(
        "--null",
        metavar="TEXT",
        default="null",
        help="Text that the console consumer printed for null. [default: null]",
    ),
    click.option(
        "--partitions",
        metavar="TOPIC=N",
        multiple=True,
        callback=_numbers,
        help="Number of partitions of a dump's topic: offsets=25. [default: from the dump, else "
        "the smallest that fits its records]",
    ),
)


def not_empty(_: click.Context, __: click.Parameter, given: Any) -> Any:
    """Refuse an empty text, for options and arguments: a variable of a script is not set.

    Raises:
        BadParameter: the value, or one of several, is empty.
    """
    if "" in ((given,) if isinstance(given, str) else given or ()):
        raise click.BadParameter("it is empty: give a value, or leave it out")
    return given


def output_option(command: Decorated) -> Decorated:
    """Add `-o table|json` and `--wide`; the command gets `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        help="Tables for people, or JSON for machines. [default: table]",
    )(wide_option(command))


def plugins_option(command: Decorated) -> Decorated:
    """Add `--plugins FILE`; the command gets `plugins`, the path or None."""
    return click.option(
        "--plugins",
        type=FILE,
        metavar="FILE",
        help="Connector classes, as GET /connector-plugins lists them or `plugins harvest` writes "
        "them. [default: the file of `plugins.catalogue`, or Kafka's own classes alone]",
    )(command)


def trust_option(command: Decorated) -> Decorated:
    """Add `--trust-unknown-classes`; the command gets `trust_unknown_classes`."""
    return click.option(
        "--trust-unknown-classes",
        is_flag=True,
        help="Accept configs of connector classes and other plugins that are not declared. "
        "[default: `plugins.trust.unknown`, or refuse them as a worker does]",
    )(command)


def read_plugins(
    path: Path | None, settings: WorkerSettings | None = None, *, trusting: bool = False
) -> Plugins:
    """The plugins of a catalogue file, of installed packages, and Kafka's own.

    A flag is stronger than the settings.

    Raises:
        CatalogueError: not a catalogue.
        Unloadable: a connector of an installed package cannot be loaded.
    """
    settings = settings or WorkerSettings()
    trusting = trusting or settings.plugins_trust_unknown
    try:
        return installed(catalogue_file(path, settings), trusting=trusting)
    except CatalogueError as error:
        source = "plugins.catalogue" if path is None else "--plugins"
        raise CatalogueError(f"{source}: {error}") from None


def catalogue_file(path: Path | None, settings: WorkerSettings) -> Path | None:
    """The catalogue that a flag names, else the one that the settings name."""
    if path is None and settings.plugins_catalogue:
        return Path(settings.plugins_catalogue)
    return path


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
