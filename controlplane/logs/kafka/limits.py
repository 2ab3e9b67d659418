"""Limits of reads from a live cluster."""

import msgspec


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
