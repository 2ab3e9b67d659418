"""Settings and limits of the worker runtime."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.core.context import DecisionSettings
from controlplane.settings import Configuration, WorkerSettings

_Ms = Annotated[int, Meta(ge=0)]


class ProducerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of producers; `max_request_size` and `delivery_timeout_ms` have Kafka's names.

    On brokers, the settings of the connector's producer replace these two.
    """

    max_request_size: int = 1_048_576
    """Bytes of key and value above which a record is refused."""
    delivery_timeout_ms: _Ms = 120_000
    """Time limit of a record while the log is unavailable; it counts from the record's `send`."""
    retry_first_ms: int = 50
    retry_last_ms: int = 2_000
    queued_records: int = 5_000
    """Maximum records that wait to be appended; beyond it the task waits. Bounds memory."""
    queued_bytes: int = 32 * 2**20
    """Bytes of records that wait to be appended, above which the task waits (`buffer.memory`)."""
    batch_records: int = 2_500
    """Maximum records in one append: some 10 ms of work for the log."""
    create_topics: bool = True
    """False: `topic.creation.*` of connectors has no effect (`topic.creation.enable`)."""
    default_partitions: int = 1
    """Partitions of a topic that is created when a record is sent to it (`num.partitions`)."""


class RuntimeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of connectors and tasks that run here.

    `runtime_settings` takes most of them from a worker's properties file or from its caller. The
    others keep their defaults.
    """

    worker_id: str = "127.0.0.1:8083"
    """Id in statuses: `host:port` of the REST API."""
    task_shutdown_graceful_timeout_ms: _Ms = 5_000
    """Time limit for all tasks of a connector to stop; then they are abandoned."""
    offset_flush_interval_ms: _Ms = 60_000
    """Commit interval of offsets; records since the last commit may be repeated after a crash."""
    offset_flush_timeout_ms: _Ms = 5_000
    """Time limit of a sink's commit, and of each write of a source's commit.

    A source task that ends waits at most this time for its records in flight. With exactly-once
    support, a source has no such limits.
    """
    exactly_once: bool = False
    """True: sources commit records and offsets in one transaction (KIP-618)."""
    transaction_max_bytes: int = 256 * 2**20
    """Maximum bytes of records in one transaction: they wait in memory until it ends."""
    topic_tracking: bool = True
    """KIP-558: record the topics that connectors use."""
    publish_retry_first_ms: int = 250
    """First delay before task configs are published again; it doubles up to the last delay."""
    publish_retry_last_ms: int = 60_000
    reload_shortest_ms: _Ms = 1_000
    """Shortest lifetime of a value from a config provider: a lifetime of 0 ms would restart the
    connector without end."""
    connector_stop_timeout_ms: _Ms = 5_000
    """Time limit for a connector (not its tasks) to stop; then it is abandoned. A restart waits at
    most this time for the connector's start."""
    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str = DecisionSettings().header_converter
    converter_settings: Mapping[str, str] = {}
    """Settings of the worker's converters, by their full keys (`value.converter.schemas.enable`).
    """
    producer: ProducerLimits = ProducerLimits()
    claim_probe_ms: _Ms = 5_000
    """Longest interval at which a worker asks its log whether another process has claimed it.

    Signs of such a process make it ask earlier (`ClaimProbe`)."""

    @property
    def close_timeout_ms(self) -> int:
        """Time limit for all connectors at the end of a worker; then they are abandoned.

        A connector may have to stop twice: a stop may be under way when the last stop is requested.
        """
        return 2 * (self.connector_stop_timeout_ms + self.task_shutdown_graceful_timeout_ms)


_CONVERTERS = ("key.converter.", "value.converter.", "header.converter.")


def runtime_settings(
    configuration: Configuration, *, worker_id: str, exactly_once: bool
) -> RuntimeSettings:
    """Build the settings of connectors that run here.

    `exactly_once` is the control plane's setting, which may differ from the file. The flag
    `--exactly-once` turns it on, and a standalone worker never has it.

    Raises:
        SettingsError: a value is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    converters = {
        key: text
        for prefix in _CONVERTERS
        for key, text in configuration.texts_under(prefix).items()
    }
    return RuntimeSettings(
        worker_id=worker_id,
        task_shutdown_graceful_timeout_ms=worker.task_shutdown_graceful_timeout_ms,
        offset_flush_interval_ms=worker.offset_flush_interval_ms,
        offset_flush_timeout_ms=worker.offset_flush_timeout_ms,
        exactly_once=exactly_once,
        topic_tracking=worker.topic_tracking_enable,
        key_converter=worker.key_converter,
        value_converter=worker.value_converter,
        header_converter=worker.header_converter,
        converter_settings=converters,
        producer=ProducerLimits(create_topics=worker.topic_creation_enable),
    )
