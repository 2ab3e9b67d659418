"""Every limit of reading from a live cluster."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long we wait and how much we hold. A reader takes another set for odd clusters."""

    connect_timeout_ms: int = 10_000
    """A broker that has not let us in by then is counted as down."""

    close_timeout_ms: int = 1_000
    """Closing a connection says goodbye; whoever does not answer by then is left."""

    request_timeout_ms: int = 30_000
    """An answer later than this is none: above `fetch_wait_ms` and a broker's usual throttling."""

    fetch_wait_ms: int = 500
    """How long a broker may hold back an empty answer. New records are sent at once, so this is
    no latency; it only bounds how often an idle tail asks."""

    fetch_max_bytes: int = 4 << 20
    """Bytes of one answer: few enough to stay in the processor's cache (reading 81 MB took 46 ms,
    99 ms with twice as many), many enough that asking costs nothing. Two of them, one compressed
    and one decoded, are what a read holds. A single record batch that is larger comes all the
    same."""

    partition_max_bytes: int = 1 << 20
    """Bytes of one partition in an answer, so that a large one does not starve the others."""

    retry_backoff_ms: int = 100
    """Pause before the first retry; each further one is twice as long."""

    retry_backoff_max_ms: int = 1_000
    """Longest pause between retries: what a broker's return costs at most."""

    patience_ms: int = 30_000
    """Reading to the end gives up after this long without progress: a killed broker needs 20 s."""

    leader_patience_ms: int = 10_000
    """How long a question about offsets waits for a leader: a new topic has none for a moment."""

    refusal_patience_ms: int = 10_000
    """A refusal (no such topic, no access) that comes after all went well is believed only after
    this long: a broker that has just come back may not have heard of its topics yet."""
