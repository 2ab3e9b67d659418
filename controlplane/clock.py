"""Clock of this machine, and pauses between retries."""

import time
from collections.abc import Iterator


def now_ms() -> int:
    """Milliseconds since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


def backoff(first_ms: int, longest_ms: int) -> Iterator[float]:
    """Yield pauses in seconds without end; each is twice the previous one, up to `longest_ms`."""
    pause_ms = first_ms
    while True:
        yield pause_ms / 1_000
        pause_ms = min(2 * pause_ms, longest_ms)
