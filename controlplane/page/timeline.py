"""Values of timeline charts: plain, without secrets, ready to be stored and read back.

A place is a record's position in text form: `config@57`.
"""

from itertools import pairwise
from operator import itemgetter

import msgspec

MIXED = "MIXED"
"""State that stands for several states in too short a time to be drawn."""


class TimeRange(msgspec.Struct, frozen=True):
    """Time range of the records, in epoch milliseconds."""

    first_ms: int
    last_ms: int
    first: str = ""
    last: str = ""
    """Place of the first and the last record."""

    def step_ms(self, steps: int) -> float:
        """Length in ms of one of `steps` equal parts of the range."""
        return max(1, self.last_ms - self.first_ms) / steps


class StateSpan(msgspec.Struct, frozen=True):
    """A state during a time span."""

    begin_ms: int
    end_ms: int
    state: str
    place: str
    """Record that began the state; for merged spans, the record of the last span."""
    words: str
    failed: bool = False
    """True for a failure; for merged spans, if any of them is one."""
    number: int = 1
    """Number of merged spans."""


class EventMark(msgspec.Struct, frozen=True):
    """An event, or several close to each other."""

    at_ms: int
    kind: str
    """`created`, `seen`, `changed`, `deleted`, `restarted`, `reset`; `several`."""
    place: str
    words: str
    number: int = 1


class OffsetPoint(msgspec.Struct, frozen=True):
    """Source offset at a point in time."""

    at_ms: int
    value: float | None
    """None if the offset was removed."""
    place: str

    def goes_back(self, before: "OffsetPoint") -> bool:
        """True if the offset is less than the previous one, or if one of them is missing."""
        return before.value is None or self.value is None or self.value < before.value


class OffsetLine(msgspec.Struct, frozen=True):
    """Offsets of one source partition over time."""

    partition: str
    field: str
    """Name of the drawn field of the offset."""
    points: tuple[OffsetPoint, ...]

    @property
    def marked(self) -> list[OffsetPoint]:
        """Points at which the line begins, goes back, begins again and ends."""
        back = [point for before, point in pairwise(self.points) if point.goes_back(before)]
        return list(dict.fromkeys((self.points[0], *back, self.points[-1])))


class ConnectorTimeline(msgspec.Struct, frozen=True):
    """States, events and offsets of a connector over time."""

    wanted: tuple[StateSpan, ...]
    reported: tuple[StateSpan, ...]
    tasks: tuple[StateSpan, ...]
    marks: tuple[EventMark, ...]
    lines: tuple[OffsetLine, ...]
    undrawn: int
    """Number of source partitions without a line."""

    @property
    def extremes(self) -> tuple[OffsetPoint, ...]:
        """Points with the least and the greatest offset; empty without offsets."""
        drawn = [(point.value, point) for line in self.lines for point in line.points]
        reported = [(value, point) for value, point in drawn if value is not None]
        if not reported:
            return ()
        return min(reported, key=itemgetter(0))[1], max(reported, key=itemgetter(0))[1]

    @property
    def has_changes(self) -> bool:
        """True if the chart has different offsets; equal offsets need no chart."""
        return len({point.value for point in self.extremes}) > 1
