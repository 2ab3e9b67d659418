"""Limits of reads from a live cluster, and of writes to it."""

import msgspec

from controlplane.settings.kinds import Codec

CLOSED = "this log is closed: open it again"
"""Error message of appends, claims and checks on a closed log; reads have one of their own."""


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs, sizes and pauses of a `KafkaReader`."""

    connect_timeout_ms: int = 10_000
    """Time to connect and log in; a slower broker counts as down."""

    close_timeout_ms: int = 1_000
    """Longest wait for connections to close."""

    request_timeout_ms: int = 30_000
    """Longest wait for a response: longer than `fetch_wait_ms` plus a broker's usual throttling."""

    fetch_wait_ms: int = 500
    """Longest time that a broker delays an empty fetch response. New records are sent at once, so
    this adds no latency; it limits the requests of an idle tail."""

    fetch_max_bytes: int = 4 << 20
    """Bytes of one fetch response. It is small enough for the processor's cache: a read of 81 MB
    took 46 ms, and 99 ms with twice this size. It is large enough that the cost of a request is
    negligible. A read holds two responses, one compressed and one decoded. A single larger record
    batch is still sent whole."""

    partition_max_bytes: int = 1 << 20
    """Bytes per partition in a fetch response: a large partition must not starve the others."""

    retry_backoff_ms: int = 100
    """Pause before the first retry; each further one is twice as long."""

    retry_backoff_max_ms: int = 1_000
    """Longest pause between retries; also the longest delay after a broker is back."""

    patience_ms: int = 30_000
    """Time without progress after which a read gives up. The partitions of a killed broker may lack
    a leader for 20 s."""

    leader_patience_ms: int = 10_000
    """Longest wait of an offset request for a leader; a new topic has none at first."""

    refusal_patience_ms: int = 10_000
    """Time for which a refusal (no such topic, no access) is retried after earlier progress. A
    broker that has just restarted may not know its topics yet."""

    admin_patience_ms: int = 15_000
    """Longest time for a request about topics, consumer groups or producers, with all retries. A
    coordinator is elected within seconds; Connect's own client gives up after 60 s."""


class WriteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs, sizes and pauses of a `KafkaLog`."""

    append_timeout_ms: int = 30_000
    """Longest wait of an append or a claim. A worker waits as long for a write
    (`READ_WRITE_TOTAL_TIMEOUT_MS`). After it, the outcome of an append is unknown."""

    transaction_timeout_ms: int = 60_000
    """Age at which a broker aborts an open transaction and fences its writer. Readers of committed
    records wait that long for a writer that died. The age must exceed `append_timeout_ms`, and any
    outage that the writer should survive."""

    request_timeout_ms: int = 10_000
    """Longest wait of a producer for one response; afterwards it retries."""

    retry_backoff_ms: int = 10
    """Pause of a producer before a retry. A claim that must end a predecessor's transaction pauses
    once. The whole claim takes 20 ms with this pause, and 120 ms with aiokafka's default pause of
    100 ms."""

    batch_max_bytes: int = 512 << 10
    """Bytes of a record batch: half of a broker's limit (`message.max.bytes`, 1 MiB). A larger
    record becomes a batch of its own."""

    group_max_records: int = 5_000
    """Records in a shared transaction after which no further waiting append joins it. With so many
    records, the fixed cost of a transaction (5 ms) is negligible. They block the event loop for at
    most 20 ms."""

    confirmation_max_age_ms: int = 3_600_000
    """Age limit for appends as single batches (`FencedBatches`). If one of two ages exceeds the
    limit, the append is a transaction, so that a coordinator compares the epoch:

    - Age of the writer's last transaction. Coordinators forget a writer without transactions after
      `transactional.id.expiration.ms` (a week). The next writer then gets a new producer id.
      Markers of the new producer id do not fence the old one.
    - Age of the append's newest record. A partition forgets an epoch after
      `producer.id.expiration.ms` (a day). This time counts from the timestamp of the newest record,
      so old records do not renew it."""

    compression: Codec | None = None
    """Compression of record batches. None: that of the worker's file (`compression.type`), else
    `none`."""

    close_timeout_ms: int = 5_000
    """Longest wait of `close` for appends under way."""
