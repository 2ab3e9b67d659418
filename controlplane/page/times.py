"""Times in epoch milliseconds as text and HTML, in UTC."""

from controlplane.core.moments import time_text
from controlplane.page.html import Html, el, join

MINUTE_MS, DAY_MS = 60_000, 86_400_000

TO_THE_SECOND = 19
"""Characters of a time without its fraction: `2026-11-20T12:00:00`."""


def time_words(at_ms: int) -> str:
    """Format a time as all commands print it: `2026-11-20T12:00:00.000Z`."""
    return time_text(at_ms)


def breakable(at_ms: int) -> Html:
    """A time that may wrap after its date in narrow cells; the text equals `time_words`."""
    date, separator, time = time_words(at_ms).partition("T")
    return join((date + separator, el("wbr"), time))


def tick_words(at_ms: int, step_ms: int) -> tuple[str, str]:
    """Short label of a time, and the enclosing period.

    `22:50` and `11-20`, or, if steps are days, `11-20` and `2026`.
    """
    date, _, time = time_words(at_ms)[:TO_THE_SECOND].partition("T")
    year, _, day = date.partition("-")
    if step_ms >= DAY_MS:
        return day, year
    return (time if step_ms < MINUTE_MS else time[:5]), day
