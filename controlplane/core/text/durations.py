"""Durations for people, and times with their distance from now."""

from controlplane.core.moments import UnknownMoment, read_time_ms

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
"""Units and their length in ms, the longest first."""


def duration_text(duration_ms: int) -> str:
    """Format a duration in its largest unit, rounded down: `3 h`. A negative one is `0 s`.

    The clocks of two machines differ, so a difference of their times may be negative.
    """
    for unit, length_ms in _UNITS:
        if duration_ms >= length_ms:
            return f"{duration_ms // length_ms} {unit}"
    return "0 s"


def since_text(time: str, now_ms: int | None) -> str:
    """A time followed by its distance from now: `2026-11-20T12:00:00.000Z (3 h)`.

    `now_ms` None, or a time that is unknown: the time alone.
    """
    if now_ms is None:
        return time
    try:
        return f"{time} ({duration_text(now_ms - read_time_ms(time))})"
    except UnknownMoment:
        return time
