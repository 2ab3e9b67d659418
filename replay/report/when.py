"""Times as people read them."""

from controlplane.core.moments import time_text

MINUTE_MS, DAY_MS = 60_000, 86_400_000


def when(at_ms: int) -> str:
    """A time as people read it, to the second, UTC."""
    return time_text(at_ms)[:19].replace("T", " ") if at_ms >= 0 else "unknown"


def tick_words(at_ms: int, step_ms: int) -> tuple[str, str]:
    """A time beneath a picture in short, and the longer time that it is in.

    `22:50` of `11-20`, or, where steps are days, `11-20` of `2026`.
    """
    date, _, time = when(at_ms).partition(" ")
    year, _, day = date.partition("-")
    if step_ms >= DAY_MS:
        return day, year
    return (time if step_ms < MINUTE_MS else time[:5]), day
