"""The command `standalone`: a worker with its connectors in one process, until Ctrl-C."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from controlplane.cli.connector_requests import ConnectorRequest, read_requests
from controlplane.cli.running_connectors import classes_of, with_catalogue
from controlplane.cli.serve_command import announce, remark_as
from controlplane.cli.serve_options import ServeOptions, writer_settings
from controlplane.cli.service_run import Listening, serve_until_signal
from controlplane.client.http.request_errors import Declined
from controlplane.core.plan import Rejected
from controlplane.core.releases.profiles import KIP
from controlplane.core.text.safe_text import safe
from controlplane.logger_levels import Loggers
from controlplane.logs.log import ReadableLog
from controlplane.logs.names import path_of
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.observe import LOG_FORMATS, LogFormat, Logger, LogSettings
from controlplane.plane import Settings
from controlplane.projection.retention import FOREVER
from controlplane.rest.service import Service
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.errors import SettingsError
from controlplane.settings.prefixes import LOG, SQLITE
from controlplane.terminal.log_options import LogOptions, read_plugins, read_profile
from controlplane.terminal.output import note, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.worker_options import FILE, OVERRIDE, configured, warn_of_unknown
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import runtime_settings
from controlplane.worker.standalone.offset_file import LoadedOffsets, OffsetFile
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from controlplane.worker.standalone.standalone_log import StandaloneLog
from controlplane.worker.worker import ConnectWorker

OFFSETS_FILE, DATA_LOG, BROKERS = "offset.storage.file.filename", "data.log", "bootstrap.servers"
"""Settings that say where a standalone worker keeps its data."""

SUPERSEDED_KEPT_MS = 600_000
"""Retention of superseded configs, statuses and offsets, which lie in memory here. A log in a file
keeps them forever."""


@click.command()
@click.argument("worker_properties", type=FILE)
@click.argument(
    "connectors", nargs=-1, shell_complete=complete_files, metavar="[CONNECTOR_FILE]..."
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Address to listen on. [default: from `listeners`, or 127.0.0.1]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on; 0: any free one. [default: from `listeners`, or 8083]",
)
@click.option(
    "--release",
    default=KIP,
    metavar="RELEASE",
    help="Release to answer as, for requests without profile=. [default: kip]",
)
@click.option(
    OVERRIDE,
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a setting of the worker; beats its file and the environment. May be repeated.",
)
@click.option("--quiet", is_flag=True, help="Log no requests and commands.")
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    is_eager=True,
    callback=lambda _context, _option, chosen: remark_as(chosen),
    help="Format of log lines on standard error. [default: from `log.format`, or logfmt]",
)
def standalone(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    worker_properties: Path,
    connectors: tuple[str, ...],
    host: str | None,
    port: int | None,
    release: str,
    override: tuple[str, ...],
    quiet: bool,
    log_format: LogFormat | None,
) -> None:
    """Run a standalone worker, and create the connectors of files: connect-standalone.sh in Python.

    WORKER_PROPERTIES is the worker's .properties file. Its plugin.path names the modules and
    directories whose connectors may run, offset.storage.file.filename the file of source offsets. A
    CONNECTOR_FILE is .properties, or JSON: a config with its name, or the body of POST /connectors,
    also with initial_state and initial_offsets.

    Configs and statuses end with the process. Offsets stay in their file, which Java's standalone
    worker reads, too. Topics lie in the embedded log data.log (default: the name of the offsets
    file with .data.db behind it). Exit code 3: a connector cannot be created or started.
    """
    configuration = configured(worker_properties, {}, override)
    warn_of_unknown(configuration)
    settings = configuration.settings(WorkerSettings)
    storage = _storage(configuration, settings)
    offsets = storage.offsets.load()
    profile = read_profile(release)
    form = log_format or configuration.settings(LogSettings, LOG).format
    remark_as(form)
    requests = read_requests(connectors, profile)
    classes = _runnable(configuration)
    service = ServeOptions(
        storage.data_log,
        LogOptions(configuration, settings),
        profile,
        read_plugins(None, settings),
        exactly_once=False,
        follow=True,
        quiet=quiet,
        log_format=form,
        read_only=False,
    )
    serve_until_signal(
        service,
        configuration,
        Listening(host, port),
        partial(_open, partial(_opened_log, storage, offsets), classes),
        partial(_create_and_announce, _Beginning(storage, requests)),
    )


class _Storage(NamedTuple):
    """Places of a standalone worker's data."""

    offsets: OffsetFile
    data_log: str


class _Beginning(NamedTuple):
    """What a worker begins with."""

    storage: _Storage
    requests: list[ConnectorRequest]


def _storage(configuration: Configuration, settings: WorkerSettings) -> _Storage:
    """Return where the data lie.

    Raises:
        SettingsError: the settings do not say so, or name brokers.
    """
    if settings.offset_storage_file_filename is None:
        raise SettingsError(
            f'Missing required configuration "{OFFSETS_FILE}" which has no default value: name the '
            "file of source offsets"
        )
    offsets = OffsetFile(Path(settings.offset_storage_file_filename))
    if settings.data_log is not None:
        return _Storage(offsets, settings.data_log)
    if settings.bootstrap_servers is not None:
        source = configuration.values[BROKERS].source
        raise SettingsError(
            f"{source}: {BROKERS} names brokers, and connectors cannot use topics on Kafka yet: "
            f"leave it out, or set {DATA_LOG}=sqlite:///FILE, which keeps their topics in a file"
        )
    return _Storage(offsets, f"sqlite:///{offsets.path}.data.db")


def _runnable(configuration: Configuration) -> ConnectorClasses:
    """Return the connectors that may run.

    Raises:
        Unloadable: a module or directory cannot be loaded.
        SettingsError: there is none.
    """
    classes = classes_of(configuration)
    if classes.is_empty:
        raise SettingsError(
            "plugin.path names no Python module or directory with connectors, so none can run: add "
            "controlplane.connectors for those that ship, or a module of your own"
        )
    return classes


@asynccontextmanager
async def _open(
    opened_log: Callable[[ServeOptions], AbstractAsyncContextManager[StandaloneLog]],
    classes: ConnectorClasses,
    service: ServeOptions,
    tell: Logger,
    loggers: Loggers,
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open the worker's log and run its connectors."""
    configuration = service.reading.configuration
    if service.reading.settings.exactly_once:
        note("Warning: exactly.once.source.support has no effect in a standalone worker")
    settings, around = writer_settings(service, tell, loggers)
    around = around._replace(plugins=with_catalogue(classes.plugins(), around.plugins))
    runtime = msgspec.structs.replace(
        runtime_settings(configuration, worker_id=service.worker_id), exactly_once=False
    )
    environment = RuntimeEnvironment(classes, runtime, configuration.providers)
    async with (
        opened_log(service) as log,
        ConnectWorker.open(log, environment, _in_memory(settings), around) as worker,
    ):
        yield worker.plane.service._replace(commands=StandaloneCommands(worker)), log


@asynccontextmanager
async def _opened_log(
    storage: _Storage, offsets: LoadedOffsets, service: ServeOptions
) -> AsyncIterator[StandaloneLog]:
    """Open the worker's log and the log of the topics.

    Raises:
        LogError: that log cannot be used.
    """
    limits = service.reading.configuration.settings(SqliteSettings, SQLITE)
    records = await SqliteLog.open(path_of(storage.data_log), settings=limits)
    try:
        log = await StandaloneLog.open(service.reading.topics, records, storage.offsets, offsets)
        try:
            yield log
        finally:
            await log.close()
    finally:
        await records.close()


def _in_memory(settings: Settings) -> Settings:
    """Return the settings of a plane whose log lies in memory: without history, if not set."""
    retention = settings.upkeep.retention
    if retention.superseded_ms == FOREVER:
        retention = msgspec.structs.replace(retention, superseded_ms=SUPERSEDED_KEPT_MS)
    return msgspec.structs.replace(
        settings,
        exactly_once=False,
        worker=msgspec.structs.replace(settings.worker, exactly_once_source=False),
        upkeep=msgspec.structs.replace(settings.upkeep, retention=retention),
    )


async def _create_and_announce(
    beginning: _Beginning,
    service: ServeOptions,
    log: ReadableLog,
    rest_service: Service,
    url: str,
) -> None:
    """Create the connectors of the files, one after the other; requests are answered meanwhile.

    Raises:
        Declined: a connector cannot be created or started.
    """
    assert rest_service.commands is not None
    (offsets, data_log), requests = beginning
    for file, command in requests:
        answer = await rest_service.commands.carry_out(
            command, principal="standalone", key=None, profile=service.dialect
        )
        if isinstance(answer, Rejected):
            raise Declined(f"Failed to create connector for {file}: {answer.sentence}")
        answered = getattr(answer, "facts", {}).get("initial_offsets_response")
        say(f"Created connector {safe(command.connector)}{f'. {answered}' if answered else ''}")
    say(
        f"Source offsets are in {safe(str(storage.offsets.path))}, topics in {safe(storage.data_log)}"
    )
    await announce(service, log, rest_service, url)
