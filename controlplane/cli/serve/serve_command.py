"""The command `serve`: Connect's REST API over a log, until Ctrl-C."""

import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from controlplane.cli.serve.attached_options import (
    AttachedOptions,
    attached_options,
    attached_settings,
)
from controlplane.cli.serve.curl_examples import LATER, find_contrast, lines
from controlplane.cli.serve.serve_options import (
    ServeOptions,
    address_options,
    check_own,
    log_format_in_force,
    log_line_options,
    writer_settings,
)
from controlplane.cli.serve.service_run import ListenOptions, OpenService, serve_until_signal
from controlplane.core import views
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.releases.profiles import KIP
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import count, safe
from controlplane.logger_levels import Loggers
from controlplane.logs.cluster_topics import split_config
from controlplane.logs.log import Log, LogError, ReadableLog
from controlplane.logs.log_factory import open_log
from controlplane.logs.names import SQLITE, NoSuchLog
from controlplane.observe import LogFormat, Logger
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.read_only.read_only_service import (
    listener_configuration,
    read_only_settings,
    reading_service,
)
from controlplane.rest.requests import COMPAT
from controlplane.rest.service import Service
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import (
    LogOptions,
    exactly_once_option,
    log_options,
    plugins_option,
    read_plugins,
    read_profile,
    trust_option,
)
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import note, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.writable_log import open_writable

if TYPE_CHECKING:
    from controlplane.worker.connector_classes import ConnectorClasses


@click.command()
@click.argument("log", shell_complete=complete_files)
@click.option(
    "--follow/--no-follow",
    default=True,
    help="Follow the log as it grows, or serve its present state. [default: --follow]",
)
@address_options
@named_option(
    "--release",
    "dialect",
    former=("--dialect", "--profile"),
    default=KIP,
    metavar="RELEASE",
    help="Release to answer as, for requests without profile=. [default: kip; with --connect-url: "
    "that of the workers]",
)
@exactly_once_option
@click.option(
    "--read-only", is_flag=True, help="Refuse commands. [default: for logs that cannot be written]"
)
@click.option(
    "--own",
    is_flag=True,
    help="Keep the state in topics of kafka:// that belong to this process, and run commands. "
    "Refused if a Connect cluster uses them.",
)
@log_line_options
@plugins_option
@trust_option
@attached_options
@log_options
def serve(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    log: str,
    follow: bool,
    host: str | None,
    port: int | None,
    dialect: str,
    exactly_once: bool,
    read_only: bool,
    own: bool,
    quiet: bool,
    log_format: LogFormat | None,
    trust_unknown_classes: bool,
    plugins: Path | None,
    flags: Mapping[str, Any],
    reading: LogOptions,
) -> None:
    """Serve Kafka Connect's REST API from LOG, as a worker of any release would.

    An embedded log (sqlite:///state.db) is read and written: this process becomes its control
    plane. It is created if it does not exist. kafka://host:port and files of records are only read.
    With --own, Kafka is the only storage of this process, which creates and writes topics there.
    With --connect-url, commands go to the workers of that cluster, through their REST API.

    Every endpoint takes profile=RELEASE. Reads also take as_of=MOMENT: a time (UTC without
    a zone), a record (config@57), or a vector of end offsets. Paths under /compat/RELEASE/ are
    answered exactly as by that release.
    """
    support = exactly_once or reading.settings.exactly_once
    profile = read_profile(dialect, exactly_once=support)
    form = log_format_in_force(log_format, reading.configuration)
    declared_plugins = read_plugins(plugins, reading.settings, trusting=trust_unknown_classes)
    service = ServeOptions(
        log, reading, profile, declared_plugins, support, follow, quiet, form, read_only, own
    )
    connect = attached_settings(log, reading.configuration, flags)
    if own:
        check_own(service, attached=connect is not None)
    if connect is not None and service.follow and not read_only:
        release = None if _is_default("dialect") else profile
        service = msgspec.structs.replace(service, attached=AttachedOptions(connect, release))
    elif flags:
        raise InputRefused("--connect-url steers a cluster: leave out --read-only and --no-follow")
    listeners = listener_configuration(log, reading.configuration, own=own)
    serve_until_signal(service, listeners, ListenOptions(host, port), _opening(service), announce)


def _is_default(parameter: str) -> bool:
    """True if the command line does not give an option."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.DEFAULT


def _opening(service: ServeOptions) -> OpenService:
    """Return the function that opens the log."""
    if service.attached is not None:
        return _open_attached
    if service.own:
        return _open_own
    return _open_as_writer if service.runs_commands else _open_read_only


@asynccontextmanager
async def _open_attached(
    service: ServeOptions, notices: Logger, loggers: Loggers
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open the topics of a cluster for reading, and its workers for commands."""
    # Imported here: most logs are served without an HTTP client.
    from controlplane.cli.serve.attached_cluster import attached  # noqa: PLC0415

    assert service.attached is not None
    async with attached(
        service.where,
        service.reading,
        service.attached,
        exactly_once=service.exactly_once,
        notices=notices,
        loggers=loggers,
    ) as rest_service:
        yield rest_service, rest_service.log


@asynccontextmanager
async def _open_own(
    service: ServeOptions, notices: Logger, loggers: Loggers
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open topics of a cluster as their control plane."""
    # Imported here: other logs are served without Kafka's producer.
    from controlplane.cli.serve.own_topics import own_service  # noqa: PLC0415

    settings, around = writer_settings(service, notices, loggers)
    configuration, worker_id = service.reading.configuration, service.worker_id
    async with own_service(service.where, configuration, settings, around, worker_id) as own:
        assert own.log is not None
        yield own, own.log


@asynccontextmanager
async def _service(
    service: ServeOptions,
    classes: "ConnectorClasses | None",
    log: Log,
    settings: Settings,
    around: Surroundings,
) -> AsyncIterator[Service]:
    """Open a control plane; its connectors run here if there are classes for them."""
    if classes is None:
        async with ControlPlane.open(log, settings, around) as plane:
            yield plane.service
        return
    # Imported here: most planes run no connectors.
    from controlplane.cli.serve.running_connectors import (  # noqa: PLC0415
        WorkerLog,
        service_with_connectors,
    )

    worker_log = WorkerLog(log, service.worker_id)
    configuration = service.reading.configuration
    async with service_with_connectors(
        worker_log, classes, settings, around, configuration
    ) as running:
        yield running


def _runnable_classes(service: ServeOptions) -> "ConnectorClasses | None":
    """Import the connector classes of `plugin.path`; None if it is empty.

    Raises:
        Unloadable: a module or directory cannot be loaded.
    """
    if not service.plugin_path:
        return None
    # Imported here: most planes run no connectors.
    from controlplane.cli.serve.running_connectors import classes_of  # noqa: PLC0415

    return classes_of(service.reading.configuration)


_READ = "serve the log with --read-only"
"""Advice if another process is the control plane of the log."""


@asynccontextmanager
async def _open_as_writer(
    service: ServeOptions, notices: Logger, loggers: Loggers
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open an embedded log as its control plane."""
    settings, around = writer_settings(service, notices, loggers)
    # Imported before the log is opened: an error then leaves no new, empty log behind.
    classes = _runnable_classes(service)
    async with open_writable(service.where, service.reading, _READ) as (log, missing):
        _warn(service, missing)
        async with _service(service, classes, log, settings, around) as rest_service:
            _warn(service, split_config(settings.topics, await log.topics()))
            yield rest_service, log


@asynccontextmanager
async def _open_read_only(
    service: ServeOptions, notices: Logger, loggers: Loggers
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open a log that others write, for reading."""
    reading, exactly_once = service.reading, service.exactly_once
    try:
        opened = await open_log(service.where, reading.opening(exactly_once=exactly_once))
    except NoSuchLog as missing:
        raise NoSuchLog(f"{missing}{_creation_advice(service)}") from None
    try:
        _warn(service, opened.problems)
        settings = read_only_settings(
            service.where,
            reading.configuration,
            service.dialect,
            service.plugins,
            exactly_once=exactly_once,
        )
        async with reading_service(
            opened,
            settings,
            live=service.follow,
            notices=notices,
            loggers=loggers,
        ) as rest_service:
            yield rest_service, opened.log
    finally:
        await opened.log.close()


def _creation_advice(service: ServeOptions) -> str:
    """End of the error about a missing log: how `serve` creates one, or why it does not."""
    where = service.where
    if service.read_only or not service.follow:
        return ". --read-only and --no-follow create no log" if where.startswith(SQLITE) else ""
    return f". `controlplane serve {SQLITE}/{where}` creates a log there"


def _warn(service: ServeOptions, problems: Iterable[str]) -> None:
    for problem in problems:
        note(f"Warning: {safe(service.where)}: {safe(problem)}")


CLASSES_NAMED = 5
"""Number of unknown classes that are named at start-up."""


def _note_unknown_classes(service: ServeOptions, plugins: Plugins, state: ClusterState) -> None:
    """Warn of connectors whose configs cannot be changed, as their classes are not declared."""
    configs = state.config.connectors.values()
    used = {str(config.get("connector.class")) for config in configs}
    unknown = sorted(name for name in used if plugins.type_of(name, state.profile) == UNKNOWN_TYPE)
    if unknown and not plugins.trusting:
        ellipsis = "" if len(unknown) <= CLASSES_NAMED else ", …"
        note(
            f"Warning: {safe(service.where)}: connectors use classes that are not declared: "
            f"{safe(', '.join(unknown[:CLASSES_NAMED]))}{ellipsis}. Changes of their configs are "
            "refused: declare the classes with --plugins, or use --trust-unknown-classes"
        )


async def announce(
    service: ServeOptions, log: ReadableLog, rest_service: Service, url: str
) -> None:
    """Print the URL and examples once the log has been read."""
    state = await rest_service.follower.state(rest_service.dialect)
    connectors = count(len(views.connectors(state)), "connector")
    try:
        contrast = await find_contrast(log, service.reading.topics, rest_service.follower.ends)
    except LogError:
        # An outage of the log does not end the service. A failed search for an example must not
        # end it either.
        contrast = None
    say(f"{safe(service.where)}: {connectors}, answered as {state.profile.release} on {url}")
    release = LATER if state.profile.release == KIP else state.profile.release
    say(f"For tools that expect Kafka Connect, use {url}{COMPAT}{release}")
    if state.unreadable:
        records = count(state.unreadable_count, "record")
        note(
            f"Warning: {safe(service.where)}: at least {records} of configs and statuses cannot be "
            "read, or are ignored. `controlplane inspect` counts all of them, unreadable offsets "
            "included, and shows reasons"
        )
    if service.runs_commands:
        _note_unknown_classes(service, rest_service.plugins, state)
    say("Ctrl-C ends the service. To try:")
    for line in lines(url, state, contrast):
        say(f"  {line}")
    sys.stdout.flush()
