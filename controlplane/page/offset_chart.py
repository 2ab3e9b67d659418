"""Chart of source offsets over time, as steps: an offset holds until the next one."""

from collections.abc import Iterator, Sequence

from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.record_links import RecordLinks
from controlplane.page.time_axis import TimeAxis
from controlplane.page.timeline import ConnectorTimeline, OffsetLine, OffsetPoint
from controlplane.page.times import time_words

REMOVED = "∅"
"""Shown for a removed offset."""

_WIDTH = 1_000
"""Width of a line's view box, which the browser stretches to the width of the chart."""

_TOP, _MIDDLE, _BOTTOM = 8, 50, 92
"""Distances of the greatest, a middle and the least offset from the top, in per cent."""


def plot(timeline: ConnectorTimeline, axis: TimeAxis, links: RecordLinks) -> HtmlContent:
    """Chart between the least and the greatest offset; None if all offsets are equal."""
    if not timeline.has_changes:
        return None
    values = [point.value for point in timeline.extremes if point.value is not None]
    low, high = (
        links.link(point.place, offset_text(point.value), class_="number")
        for point in timeline.extremes
    )
    fields = ", ".join(dict.fromkeys(line.field for line in timeline.lines))
    scale = el("div", high, el("span", fields, class_="unit"), low, class_="label scale")
    return scale, _OffsetChart(axis, links, *values).picture(timeline.lines)


def line_key(number: int) -> Html:
    """Legend sample of the line with this number."""
    drawn = el("line", x1="0", x2="100%", y1="50%", y2="50%", class_=f"l-{number}")
    return el("svg", drawn, class_="key wide", aria_hidden="true")


def offset_text(value: float | None) -> str:
    """Offset with separated thousands, a fraction with six digits; `REMOVED` for None."""
    if value is None:
        return REMOVED
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"


class _OffsetChart:
    """Lines between a least and a greatest offset."""

    def __init__(self, axis: TimeAxis, links: RecordLinks, low: float, high: float) -> None:
        self._axis, self._links = axis, links
        self._low, self._high = low, high

    def picture(self, lines: Sequence[OffsetLine]) -> Html:
        """Draw the lines: the grid behind them, the dots in front."""
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
        """Distance of an offset from the top, in per cent of the height."""
        share = (value - self._low) / (self._high - self._low)
        return round(_BOTTOM - share * (_BOTTOM - _TOP), 2)

    def _line(self, number: int, line: OffsetLine) -> Html:
        """Draw a line, interrupted where its offset was removed."""
        box = f"0 0 {_WIDTH} 100"
        parts = (" ".join(part) for part in self._parts(line))
        drawn = [el("polyline", points=part, class_=f"l-{number}") for part in parts]
        return el("svg", drawn, view_box=box, preserve_aspect_ratio="none")

    def _parts(self, line: OffsetLine) -> Iterator[list[str]]:
        """Corners (`x,y`) of each uninterrupted part; an offset holds until the next point."""
        corners: list[str] = []
        y = ""
        for point in line.points:
            x = f"{self._axis.percent(point.at_ms) * _WIDTH / 100:g}"
            if corners:
                corners.append(f"{x},{y}")
            if point.value is None:
                if corners:  # else the offset was removed before
                    yield corners
                corners = []
            else:
                y = f"{self._percent(point.value):g}"
                corners.append(f"{x},{y}")
        if corners:
            yield [*corners, f"{_WIDTH},{y}"]

    def _dots(self, number: int, line: OffsetLine) -> list[Html]:
        """Dots that link to their records."""
        return [
            self._links.linked_picture(point.place, self._dot(number, line, point, point.value))
            for point in line.marked
            if point.value is not None
        ]

    def _dot(self, number: int, line: OffsetLine, point: OffsetPoint, value: float) -> Html:
        label = f"{line.partition} {line.field} {offset_text(value)}"
        words = el("title", f"{label}: {time_words(point.at_ms)} ({point.place})")
        cx, cy = f"{self._axis.percent(point.at_ms)}%", f"{self._percent(value)}%"
        return el("circle", words, cx=cx, cy=cy, r=3, class_=f"l-{number}")
