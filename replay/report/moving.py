"""Offsets as numbers: how far sources had come."""

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.core.redact import redacted_value
from controlplane.core.safe_text import short
from controlplane.core.shown import json_line
from replay.audit.reading import Told
from replay.report.facts import Line, Point
from replay.report.limits import PARTITIONS, POINTS

PARTITION_CHARACTERS = 80
"""How much of a source partition a legend shows."""


class Moves:
    """The source partitions of one connector; those that come first are drawn."""

    def __init__(self, step_ms: Callable[[int], float]) -> None:
        self._step_ms = step_ms(POINTS)
        self._lines: dict[tuple[str, bytes | None], _Line] = {}
        self._undrawn: set[tuple[str, bytes | None]] = set()

    def see(self, told: Told, place: str) -> None:
        """An offset; one in which there is no number is not drawn."""
        key = told.entry.topic, told.entry.key
        if key not in self._lines:
            field = _number_in(told.offset)
            if field is None or len(self._lines) >= PARTITIONS:
                self._undrawn.add(key)
                return
            self._undrawn.discard(key)
            self._lines[key] = _Line(_shown(told.record.partition), field)
        self._lines[key].add(told, place, self._step_ms)

    def reset(self, told: Told, place: str) -> None:
        """An offset was removed: its line ends, until there is one again."""
        if (line := self._lines.get((told.entry.topic, told.entry.key))) is not None:
            line.put(Point(told.time_ms, None, place), self._step_ms)

    def lines(self) -> tuple[tuple[Line, ...], int]:
        """Those that are drawn, and how many others there are."""
        lines = (Line(one.partition, one.field, tuple(one.points)) for one in self._lines.values())
        return tuple(lines), len(self._undrawn)


class _Line:
    """One source partition."""

    def __init__(self, partition: str, field: str) -> None:
        self.partition = partition
        self.field = field
        self.points: list[Point] = []
        self._back = 0
        self._stays = True
        """Whether the last point does: it is the first, or went back."""

    def add(self, told: Told, place: str, step_ms: float) -> None:
        value = told.offset.get(self.field) if isinstance(told.offset, Mapping) else None
        if value is None or not _is_number(value):
            return
        self.put(Point(told.time_ms, float(value), place), step_ms)

    def put(self, point: Point, step_ms: float) -> None:
        """One more point, or another one for the last."""
        if self._stands_for(point, step_ms):
            self.points[-1] = point
        else:
            self.points.append(point)

    def _stands_for(self, point: Point, step_ms: float) -> bool:
        """Whether a point takes the place of the one before: the first stays, and who goes back."""
        if not self.points:
            return False
        back = point.goes_back(self.points[-1]) and self._back < POINTS
        stays, self._stays = self._stays, back
        self._back += back
        return not (stays or back) and point.at_ms - self.points[-2].at_ms < step_ms


def _number_in(offset: Any) -> str | None:
    """The field that is drawn: the first number."""
    if not isinstance(offset, Mapping):
        return None
    return next((name for name, value in offset.items() if _is_number(value)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


_HUGE = 1e300
"""Whatever is larger is no position of anything."""


def _shown(partition: Mapping[str, Any]) -> str:
    return short(json_line(redacted_value("", partition)), PARTITION_CHARACTERS)
