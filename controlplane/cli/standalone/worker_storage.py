"""Places of a standalone worker's data: offsets file, and data topics on brokers or in a file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from controlplane.cli.serve.serve_options import ServeOptions
from controlplane.logs.memory import MemoryLog
from controlplane.logs.names import KAFKA, is_cluster, path_of, without_login
from controlplane.logs.names import SQLITE as SQLITE_SCHEME
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.settings import WorkerSettings
from controlplane.settings.errors import SettingsError
from controlplane.settings.prefixes import SQLITE
from controlplane.worker.data_topics.clients import TaskCluster
from controlplane.worker.standalone.offset_file import LoadedOffsets, OffsetFile
from controlplane.worker.standalone.standalone_log import StandaloneLog

OFFSETS_FILE, RECORDS_LOG = "offset.storage.file.filename", "records.log"
"""Settings that, with `bootstrap.servers`, say where a standalone worker keeps its data."""


class WorkerStorage(NamedTuple):
    """Places of a standalone worker's data."""

    offsets: OffsetFile
    topic_store: str
    """`kafka://brokers`, or the name of an embedded log."""


class OpenStorage(NamedTuple):
    """Open log of a standalone worker, and the cluster of its data topics."""

    log: StandaloneLog
    cluster: TaskCluster | None
    """None: the log has the data topics, too."""


def storage_of(settings: WorkerSettings) -> WorkerStorage:
    """Return where the data lie.

    Raises:
        SettingsError: the settings name no offsets file, or topics cannot be stored.
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
        return WorkerStorage(offsets, f"{KAFKA}{settings.bootstrap_servers}")
    if offsets.path.exists() and not offsets.path.is_file():
        raise SettingsError(
            f"{OFFSETS_FILE} is {offsets.path}, which is no regular file, so topics cannot be "
            f"stored beside it: set {RECORDS_LOG}=sqlite:///FILE"
        )
    return WorkerStorage(offsets, _embedded(f"{offsets.path}.records.db"))


def _embedded(where: str) -> str:
    """Return the name of an embedded log with `sqlite://`, from such a name or from a path.

    Raises:
        SettingsError: it names another kind of log.
    """
    if not where.startswith(SQLITE_SCHEME) and "://" in where:
        raise SettingsError(f"{RECORDS_LOG} is {without_login(where)}: use sqlite:///FILE")
    return where if where.startswith(SQLITE_SCHEME) else f"{SQLITE_SCHEME}/{where}"


@asynccontextmanager
async def opened_storage(
    storage: WorkerStorage, offsets: LoadedOffsets, service: ServeOptions
) -> AsyncIterator[OpenStorage]:
    """Open the worker's log, and the data topics. `offsets`: those of the file.

    Raises:
        LogError: the log or the brokers of the data topics cannot be used.
        SettingsError: a setting is invalid.
    """
    opened = _on_brokers if is_cluster(storage.topic_store) else _embedded_topics
    async with opened(storage, offsets, service) as open_storage:
        try:
            yield open_storage
        finally:
            await open_storage.log.close()


@asynccontextmanager
async def _embedded_topics(
    storage: WorkerStorage, offsets: LoadedOffsets, service: ServeOptions
) -> AsyncIterator[OpenStorage]:
    limits = service.reading.configuration.settings(SqliteSettings, SQLITE)
    records = await SqliteLog.open(path_of(storage.topic_store), settings=limits)
    try:
        yield OpenStorage(
            await StandaloneLog.open(service.reading.topics, records, storage.offsets, offsets),
            cluster=None,
        )
    finally:
        await records.close()


@asynccontextmanager
async def _on_brokers(
    storage: WorkerStorage, offsets: LoadedOffsets, service: ServeOptions
) -> AsyncIterator[OpenStorage]:
    # Imported here: embedded topics need no client of Kafka.
    from controlplane.logs.kafka.connector_clusters import (  # noqa: PLC0415
        ConnectorClusters,
        own_cluster_id,
    )
    from controlplane.worker.data_topics.kafka_clients import BrokerCluster  # noqa: PLC0415

    configuration = service.reading.configuration
    cluster_id = await own_cluster_id("", configuration)
    clusters = ConnectorClusters("", configuration)
    try:
        yield OpenStorage(
            await StandaloneLog.open(
                service.reading.topics, MemoryLog(), storage.offsets, offsets, cluster_id
            ),
            BrokerCluster("", configuration, clusters, offsets_in_log=True),
        )
    finally:
        await clusters.close()
