"""Clusters on which a worker asks for the consumer groups and producers of its connectors."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from controlplane.logs.kafka.cluster import BrokerAddress, Cluster, addresses
from controlplane.logs.kafka.consumer_groups import GroupAdmin
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.settings import (
    Configuration,
    SourcedValue,
    SourceValues,
    ValueSource,
    WorkerSettings,
)
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.prefixes import READER
from controlplane.settings.security import KafkaSecurity

_BOOTSTRAP = "bootstrap.servers"
_ACCESS = (_BOOTSTRAP, "security.protocol", "sasl.", "ssl.")
"""Settings of a client, or prefixes of them, that select a cluster and the access to it."""

_ADMIN = "admin."


class _ClusterAccess(NamedTuple):
    """Brokers of a cluster, and the security of connections to them."""

    brokers: tuple[BrokerAddress, ...]
    security: KafkaSecurity


class ConnectorClusters:
    """Consumer groups on the cluster of a worker, and on those that connectors override.

    The client of a worker has, by precedence, `admin.override.*` of the connector's config,
    `admin.*` of the worker's settings, and the worker's own settings (Kafka:
    `Worker#adminConfigs`). Connections to the worker's own cluster stay open; those to another
    cluster are opened for a request, as a worker does.
    """

    def __init__(self, bootstrap: str, configuration: Configuration) -> None:
        """Open no connection yet. `bootstrap` empty: the setting `bootstrap.servers`."""
        self._bootstrap = bootstrap
        self._configuration = configuration
        self._opening = asyncio.Lock()
        self._home: tuple[_ClusterAccess, Cluster] | None = None

    @asynccontextmanager
    async def groups(self, overrides: Mapping[str, str]) -> AsyncIterator[GroupAdmin]:
        """Open the groups of a connector's cluster, and close them after the block.

        `overrides`: `admin.override.*` of the connector's config, without the prefix.

        Raises:
            SettingsError: the settings of the connection are invalid.
            LogNotUsable: an address is invalid.
        """
        limits = self._configuration.settings(ReadLimits, READER)
        own, home = await self._opened_home(limits)
        access = await asyncio.to_thread(self._access, overrides)
        if access == own:
            yield GroupAdmin(home, limits)
            return
        cluster = await asyncio.to_thread(Cluster, *access, limits)
        try:
            yield GroupAdmin(cluster, limits)
        finally:
            await cluster.close()

    async def close(self) -> None:
        """Close the connections to the worker's own cluster."""
        if self._home is not None:
            await self._home[1].close()

    async def _opened_home(self, limits: ReadLimits) -> tuple[_ClusterAccess, Cluster]:
        async with self._opening:
            if self._home is None:
                # In a thread: key stores are files, and their keys take long to derive.
                access = await asyncio.to_thread(self._access, {})
                self._home = access, await asyncio.to_thread(Cluster, *access, limits)
            return self._home

    def _access(self, overrides: Mapping[str, str]) -> _ClusterAccess:
        source = ValueSource("file", "admin.override.* of the connector")
        sourced = {key: SourcedValue(value, source) for key, value in overrides.items()}
        admin = {
            key.removeprefix(_ADMIN): value
            for key, value in self._configuration.values.items()
            if key.startswith(_ADMIN)
        }
        stronger: tuple[SourceValues, ...] = tuple(map(_only_access, (sourced, admin)))
        configuration = self._configuration.beneath(*stronger)
        brokers = self._bootstrap
        if not brokers or any(_BOOTSTRAP in source for source in stronger):
            brokers = configuration.settings(WorkerSettings).bootstrap_servers or ""
        security = configuration.make(AccessSettings, kafka_security)
        return _ClusterAccess(addresses(brokers), security)


def _only_access(values: SourceValues) -> SourceValues:
    return {key: value for key, value in values.items() if key.startswith(_ACCESS)}
