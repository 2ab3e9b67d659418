"""A control plane whose connectors run in this process (`plugin.path`)."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from controlplane.core.plugins import Plugins
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import Log
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.rest.service import Service
from controlplane.settings import Configuration, WorkerSettings
from controlplane.terminal.output import note
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.data_topics.clients import TaskCluster
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.plugin_path import SHIPPED, classes_in
from controlplane.worker.settings import runtime_settings
from controlplane.worker.worker import ConnectWorker


class WorkerLog(NamedTuple):
    """Log of a worker, and where its connectors have their data."""

    log: Log
    worker_id: str
    """`host:port` in the statuses of connectors."""
    cluster: TaskCluster | None = None
    """Cluster of the data topics; None: the log itself has them."""


@asynccontextmanager
async def service_with_connectors(
    worker_log: WorkerLog,
    classes: ConnectorClasses,
    settings: Settings,
    around: Surroundings,
    configuration: Configuration,
) -> AsyncIterator[Service]:
    """Open a control plane and run its connectors until the block ends.

    The service also has the metrics of these connectors.

    Raises:
        LogError: the log cannot be used.
        SettingsError: a setting is invalid.
    """
    log, worker_id, cluster = worker_log
    if classes.is_empty:  # `plugin.path` of a Java worker: it names jars
        if cluster is not None:
            around = around._replace(outside=cluster.actions)
        async with ControlPlane.open(log, settings, around) as plane:
            if configuration.settings(WorkerSettings).plugin_path:
                note(
                    f"Warning: {without_connectors(configuration)}, so no connector runs here. "
                    f"The module {SHIPPED} has the connectors that ship with this program"
                )
            yield plane.service
        return
    runtime = runtime_settings(
        configuration, worker_id=worker_id, exactly_once=settings.exactly_once
    )
    around = around._replace(plugins=with_catalogue(classes.plugins(), around.plugins))
    environment = RuntimeEnvironment(classes, runtime, configuration.providers)
    async with ConnectWorker.open(log, environment, settings, around, cluster) as running:
        yield running.plane.compose_service(metrics=running.metrics)


def classes_of(configuration: Configuration) -> ConnectorClasses:
    """Import the connector classes that the settings name.

    Raises:
        Unloadable: a module or directory of `plugin.path` cannot be loaded.
        SettingsError: a setting is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    folders = [Path(folder) for folder in worker.connectors_folders]
    classes = classes_in(worker.plugin_path, folders)
    if not classes.is_empty:
        places = [Path(place) for place in worker.plugin_path]
        _warn_of_missing("plugin.path", [place for place in places if place.is_absolute()])
        _warn_of_missing("connectors.folders", folders)
    return classes


def without_connectors(configuration: Configuration) -> str:
    """First part of a message: `plugin.path` has no connectors. Missing entries are marked."""
    entries = [
        f"{place} does not exist"
        if Path(place).is_absolute() and not Path(place).exists()
        else place or "an empty entry"
        for place in configuration.settings(WorkerSettings).plugin_path
    ]
    named = ", ".join(entries) or "empty"
    return f"plugin.path names no Python module or directory with connectors ({named})"


def _warn_of_missing(key: str, places: Iterable[Path]) -> None:
    for place in places:
        if not place.exists():
            note(f"Warning: {key} names {safe(str(place))}, which does not exist")


def with_catalogue(runnable: Plugins, declared: Plugins | None) -> Plugins:
    """Return the plugins that run here, and those that a catalogue declares."""
    if declared is None or not (declared.listed or declared.trusting):
        return runnable
    return Plugins(
        (*runnable.listed, *declared.listed),
        runnable.own,
        trusting=declared.trusting,
        running_here=runnable.running_here,
    )
