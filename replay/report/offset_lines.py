"""Offsets as numbers: the progress of sources over time."""

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.core.entry import Position
from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.safe_text import short
from controlplane.core.text.value_text import json_line
from controlplane.page.timeline import OffsetLine, OffsetPoint
from replay.audit.decoded_log import DecodedRecord
from replay.report.page_limits import PARTITIONS, POINTS

PlaceText = Callable[[Position], str]
"""Formats a position as text."""

PARTITION_CHARACTERS = 80
"""Characters of a source partition that a legend shows."""


class OffsetLines:
    """Source partitions of one connector; the first ones are drawn."""

    def __init__(self, step_ms: Callable[[int], float], place: PlaceText) -> None:
        self._step_ms = step_ms(POINTS)
        self._place = place
        self._lines: dict[tuple[str, bytes | None], _DrawnPartition] = {}
        self._undrawn: set[tuple[str, bytes | None]] = set()

    def see(self, decoded: DecodedRecord) -> None:
        """Add an offset; offsets without a number are not drawn."""
        key = decoded.entry.topic, decoded.entry.key
        if key not in self._lines:
            has_room = len(self._lines) < PARTITIONS
            field = _number_in(decoded.offset) if has_room else None
            if field is None:
                self._undrawn.add(key)
                return
            self._undrawn.discard(key)
            self._lines[key] = _DrawnPartition(_partition_text(decoded.record.partition), field)
        self._lines[key].add(decoded, self._place(decoded.position), self._step_ms)

    def reset(self, decoded: DecodedRecord) -> None:
        """Interrupt the line of a source partition: its offset was removed.

        The next offset continues the line.
        """
        if (line := self._lines.get((decoded.entry.topic, decoded.entry.key))) is not None:
            place = self._place(decoded.position)
            line.put(OffsetPoint(decoded.time_ms, None, place), self._step_ms)

    def lines(self) -> tuple[tuple[OffsetLine, ...], int]:
        """Drawn lines, and the number of other partitions."""
        lines = (
            OffsetLine(line.partition, line.field, tuple(line.points))
            for line in self._lines.values()
        )
        return tuple(lines), len(self._undrawn)


class _DrawnPartition:
    def __init__(self, partition: str, field: str) -> None:
        self.partition = partition
        self.field = field
        self.points: list[OffsetPoint] = []
        self._back = 0
        """Number of points that went back."""
        self._stays = True
        """True if the last point must stay: it is the first, or went back."""

    def add(self, decoded: DecodedRecord, place: str, step_ms: float) -> None:
        value = decoded.offset.get(self.field) if isinstance(decoded.offset, Mapping) else None
        if value is None or not _is_number(value):
            return
        self.put(OffsetPoint(decoded.time_ms, float(value), place), step_ms)

    def put(self, point: OffsetPoint, step_ms: float) -> None:
        """Add a point, or replace the last one."""
        if self._stands_for(point, step_ms):
            self.points[-1] = point
        else:
            self.points.append(point)

    def _stands_for(self, point: OffsetPoint, step_ms: float) -> bool:
        """True if a point replaces the last one.

        The first point stays, and so do the first `POINTS` points that went back.
        """
        if not self.points:
            return False
        back = point.goes_back(self.points[-1]) and self._back < POINTS
        stays, self._stays = self._stays, back
        self._back += back
        return not (stays or back) and point.at_ms - self.points[-2].at_ms < step_ms


def _number_in(offset: Any) -> str | None:
    """Name of the first field with a number: this field is drawn. None: no field has one."""
    if not isinstance(offset, Mapping):
        return None
    return next((name for name, value in offset.items() if _is_number(value)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


_HUGE = 1e300
"""Greater numbers are no positions."""


def _partition_text(partition: Mapping[str, Any]) -> str:
    return short(json_line(redacted_value("", partition)), PARTITION_CHARACTERS)
