"""Options that several commands share: the log, the output format, the plugins, the release."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.moments import quoted
from controlplane.core.plugins import CatalogueError, Plugins
from controlplane.core.releases.profiles import Profile, check_support, resolve
from controlplane.core.state import Topics
from controlplane.logs.cluster_topics import renamed
from controlplane.logs.dumps import FORMATS
from controlplane.logs.log_factory import DumpForm, OpenOptions
from controlplane.plugins import installed
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.environment import WORKER_FILE
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.option_names import MOMENT, Decorated, checked_moment
from controlplane.terminal.output import note
from controlplane.terminal.table_text import wide_option
from controlplane.terminal.worker_options import FILE, TOPICS, warn_of_unknown, worker_options

__all__ = [
    "FILE",
    "LogOptions",
    "as_of_option",
    "exactly_once_option",
    "log_options",
    "not_empty",
    "output_option",
    "plugins_option",
    "read_plugins",
    "read_profile",
    "trust_option",
]


class LogOptions(msgspec.Struct, frozen=True):
    """Options about a log: a worker's settings, and the form of a dump (a file of records)."""

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
        """Topics (`config`, `status`, …) that the user named explicitly.

        A flag counts always; a file or a variable only if its topic is not the default one.
        """
        values = self.configuration.values
        flags = {key for key, setting in values.items() if setting.source.kind == "flag"}
        keys = zip(Topics.__struct_fields__, TOPICS.values(), strict=True)
        return renamed(self.topics) | {topic for topic, (key, _) in keys if key in flags}

    def opening(self, *, exactly_once: bool = True) -> OpenOptions:
        """Options for opening the log.

        `exactly_once`: a cluster is read only up to its last stable offset.
        """
        return OpenOptions(
            self.topics, self.configuration, exactly_once, self.form, self.named, NAMING
        )


NAMING = (
    "topics are named by --config-topic and the like, by --worker-properties, or by the file in "
    f"{WORKER_FILE}"
)


def log_options(command: Decorated) -> Decorated:
    """Add the options about a log; the command gets them as one argument, `reading: LogOptions`.

    Prints warnings about unknown keys and empty values.
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


_COUNT = re.compile("[0-9]{1,9}")


def _numbers(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, int]:
    """Parse `TOPIC=N`, given once per topic."""
    numbers = {}
    for text in texts:
        topic, _, number = text.rpartition("=")
        if not topic or not _COUNT.fullmatch(number):
            raise click.BadParameter(f"{quoted(text)} is not of the form TOPIC=N")
        numbers[topic] = int(number)
    return numbers


_FORM_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--format",
        metavar="NAME",
        help=f"Format of a dump: {', '.join(FORMATS)}. [default: detected]",
    ),
    click.option("--topic", metavar="NAME", help="Topic of a dump that names none."),
    click.option(
        "--partition",
        metavar="N",
        type=WholeNumber(0),
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
        help="Number of partitions of a dump's topic: offsets=25. May be repeated. "
        "[default: from the dump, else the smallest that fits its records]",
    ),
)


def not_empty(_: click.Context, __: click.Parameter, given: Any) -> Any:
    """Refuse an empty text as an option or argument: usually an unset variable of a script.

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


def as_of_option(command: Decorated) -> Decorated:
    """Add `--as-of MOMENT`; the command gets `as_of`."""
    return click.option(
        "--as-of",
        metavar="MOMENT",
        callback=checked_moment,
        help=f"Read the log up to a moment: {MOMENT}. [default: the end]",
    )(command)


def exactly_once_option(command: Decorated) -> Decorated:
    """Add `--exactly-once`; the command gets `exactly_once`."""
    return click.option(
        "--exactly-once",
        is_flag=True,
        help="Act like a worker with exactly-once support: skip aborted configs and offsets. "
        "[default: as `exactly.once.source.support` says]",
    )(command)


def plugins_option(command: Decorated) -> Decorated:
    """Add `--plugins FILE`; the command gets `plugins`, the path or None."""
    return click.option(
        "--plugins",
        type=FILE,
        metavar="FILE",
        help="File of connector classes: the output of GET /connector-plugins or of `plugins "
        "harvest`. Kafka's own classes and those of installed packages are always known. "
        "[default: the file of `plugins.catalogue`]",
    )(command)


def trust_option(command: Decorated) -> Decorated:
    """Add `--trust-unknown-classes`; the command gets `trust_unknown_classes`."""
    return click.option(
        "--trust-unknown-classes",
        is_flag=True,
        help="Accept configs with connector classes and other plugins that are not declared. "
        "[default: as `plugins.trust.unknown` says, or refuse them like a worker]",
    )(command)


def read_plugins(
    path: Path | None, settings: WorkerSettings | None = None, *, trusting: bool = False
) -> Plugins:
    """The plugins of a catalogue file, of installed packages, and Kafka's own.

    `path` and `trusting` come from flags and beat the settings.

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
    """The catalogue file: `path` from a flag, else the one in the settings."""
    if path is None and settings.plugins_catalogue:
        return Path(settings.plugins_catalogue)
    return path


def read_profile(name: str, *, exactly_once: bool = False) -> Profile:
    """The profile of a release by its name; prints a warning if the release is too new.

    Raises:
        UnknownRelease: no such release, or one without `exactly_once` support.
    """
    resolved = resolve(name)
    check_support(resolved.profile, exactly_once=exactly_once)
    if resolved.warning:
        note(f"Warning: {resolved.warning}")
    return resolved.profile
