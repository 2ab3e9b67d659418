"""A worker in this process whose connectors run on a broker."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

from controlplane.connect.transforms import Predicate, Transformation
from controlplane.core.state import Topics
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.log_factory import open_kafka_log
from controlplane.notices import Notices
from controlplane.plane import Surroundings
from controlplane.plane_settings import plane_settings, with_brokers
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.sources import flag_values
from controlplane.worker.connector_classes import AnyConnectorClass, ConnectorClasses
from controlplane.worker.data_topics.kafka_clients import BrokerCluster
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.worker import ConnectWorker
from tests.kafka.own_service import own_settings
from tests.kafka.real_kafka import Broker
from tests.worker.worker_fixture import QUICK


@asynccontextmanager
async def worker_on(
    broker: Broker,
    topics: Topics,
    *classes: AnyConnectorClass,
    others: Iterable[type[Transformation | Predicate]] = (),
    notices: Notices | None = None,
    limits: RuntimeSettings = QUICK,
    bootstrap: str | None = None,
    **settings: object,
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with these classes; `__` in a setting's name is a dot.

    `bootstrap`: address of another listener of the broker.
    """
    bootstrap = bootstrap or broker.bootstrap
    overrides = {key.replace("__", "."): str(value) for key, value in settings.items()}
    texts = own_settings(topics) | overrides
    configuration = Configuration(flag_values((key, key, text) for key, text in texts.items()))
    worker_settings = configuration.settings(WorkerSettings)
    log = await open_kafka_log(f"kafka://{bootstrap}", configuration)
    clusters = ConnectorClusters(bootstrap, configuration)
    runtime = msgspec.structs.replace(
        limits,
        exactly_once=worker_settings.exactly_once,
        producer=msgspec.structs.replace(
            limits.producer, create_topics=worker_settings.topic_creation_enable
        ),
    )
    try:
        async with ConnectWorker.open(
            log,
            RuntimeEnvironment(ConnectorClasses(classes, others=others), runtime),
            with_brokers(plane_settings(configuration, on_kafka=True), bootstrap),
            Surroundings(notices=notices),
            BrokerCluster(bootstrap, configuration, clusters),
        ) as worker:
            yield worker
    finally:
        await clusters.close()
        await log.close()
