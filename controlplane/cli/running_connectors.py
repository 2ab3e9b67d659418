"""A control plane whose connectors run in this process (`plugin.path`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from controlplane.core.plugins import Plugins
from controlplane.logs.log import Log
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.settings import Configuration, WorkerSettings
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.plugin_path import classes_in
from controlplane.worker.settings import runtime_settings
from controlplane.worker.worker import ConnectWorker


@asynccontextmanager
async def plane_with_connectors(
    log: Log,
    settings: Settings,
    around: Surroundings,
    configuration: Configuration,
    worker_id: str,
) -> AsyncIterator[ControlPlane]:
    """Open a control plane and run its connectors until the block ends.

    `worker_id` is the `host:port` in their statuses.

    Raises:
        Unloadable: a module or directory of `plugin.path` cannot be loaded.
        LogError: the log cannot be used.
        SettingsError: a setting is invalid.
    """
    classes = classes_of(configuration)
    if classes.is_empty:  # `plugin.path` of a Java worker: it names jars
        async with ControlPlane.open(log, settings, around) as plane:
            yield plane
        return
    runtime = runtime_settings(configuration, worker_id=worker_id)
    if settings.exactly_once:
        runtime = msgspec.structs.replace(runtime, exactly_once=True)
    around = around._replace(plugins=with_catalogue(classes.plugins(), around.plugins))
    environment = RuntimeEnvironment(classes, runtime, configuration.providers)
    async with ConnectWorker.open(log, environment, settings, around) as running:
        yield running.plane


def classes_of(configuration: Configuration) -> ConnectorClasses:
    """Import the connector classes that the settings name.

    Raises:
        Unloadable: a module or directory of `plugin.path` cannot be loaded.
        SettingsError: a setting is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    return classes_in(worker.plugin_path, [Path(folder) for folder in worker.connectors_folders])


def with_catalogue(runnable: Plugins, declared: Plugins | None) -> Plugins:
    """Return the plugins that run here, and those that a catalogue declares."""
    if declared is None or not (declared.listed or declared.trusting):
        return runnable
    return Plugins((*runnable.listed, *declared.listed), runnable.own, trusting=declared.trusting)
