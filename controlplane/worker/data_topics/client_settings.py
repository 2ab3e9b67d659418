"""Settings of the clients of tasks: those of the worker, overridden by a connector (KIP-458).

A field of a table in `TABLES` is named like its key in Kafka, with `_` for a dot. `OPTIONS` maps
keys to aiokafka's names; the producers and consumers of this project apply the other keys.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from controlplane.logs.kafka.connector_clusters import is_access
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.notices import Notices
from controlplane.settings.kinds import Codec
from controlplane.worker.task_identity import TaskIdentity

ClientKind = Literal["producer", "consumer", "admin"]
"""Kind of a client, and the prefix of its settings in a worker's file and a connector's config."""

INT_MAX = 2**31 - 1
"""Maximum of Kafka's INT; as a time-out, it means no limit."""

_TimeMs = Annotated[int, Meta(ge=0, le=INT_MAX)]
_ByteCount = Annotated[int, Meta(ge=0, le=INT_MAX)]


class ProducerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a task's producer. Defaults are Connect's (`Worker#baseProducerConfigs`).

    The producer is always idempotent, waits for all replicas, and has one request per broker in
    flight.
    """

    client_id: str = ""
    """Name in the broker's logs; default `connector-producer-<connector>-<task>`."""
    compression_type: Codec = "none"
    linger_ms: _TimeMs = 0
    """Wait for further records before a batch is sent."""
    batch_size: Annotated[int, Meta(ge=1, le=INT_MAX)] = 16_384
    """Bytes of a record batch; a larger record is a batch of its own."""
    max_request_size: _ByteCount = 1_048_576
    """Bytes of key and value above which a record is refused."""
    request_timeout_ms: _TimeMs = 30_000
    retry_backoff_ms: _TimeMs = 100
    """Pause before a request is repeated."""
    max_block_ms: Annotated[int, Meta(ge=0)] = INT_MAX
    """Longest wait for a topic that does not exist; default: without end."""
    delivery_timeout_ms: _TimeMs = INT_MAX
    """Time after which a record that is not acknowledged counts as failed; default: never."""
    transaction_timeout_ms: Annotated[int, Meta(ge=1, le=INT_MAX)] = 60_000
    """Age at which a broker aborts a transaction; its task then fails."""
    metadata_max_age_ms: _TimeMs = 300_000
    """Interval at which the client looks for new partitions."""
    connections_max_idle_ms: _TimeMs = 540_000


class SinkConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a sink task's consumer. Defaults are Connect's (`Worker#baseConsumerConfigs`)."""

    client_id: str = ""
    """Name in the broker's logs; default `connector-consumer-<connector>-<task>`."""
    client_rack: str | None = None
    group_instance_id: str | None = None
    """Id of a static member of the group (KIP-345); None: a dynamic member."""
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    max_poll_records: Annotated[int, Meta(ge=1, le=INT_MAX)] = 500
    max_poll_interval_ms: Annotated[int, Meta(ge=1, le=INT_MAX)] = 300_000
    """Time without a poll after which the consumer leaves its group; also the rebalance timeout."""
    session_timeout_ms: _TimeMs = 45_000
    heartbeat_interval_ms: _TimeMs = 3_000
    fetch_min_bytes: _ByteCount = 1
    fetch_max_bytes: _ByteCount = 52_428_800
    max_partition_fetch_bytes: _ByteCount = 1_048_576
    fetch_max_wait_ms: _TimeMs = 500
    check_crcs: bool = True
    exclude_internal_topics: bool = True
    request_timeout_ms: _TimeMs = 30_000
    """Limit of a request; a request to join the group has `max_poll_interval_ms` plus 5 s."""
    retry_backoff_ms: _TimeMs = 100
    metadata_max_age_ms: _TimeMs = 300_000
    connections_max_idle_ms: _TimeMs = 540_000


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the client that creates topics: none. `ReadLimits` bounds its requests."""


TABLES: Mapping[ClientKind, type[msgspec.Struct]] = {
    "producer": ProducerSettings,
    "consumer": SinkConsumerSettings,
    "admin": AdminSettings,
}
"""Table of each kind of client."""

OPTIONS: Mapping[ClientKind, Mapping[str, str]] = {
    "producer": {
        "max.request.size": "max_request_size",
        "metadata.max.age.ms": "metadata_max_age_ms",
        "connections.max.idle.ms": "connections_max_idle_ms",
    },
    "consumer": {
        "client.rack": "client_rack",
        "group.instance.id": "group_instance_id",
        "auto.offset.reset": "auto_offset_reset",
        "isolation.level": "isolation_level",
        "max.poll.records": "max_poll_records",
        "max.poll.interval.ms": "max_poll_interval_ms",
        "session.timeout.ms": "session_timeout_ms",
        "heartbeat.interval.ms": "heartbeat_interval_ms",
        "fetch.min.bytes": "fetch_min_bytes",
        "fetch.max.bytes": "fetch_max_bytes",
        "max.partition.fetch.bytes": "max_partition_fetch_bytes",
        "fetch.max.wait.ms": "fetch_max_wait_ms",
        "check.crcs": "check_crcs",
        "exclude.internal.topics": "exclude_internal_topics",
        "request.timeout.ms": "request_timeout_ms",
        "retry.backoff.ms": "retry_backoff_ms",
        "metadata.max.age.ms": "metadata_max_age_ms",
        "connections.max.idle.ms": "connections_max_idle_ms",
    },
    "admin": {},
}
"""Option of aiokafka's client for each key that it understands."""

_ELSEWHERE: Mapping[ClientKind, frozenset[str]] = {
    "producer": frozenset(),
    "consumer": frozenset({"group.id"}),
    "admin": frozenset(),
}
"""Keys that have an effect without being in a table."""

_ON_A_LOG: Mapping[ClientKind, frozenset[str]] = {
    "producer": frozenset(),
    "consumer": frozenset({"group.id", "max.poll.records", "auto.offset.reset"}),
    "admin": frozenset(),
}
"""Keys that have an effect on a log of our own."""


def client_overrides(config: Mapping[str, str], client: ClientKind) -> dict[str, str]:
    """Return `<client>.override.*` of a connector's config, without the prefix."""
    prefix = f"{client}.override."
    return {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }


def option_values(client: ClientKind, settings: msgspec.Struct) -> dict[str, Any]:
    """Return the options of aiokafka's client for these settings."""
    return {
        option: getattr(settings, key.replace(".", "_")) for key, option in OPTIONS[client].items()
    }


def write_limits(settings: ProducerSettings) -> WriteLimits:
    """Convert Kafka's settings of a producer to the limits of this project's producers."""
    return WriteLimits(
        append_timeout_ms=settings.delivery_timeout_ms,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        request_timeout_ms=settings.request_timeout_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
        batch_max_bytes=settings.batch_size,
        compression=settings.compression_type,
    )


def without_effect(client: ClientKind, keys: Collection[str]) -> list[str]:
    """Return the keys that have no effect on a client for brokers, in order."""
    effective = {field.replace("_", ".") for field in TABLES[client].__struct_fields__}
    effective |= _ELSEWHERE[client]
    return sorted(key for key in keys if key not in effective and not is_access(key))


def without_effect_on_a_log(client: ClientKind, keys: Collection[str]) -> list[str]:
    """Return the keys that have no effect on a client for a log of our own, in order."""
    return sorted({*keys} - _ON_A_LOG[client])


def warn_of_settings(notices: Notices, task: TaskIdentity, keys: Collection[str]) -> None:
    """Warn of settings of a task's client that have no effect."""
    if keys:
        notices.warning(
            "client_settings_without_effect", task=str(task), settings=", ".join(sorted(keys))
        )
