"""Clusters with the consumer groups and producers of connectors, and the access to them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from controlplane.logs.kafka.admin.bounded_retry import retried
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin
from controlplane.logs.kafka.cluster import BrokerAddress, Cluster, addresses
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


class BrokerAccess(NamedTuple):
    """Brokers of a cluster, and the security of connections to them."""

    brokers: tuple[BrokerAddress, ...]
    security: KafkaSecurity


class ConnectorClusters:
    """Consumer groups on the worker's cluster, and on clusters that connectors select instead.

    The settings of an admin client have three sources, by precedence (Kafka:
    `Worker#adminConfigs`). They are `admin.override.*` of the connector's config, `admin.*` of the
    worker's settings, the worker's own settings. Connections to the worker's own cluster stay open.
    Connections to other clusters are opened per request, as a worker does.
    """

    def __init__(self, bootstrap: str, configuration: Configuration) -> None:
        """Open no connection yet. An empty `bootstrap` means the setting `bootstrap.servers`."""
        self._bootstrap = bootstrap
        self._configuration = configuration
        self._opening = asyncio.Lock()
        self._home: tuple[BrokerAccess, Cluster] | None = None

    @asynccontextmanager
    async def groups(self, overrides: Mapping[str, str]) -> AsyncIterator[GroupAdmin]:
        """Open the groups of a connector's cluster.

        Connections to a cluster other than the worker's are closed after the block.

        `overrides`: `admin.override.*` of the connector's config, without the prefix.

        Raises:
            SettingsError: the settings of the connection are invalid.
            LogNotUsable: an address is invalid.
        """
        limits = self._configuration.settings(ReadLimits, READER)
        home_access, home = await self._open_home(limits)
        access = await asyncio.to_thread(self._access, overrides)
        if access == home_access:
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

    async def _open_home(self, limits: ReadLimits) -> tuple[BrokerAccess, Cluster]:
        async with self._opening:
            if self._home is None:
                # In a thread: it reads key stores, whose key derivation is slow.
                access = await asyncio.to_thread(self._access, {})
                self._home = access, await asyncio.to_thread(Cluster, *access, limits)
            return self._home

    def _access(self, overrides: Mapping[str, str]) -> BrokerAccess:
        return client_access(self._bootstrap, self._configuration, "admin", overrides)


def client_access(
    bootstrap: str, configuration: Configuration, client: str, overrides: Mapping[str, str]
) -> BrokerAccess:
    """Return brokers and security of a connector's client.

    Sources by precedence: `overrides`; `<client>.*` of the worker's settings; the worker's own
    settings. `overrides` are `<client>.override.*` of the connector's config, without the prefix. A
    non-empty `bootstrap` replaces the worker's own `bootstrap.servers`.

    Raises:
        SettingsError: a setting is invalid.
        LogNotUsable: an address is invalid.
    """
    client_layers = tuple(map(_only_access, client_sources(configuration, client, overrides)))
    layered = configuration.beneath(*client_layers)
    brokers = bootstrap
    if not brokers or any(_BOOTSTRAP in source for source in client_layers):
        brokers = layered.settings(WorkerSettings).bootstrap_servers or ""
    return BrokerAccess(addresses(brokers), layered.make(AccessSettings, kafka_security))


def remote_access(
    bootstrap: str, configuration: Configuration, client: str, overrides: Mapping[str, str]
) -> BrokerAccess:
    """Return brokers and security of a client that uses the offsets topic of a connector.

    The topic is on the cluster of the connector's producer, which writes it. The client's settings
    may lead to the worker's own brokers, for example if they name no brokers. Then the result is
    the producer's access, since the worker's brokers may lack the topic. A Java worker uses its own
    brokers even then, and may not find the topic. The keys of `overrides` keep their prefix, such
    as `producer.override.`.

    Raises:
        SettingsError, LogNotUsable: see `client_access`.
    """

    def access_of(kind: str) -> BrokerAccess:
        prefix = f"{kind}.override."
        own = {
            key.removeprefix(prefix): value
            for key, value in overrides.items()
            if key.startswith(prefix)
        }
        return client_access(bootstrap, configuration, kind, own)

    access = access_of(client)
    if {*access.brokers} == {*own_access(bootstrap, configuration).brokers}:
        return access_of("producer")
    return access


def own_access(bootstrap: str, configuration: Configuration) -> BrokerAccess:
    """Return brokers and security of the worker itself; `bootstrap` as for `client_access`.

    Raises:
        SettingsError: a setting is invalid.
        LogNotUsable: an address is invalid.
    """
    brokers = bootstrap or configuration.settings(WorkerSettings).bootstrap_servers or ""
    return BrokerAccess(addresses(brokers), configuration.make(AccessSettings, kafka_security))


async def own_cluster_id(bootstrap: str, configuration: Configuration) -> str | None:
    """Return the id of the worker's own cluster (`WorkerConfig#kafkaClusterId`).

    It waits up to `reader.admin.patience.ms` while no broker answers.

    Raises:
        SettingsError: a setting is invalid.
        LogUnavailable: no broker answers.
        LogNotUsable: an address is invalid, or the brokers refuse the client.
    """
    limits = configuration.settings(ReadLimits, READER)
    access = await asyncio.to_thread(own_access, bootstrap, configuration)
    cluster = await asyncio.to_thread(Cluster, *access, limits)
    try:
        layout = await retried(lambda: cluster.layout([]), limits)
    finally:
        await cluster.close()
    return layout.cluster_id


def client_sources(
    configuration: Configuration, client: str, overrides: Mapping[str, str]
) -> tuple[SourceValues, SourceValues]:
    """Return the settings of a connector's client: `overrides`, then `<client>.*` of the worker."""
    source = ValueSource("file", f"{client}.override.* of the connector")
    prefix = f"{client}."
    return (
        {key: SourcedValue(value, source) for key, value in overrides.items()},
        {
            key.removeprefix(prefix): value
            for key, value in configuration.values.items()
            if key.startswith(prefix)
        },
    )


def is_access(key: str) -> bool:
    """True for a setting that selects a cluster, or the access to it."""
    return key.startswith(_ACCESS)


def _only_access(values: SourceValues) -> SourceValues:
    return {key: value for key, value in values.items() if is_access(key)}
