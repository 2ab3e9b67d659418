"""Limits of reads from a live cluster, and of writes to it."""

import msgspec

CLOSED = "this log is closed: open it again"
"""Sentence of every call of a closed log."""


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs, sizes and pauses of a `KafkaReader`."""

    connect_timeout_ms: int = 10_000
    """Time to connect and log in; a slower broker counts as down."""

    close_timeout_ms: int = 1_000
    """Longest wait for connections to close."""

    request_timeout_ms: int = 30_000
    """Longest wait for an answer: above `fetch_wait_ms` and a broker's usual throttling."""

    fetch_wait_ms: int = 500
    """Longest time that a broker holds back an empty answer. It sends new records at once, so
    this adds no latency; it limits the number of requests of an idle tail."""

    fetch_max_bytes: int = 4 << 20
    """Bytes of one answer: few enough for the processor's cache (a read of 81 MB took 46 ms, and
    99 ms with twice as many), enough to make the cost of a request negligible. A read holds two of
    them, one compressed and one decoded. A broker sends a larger single record batch anyway."""

    partition_max_bytes: int = 1 << 20
    """Bytes per partition in an answer: a large partition must not starve the others."""

    retry_backoff_ms: int = 100
    """Pause before the first retry; each further one is twice as long."""

    retry_backoff_max_ms: int = 1_000
    """Longest pause between retries: bounds the delay after a broker has come back."""

    patience_ms: int = 30_000
    """Time without progress after which a read gives up: a killed broker needs 20 s."""

    leader_patience_ms: int = 10_000
    """Longest wait of an offset request for a leader: a new topic has none at first."""

    refusal_patience_ms: int = 10_000
    """Time for which a refusal (no such topic, no access) is retried if there was progress before:
    a broker that has just restarted may not know its topics yet."""

    admin_patience_ms: int = 15_000
    """Longest time for a request about topics, consumer groups or producers, with all retries. A
    coordinator is elected within seconds; Connect's own client gives up after 60 s."""


class WriteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time-outs, sizes and pauses of a `KafkaLog`."""

    append_timeout_ms: int = 30_000
    """Longest wait of an append, a claim or a new topic: as long as a worker waits for a write
    (`READ_WRITE_TOTAL_TIMEOUT_MS`). The outcome of an append is unknown then."""

    transaction_timeout_ms: int = 60_000
    """Age at which a broker aborts an open transaction; its writer is then fenced. Readers of
    committed records wait as long for a writer that died. It has to be longer than
    `append_timeout_ms`, and than an outage after which the writer is to go on."""

    request_timeout_ms: int = 10_000
    """Longest wait of a producer for one answer; a broker that hangs is asked again after it."""

    retry_backoff_ms: int = 10
    """Pause of a producer before it asks again. A claim that has to end a predecessor's transaction
    waits for it once: 120 ms with aiokafka's default of 100 ms, 20 ms with this."""

    batch_max_bytes: int = 512 << 10
    """Bytes of a record batch: half of what a broker takes (`message.max.bytes`, 1 MiB), because a
    record that is larger alone still becomes a batch of its own."""

    group_max_records: int = 5_000
    """Records of waiting appends that share a transaction: enough that its 5 ms do not count, few
    enough that the event loop is free again after 20 ms."""

    compression: str = "none"
    """Compression of record batches: none, gzip, snappy, lz4 or zstd (`compression.type`)."""

    close_timeout_ms: int = 5_000
    """Longest wait of `close` for appends under way."""
