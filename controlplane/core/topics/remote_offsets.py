"""Offsets of sources on another cluster: that of the connector's producer (KIP-618).

A connector with an offsets topic of its own writes offsets with its producer. With exactly-once
support, every source does. If this producer has other brokers than the worker, the topic is on the
producer's cluster. The worker's topic then has a copy. The state has only records of the worker's
cluster. So the caller reads the offsets on the other cluster if a decision needs them.
`with_remote` adds them to the state.
"""

import msgspec

from controlplane.core.context import DecisionSettings
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC, remote_name

_BOOTSTRAP = "bootstrap.servers"
_PRODUCER = "producer.override."
_CLIENTS = (_PRODUCER, "consumer.override.", "admin.override.")


def remote_topic(state: ClusterState, config: Properties, worker: DecisionSettings) -> str | None:
    """Offsets topic on another cluster; None: the offsets are on the worker's."""
    own = config.get(OFFSETS_TOPIC) or None
    with_producer = state.exactly_once or own is not None
    if not (state.profile.own_offset_topics and with_producer):
        return None
    if not has_other_brokers(config, worker):
        return None
    return own if isinstance(own, str) else state.topics.offsets


def has_other_brokers(config: Properties, worker: DecisionSettings) -> bool:
    """True if a connector's producer has other brokers than the worker.

    Addresses are compared as texts (`Worker#sameOffsetTopicAsWorker`).
    """
    servers = producer_servers(config, worker)
    if not servers or not worker.bootstrap_servers:
        return False
    return _server_set(servers) != _server_set(worker.bootstrap_servers)


def producer_servers(config: Properties, worker: DecisionSettings) -> str:
    """Brokers of a connector's producer; empty: those of the worker."""
    servers = config.get(f"{_PRODUCER}{_BOOTSTRAP}")
    return servers if isinstance(servers, str) else worker.producer_bootstrap_servers


def remote_clients(config: Properties) -> Properties:
    """Client settings of a connector's config, which select the other cluster."""
    return {key: value for key, value in config.items() if key.startswith(_CLIENTS)}


def with_remote(state: ClusterState, topic: str, offsets: OffsetState) -> ClusterState:
    """Return a state with the offsets of a connector's remote topic, for this connector only."""
    return msgspec.structs.replace(state, offsets={**state.offsets, remote_name(topic): offsets})


def _server_set(listed: str) -> set[str]:
    return {server.strip() for server in listed.split(",")}
