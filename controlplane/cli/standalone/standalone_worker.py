"""A standalone worker as its settings describe it: its log and its connectors."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from controlplane.cli.serve.running_connectors import (
    classes_of,
    with_catalogue,
    without_connectors,
)
from controlplane.cli.serve.serve_options import ServeOptions, writer_settings
from controlplane.cli.standalone.worker_storage import OpenStorage
from controlplane.logger_levels import Loggers
from controlplane.logs.log import ReadableLog
from controlplane.observe import Logger
from controlplane.plane import Settings
from controlplane.projection.retention import DAY_MS
from controlplane.rest.service import Service
from controlplane.settings import Configuration
from controlplane.settings.errors import SettingsError
from controlplane.settings.prefixes import UPKEEP
from controlplane.terminal.output import note
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import runtime_settings
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from controlplane.worker.worker import ConnectWorker

KEPT_MS = {"superseded_ms": 600_000, "commands_ms": DAY_MS}
"""Default retention of superseded configs, statuses and offsets, and of commands, in ms. They lie
in memory here. A log in a file keeps superseded records forever, and commands for 30 days."""


def runnable_classes(configuration: Configuration) -> ConnectorClasses:
    """Return the connectors that may run.

    Raises:
        Unloadable: a module or directory cannot be loaded.
        SettingsError: there is none.
    """
    classes = classes_of(configuration)
    if classes.is_empty:
        raise SettingsError(
            f"{without_connectors(configuration)}, so no connector can run. Name "
            "controlplane.connectors for the connectors that ship, or a module of your own"
        )
    return classes


@asynccontextmanager
async def open_worker(
    opened: Callable[[ServeOptions], AbstractAsyncContextManager[OpenStorage]],
    classes: ConnectorClasses,
    service: ServeOptions,
    notices: Logger,
    loggers: Loggers,
) -> AsyncIterator[tuple[Service, ReadableLog]]:
    """Open the worker's log and run its connectors; the service also has their metrics."""
    configuration = service.reading.configuration
    if service.reading.settings.exactly_once:
        note("Warning: exactly.once.source.support has no effect in a standalone worker")
    settings, around = writer_settings(service, notices, loggers)
    around = around._replace(plugins=with_catalogue(classes.plugins(), around.plugins))
    runtime = runtime_settings(configuration, worker_id=service.worker_id, exactly_once=False)
    environment = RuntimeEnvironment(classes, runtime, configuration.providers)
    async with (
        opened(service) as (log, cluster),
        ConnectWorker.open(
            log, environment, settings_in_memory(settings, configuration), around, cluster
        ) as worker,
    ):
        commands = StandaloneCommands(worker)
        yield worker.plane.compose_service(commands, worker.metrics), log


def settings_in_memory(settings: Settings, configuration: Configuration) -> Settings:
    """Return the settings of a plane whose log lies in memory.

    Superseded records and commands are kept for a shorter time, unless the configuration names
    their retention.
    """
    configured = configuration.values.keys()
    kept_ms = {
        name: kept
        for name, kept in KEPT_MS.items()
        if f"{UPKEEP}retention.{name.replace('_', '.')}" not in configured
    }
    retention = msgspec.structs.replace(settings.upkeep.retention, **kept_ms)
    return msgspec.structs.replace(
        settings,
        exactly_once=False,
        worker=msgspec.structs.replace(settings.worker, exactly_once_source=False),
        upkeep=msgspec.structs.replace(settings.upkeep, retention=retention),
    )
