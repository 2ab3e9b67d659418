"""Times as people read them."""

from controlplane.core.moments import time_text

DAY_MS = 86_400_000


def when(at_ms: int) -> str:
    """A time as people read it, to the second, UTC."""
    return time_text(at_ms)[:19].replace("T", " ") if at_ms >= 0 else "unknown"


def day_and_time(at_ms: int) -> tuple[str, str]:
    """The same in two."""
    day, _, time = when(at_ms).partition(" ")
    return day, time
