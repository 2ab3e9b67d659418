"""Every limit of running commands."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a controller."""

    commands_waiting: int = 10_000
    """Commands that run or wait; more are told to come back. Some 2 kB each."""

    write_patience_ms: int = 30_000
    """How long a step is tried again while the log is unavailable: as long as a worker waits for
    a write to its config topic (`KafkaConfigBackingStore#READ_WRITE_TOTAL_TIMEOUT_MS`)."""

    retry_first_ms: int = 50
    """Pause before the first new try; it doubles from try to try."""

    retry_last_ms: int = 2_000
    """Longest pause between two tries."""

    request_timeout_ms: int = 90_000
    """How long an asker is kept waiting; the command goes on (`RestServer`'s timeout)."""

    refusal_max_bytes: int = 16_384
    """Size of a refused command's record; a larger one is kept as an excerpt. With 600 a minute
    that is 10 MB a minute at most."""

    refusals_per_minute: int = 600
    """Refused commands of which the command topic keeps a record; the others are only logged."""
