"""Opening of a control plane whose only storage is its own topics in Kafka (`serve --own`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from controlplane.cli.serve.running_connectors import (
    WorkerLog,
    classes_of,
    service_with_connectors,
)
from controlplane.core.text.safe_text import count
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import open_kafka_log
from controlplane.logs.names import brokers_of
from controlplane.plane import Settings, Surroundings
from controlplane.plane_settings import with_brokers
from controlplane.rest.service import Service
from controlplane.settings import Configuration, WorkerSettings
from controlplane.worker.data_topics.kafka_clients import BrokerCluster

HOSTS_SHOWN = 3
"""Maximum number of hosts that the message about the members of a group names."""


@asynccontextmanager
async def own_service(
    where: str,
    configuration: Configuration,
    settings: Settings,
    around: Surroundings,
    worker_id: str = "",
) -> AsyncIterator[Service]:
    """Open a cluster's topics as their control plane, unless they belong to Java workers.

    Offsets of sinks are those of their consumer groups on the brokers. With `plugin.path`,
    connectors run in this process; `worker_id` is the `host:port` in their statuses.

    Raises:
        LogError: the brokers cannot be used, or the topics or the group belong to others.
        Unloadable: a module or directory of `plugin.path` cannot be loaded.
        SettingsError: a setting is invalid.
    """
    log = await open_kafka_log(where, configuration)
    clusters = ConnectorClusters(brokers_of(where), configuration)
    try:
        worker = configuration.settings(WorkerSettings)
        await check_free_group(log, worker.group_id)
        await log.check_readable(msgspec.structs.astuple(worker.topics))
        brokers = BrokerCluster(brokers_of(where), configuration, clusters)
        worker_log = WorkerLog(log, worker_id, brokers)
        settings = with_brokers(settings, brokers_of(where))
        classes = classes_of(configuration)
        async with service_with_connectors(
            worker_log, classes, settings, around, configuration
        ) as own:
            yield own
    finally:
        await clusters.close()
        await log.close()


async def check_free_group(log: KafkaLog, group: str) -> None:
    """Raise `LogNotUsable` if a worker's group has members: then a Connect cluster runs there."""
    members = await log.group_members(group)
    if members.hosts:
        hosts = ", ".join(sorted({*members.hosts})[:HOSTS_SHOWN])
        raise LogNotUsable(
            f"group {group} has {count(len(members.hosts), 'member')} of the protocol "
            f"{members.protocol_type}, on {hosts}: a cluster runs there, and its workers write "
            "these topics. Stop them, set another group.id, or send commands to them with `serve "
            "--connect-url`"
        )
