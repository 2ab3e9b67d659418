"""How far sources had come, drawn over time: steps, for an offset holds until the next one."""

from collections.abc import Iterator, Sequence

from controlplane.core.safe_text import count
from replay.report.axis import Axis
from replay.report.evidence import Index
from replay.report.facts import Line, Point, Timeline
from replay.report.html import Content, Html, el
from replay.report.when import when

REMOVED = "∅"
"""An offset that is there no more."""

_WIDTH = 1_000
"""Units of a line: it is stretched to its place."""

_TOP, _MIDDLE, _BOTTOM = 8, 50, 92
"""Where the greatest and the least offset lie, in per cent of the height."""


def plot(drawn: Timeline, axis: Axis, index: Index) -> Content:
    """Offsets over time, between the least and the greatest of all; nothing where nothing moves."""
    if not drawn.moves:
        return None
    values = [point.value for point in drawn.extremes if point.value is not None]
    low, high = (
        index.link(point.place, offset_text(point.value), class_="number")
        for point in drawn.extremes
    )
    fields = ", ".join(dict.fromkeys(line.field for line in drawn.lines))
    scale = el("div", high, el("span", fields, class_="unit"), low, class_="label scale")
    return scale, _Plot(axis, index, *values).picture(drawn.lines)


def line_key(number: int) -> Html:
    """A line for a legend."""
    drawn = el("line", x1="0", x2="100%", y1="50%", y2="50%", class_=f"l-{number}")
    return el("svg", drawn, class_="key wide", aria_hidden="true")


def offset_text(value: float | None) -> str:
    """An offset with its thousands apart."""
    if value is None:
        return REMOVED
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"


class _Plot:
    """Lines between a least and a greatest offset."""

    def __init__(self, axis: Axis, index: Index, low: float, high: float) -> None:
        self._axis, self._index = axis, index
        self._low, self._high = low, high

    def picture(self, lines: Sequence[Line]) -> Html:
        """Behind everything a grid, before everything the dots."""
        levels = (f"{percent}%" for percent in (_TOP, _MIDDLE, _BOTTOM))
        return el(
            "svg",
            self._axis.grid(),
            [el("line", x1="0", x2="100%", y1=y, y2=y, class_="grid") for y in levels],
            [self._line(number, line) for number, line in enumerate(lines)],
            [self._dots(number, line) for number, line in enumerate(lines)],
            class_="plot",
            role="group",
            aria_label=f"offsets of {count(len(lines), 'partition')}",
        )

    def _percent(self, value: float) -> float:
        """How far from the top an offset lies, in per cent of the height."""
        share = (value - self._low) / (self._high - self._low)
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 2)

    def _line(self, number: int, line: Line) -> Html:
        """Broken where its offset was removed."""
        box = f"0 0 {_WIDTH} 100"
        parts = (" ".join(part) for part in self._parts(line))
        drawn = [el("polyline", points=part, class_=f"l-{number}") for part in parts]
        return el("svg", drawn, view_box=box, preserve_aspect_ratio="none")

    def _parts(self, line: Line) -> Iterator[list[str]]:
        """The corners of each part."""
        corners: list[str] = []
        y = ""
        for point in line.points:
            x = f"{self._axis.percent(point.at_ms) * _WIDTH / 100:g}"
            if corners:
                corners.append(f"{x},{y}")
            if point.value is None:
                yield corners
                corners = []
            else:
                y = f"{self._percent(point.value):g}"
                corners.append(f"{x},{y}")
        if corners:
            yield [*corners, f"{_WIDTH},{y}"]

    def _dots(self, number: int, line: Line) -> list[Html]:
        """Each leads to its record."""
        return [
            self._index.drawn(point.place, self._dot(number, line, point, point.value))
            for point in line.marked
            if point.value is not None
        ]

    def _dot(self, number: int, line: Line, point: Point, value: float) -> Html:
        what = f"{line.partition} {line.field} {offset_text(value)}"
        words = el("title", f"{what}: {when(point.at_ms)} ({point.place})")
        cx, cy = f"{self._axis.percent(point.at_ms)}%", f"{self._percent(value)}%"
        return el("circle", words, cx=cx, cy=cy, r=3, class_=f"l-{number}")
