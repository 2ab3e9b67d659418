"""Connections of the clients of tasks to brokers, with the settings of worker and connector."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from controlplane.connect.errors import ConnectError
from controlplane.logs.kafka.admin.client_topics import ClientTopics
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.connector_clusters import (
    BrokerAccess,
    client_access,
    client_sources,
    own_access,
)
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogNotUsable
from controlplane.notices import Notices
from controlplane.settings import Configuration, SettingsError
from controlplane.settings.prefixes import READER
from controlplane.worker.data_topics.client_settings import (
    AdminSettings,
    ClientKind,
    ProducerSettings,
    SinkConsumerSettings,
    client_overrides,
    warn_of_settings,
    without_effect,
)
from controlplane.worker.task_identity import TaskIdentity

BOOTSTRAP = "bootstrap.servers"

_PORT = re.compile(r":[0-9]+$")

CLUSTERS_KEPT = 100
"""Maximum number of clusters whose key stores stay loaded: a changed config may add another."""

SettingsT = TypeVar("SettingsT", ProducerSettings, SinkConsumerSettings, AdminSettings)


class TaskClient(NamedTuple):
    """Task whose client is opened, and the connector's config, resolved."""

    task: TaskIdentity
    config: Mapping[str, str]
    kind: ClientKind

    @property
    def overrides(self) -> dict[str, str]:
        """Settings of the client that the connector's config overrides (KIP-458)."""
        return client_overrides(self.config, self.kind)


class ClientConnection(NamedTuple):
    """Connections of one client, and the topics that it sees."""

    cluster: Cluster
    topics: ClientTopics


class ClientConnections:
    """Opens connections for clients of one worker.

    A setting of a client is the connector's override, else the worker's setting with the client's
    prefix. For the access to the cluster, the worker's own settings are the last choice.
    """

    def __init__(self, bootstrap: str, configuration: Configuration, notices: Notices) -> None:
        """Open no connection yet.

        If `bootstrap` is empty, the setting `bootstrap.servers` is used.
        """
        self._bootstrap = bootstrap
        self._configuration = configuration
        self._notices = notices
        self.reading = configuration.settings(ReadLimits, READER)
        self._clusters: list[tuple[BrokerAccess, Cluster]] = []
        """Clusters by access. Each reads its key stores once, and opens no connection.

        Each client has a `Cluster.twin`, with connections of its own.
        """

    def settings(self, client: TaskClient, table: type[SettingsT]) -> SettingsT:
        """Return the settings of a client, and warn of those without effect.

        Raises:
            ConnectError: a value is invalid.
        """
        sources = client_sources(self._configuration, client.kind, client.overrides)
        prefixes = f"{client.kind}.override.", f"{client.kind}."
        ineffective = [
            prefix + key
            for prefix, values in zip(prefixes, sources, strict=True)
            for key in without_effect(client.kind, values)
        ]
        warn_of_settings(self._notices, client.task, ineffective)
        try:
            return Configuration(*sources).settings(table)
        except SettingsError as failure:
            raise ConnectError(str(failure)) from failure

    @asynccontextmanager
    async def opened(
        self, client: TaskClient | None, options: Mapping[str, Any], max_age_ms: int
    ) -> AsyncIterator[ClientConnection]:
        """Open connections of a client (None: of the worker itself) until the block ends.

        `options`: those of aiokafka's client. `max_age_ms`: age at which a
        topic's number of partitions is requested again.

        Raises:
            ConnectError: a setting is invalid.
        """
        cluster = (await self._cluster(await self._access(client))).twin(options)
        try:
            yield ClientConnection(cluster, ClientTopics(cluster, max_age_ms))
        finally:
            await cluster.close()

    async def _access(self, client: TaskClient | None) -> BrokerAccess:
        if client is not None and BOOTSTRAP in client.overrides:
            await check_brokers(client.overrides[BOOTSTRAP])
        try:
            if client is None:
                return await asyncio.to_thread(own_access, self._bootstrap, self._configuration)
            return await asyncio.to_thread(
                client_access, self._bootstrap, self._configuration, client.kind, client.overrides
            )
        except (SettingsError, LogNotUsable) as failure:
            raise ConnectError(str(failure)) from failure

    async def _cluster(self, access: BrokerAccess) -> Cluster:
        for opened_access, cluster in self._clusters:
            if opened_access == access:
                return cluster
        cluster = await asyncio.to_thread(Cluster, *access, self.reading)
        self._clusters = [*self._clusters, (access, cluster)][-CLUSTERS_KEPT:]
        return cluster


async def check_brokers(text: str) -> None:
    """Check the brokers in `bootstrap.servers`; a broker that is down is no failure.

    Kafka: `ClientUtils`.

    Raises:
        ConnectError: an address has no port, or no host can be resolved.
    """
    urls = [url.strip() for url in text.split(",") if url.strip()]
    for url in urls:
        if not _PORT.search(url):
            raise ConnectError(f"Invalid url in {BOOTSTRAP}: {url}")
    loop = asyncio.get_running_loop()
    for url in urls:
        host, _, port = url.rpartition(":")
        # An empty or long label is a UnicodeError, and a port may have very many digits.
        with suppress(socket.gaierror, ValueError, OverflowError):
            await loop.getaddrinfo(host.strip("[]"), int(port))
            return
    raise ConnectError(f"No resolvable bootstrap urls given in {BOOTSTRAP}")
