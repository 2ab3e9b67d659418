"""A standalone worker as its settings describe it: offsets file, log of topics, connectors."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.cli.running_connectors import classes_of, with_catalogue
from controlplane.cli.serve_options import ServeOptions, writer_settings
from controlplane.logger_levels import Loggers
from controlplane.logs.log import ReadableLog
from controlplane.logs.names import SQLITE as SQLITE_SCHEME
from controlplane.logs.names import path_of
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.observe import Logger
from controlplane.plane import Settings
from controlplane.projection.retention import DAY_MS, RetentionSettings
from controlplane.rest.service import Service
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.errors import SettingsError
from controlplane.settings.prefixes import SQLITE
from controlplane.terminal.output import note
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import runtime_settings
from controlplane.worker.standalone.offset_file import LoadedOffsets, OffsetFile
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from controlplane.worker.standalone.standalone_log import StandaloneLog
from controlplane.worker.worker import ConnectWorker

OFFSETS_FILE, RECORDS_LOG, BROKERS = (
    "offset.storage.file.filename",
    "records.log",
    "bootstrap.servers",
)
"""Settings that say where a standalone worker keeps its data."""

SUPERSEDED_KEPT_MS = 600_000
"""Retention of superseded configs, statuses and offsets in ms: they lie in memory here. A log in a
file keeps them forever."""


class WorkerStorage(NamedTuple):
    """Places of a standalone worker's data."""

    offsets: OffsetFile
    records_log: str


def storage_of(configuration: Configuration, settings: WorkerSettings) -> WorkerStorage:
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
    if settings.records_log is not None:
        return WorkerStorage(offsets, _embedded(settings.records_log))
    if settings.bootstrap_servers is not None:
        source = configuration.values[BROKERS].source
        raise SettingsError(
            f"{source}: {BROKERS} names brokers, and connectors cannot use topics on Kafka yet: "
            f"leave it out, or set {RECORDS_LOG}=sqlite:///FILE, which keeps their topics in a file"
        )
    if offsets.path.exists() and not offsets.path.is_file():
        raise SettingsError(f"{offsets.path} is no file: set {RECORDS_LOG}=sqlite:///FILE, too")
    return WorkerStorage(offsets, _embedded(f"{offsets.path}.records.db"))


def _embedded(where: str) -> str:
    """Return the name of an embedded log; a path is one, too.

    Raises:
        SettingsError: it names another kind of log.
    """
    if not where.startswith(SQLITE_SCHEME) and "://" in where:
        raise SettingsError(f"{RECORDS_LOG} is {where}: use sqlite:///FILE")
    return where if where.startswith(SQLITE_SCHEME) else f"{SQLITE_SCHEME}/{where}"


def runnable_classes(configuration: Configuration) -> ConnectorClasses:
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
async def open_worker(
    opened: Callable[[ServeOptions], AbstractAsyncContextManager[StandaloneLog]],
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
        opened(service) as log,
        ConnectWorker.open(log, environment, settings_in_memory(settings), around) as worker,
    ):
        yield worker.plane.service._replace(commands=StandaloneCommands(worker)), log


@asynccontextmanager
async def opened_log(
    storage: WorkerStorage, offsets: LoadedOffsets, service: ServeOptions
) -> AsyncIterator[StandaloneLog]:
    """Open the worker's log and the log of the topics.

    Raises:
        LogError: that log cannot be used.
    """
    limits = service.reading.configuration.settings(SqliteSettings, SQLITE)
    records = await SqliteLog.open(path_of(storage.records_log), settings=limits)
    try:
        log = await StandaloneLog.open(service.reading.topics, records, storage.offsets, offsets)
        try:
            yield log
        finally:
            await log.close()
    finally:
        await records.close()


def settings_in_memory(settings: Settings) -> Settings:
    """Return the settings of a plane whose log lies in memory.

    Superseded records and commands are kept for a shorter time, unless a retention is configured.
    """
    retention, default = settings.upkeep.retention, RetentionSettings()
    if retention.superseded_ms == default.superseded_ms:
        retention = msgspec.structs.replace(retention, superseded_ms=SUPERSEDED_KEPT_MS)
    if retention.commands_ms == default.commands_ms:
        retention = msgspec.structs.replace(retention, commands_ms=DAY_MS)
    return msgspec.structs.replace(
        settings,
        exactly_once=False,
        worker=msgspec.structs.replace(settings.worker, exactly_once_source=False),
        upkeep=msgspec.structs.replace(settings.upkeep, retention=retention),
    )
