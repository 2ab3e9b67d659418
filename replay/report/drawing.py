"""Pictures as SVG that lies in the page: time goes from left to right, in per cent of the width.

So a picture is as wide as there is room, while its text and its marks stay as large as they are.
"""

from collections.abc import Sequence

from controlplane.core.moments import time_text
from controlplane.core.safe_text import count
from replay.report.evidence import Index
from replay.report.facts import Connector, Line, Mark, Span, Time, Timeline
from replay.report.html import Content, Html, el

LEAST_PERCENT = 0.25
"""How wide a span is drawn at least."""

PLOT_WIDTH, PLOT_HEIGHT = 1_000, 100
"""Units of a plot: it is stretched to its place."""

_SHAPES = {
    "created": "M0,-5 A5,5 0 1 1 -0.01,-5 Z",
    "changed": "M0,-6 L6,0 L0,6 L-6,0 Z",
    "deleted": "M-5,-3 L-3,-5 L0,-2 L3,-5 L5,-3 L2,0 L5,3 L3,5 L0,2 L-3,5 L-5,3 L-2,0 Z",
    "restarted": "M-4,-6 L6,0 L-4,6 Z",
    "reset": "M-6,-4 L6,-4 L0,6 Z",
    "several": "M-5,-5 H5 V5 H-5 Z",
}
"""What a kind of mark looks like, around the point where it is."""

LEGEND = {
    "created": "created",
    "changed": "config changed",
    "deleted": "deleted",
    "restarted": "restarted",
    "reset": "offsets reset",
    "several": "several",
}
"""The same in words."""


class Axis:
    """From when to when a picture goes."""

    def __init__(self, time: Time) -> None:
        self._first_ms = time.first_ms
        self._last_ms = time.last_ms
        self._length_ms = time.step_ms(1)

    def percent(self, at_ms: int) -> float:
        """Where a time lies."""
        return round(100 * min(1, max(0, at_ms - self._first_ms) / self._length_ms), 3)

    def labels(self) -> Html:
        """The times beneath a picture."""
        middle = (self._first_ms + self._last_ms) // 2
        times = (when(one) for one in (self._first_ms, middle, self._last_ms))
        return el("div", [el("time", one) for one in times], class_="axis")


def when(at_ms: int) -> str:
    """A time as people read it, to the second, UTC."""
    return time_text(at_ms)[:19].replace("T", " ") if at_ms >= 0 else "unknown"


def timeline(connector: Connector, axis: Axis, index: Index) -> Html:
    """Lanes of a connector: what happened, what was wanted, what was reported; then its offsets."""
    drawn = connector.timeline or Timeline((), (), (), (), (), 0)
    lanes = (("wanted", drawn.wanted), ("reported", drawn.reported), ("tasks", drawn.tasks))
    return el(
        "div",
        _row("events", el("div", _marks(drawn.marks, axis, index), class_="marks")),
        [_row(name, lane(name, spans, axis, index)) for name, spans in lanes if spans],
        _plot(drawn.lines, axis),
        el("div"),
        axis.labels(),
        class_="timeline",
    )


def _row(name: str, picture: Html) -> Content:
    return (el("div", name, class_="label"), picture)


def lane(name: str, spans: Sequence[Span], axis: Axis, index: Index | None) -> Html:
    """States, one after the other; without an index it is small, and leads nowhere."""
    drawn = [_span(span, axis, index) for span in spans]
    words = f"{name}: {spans[-1].words} at the end, {count(len(spans), 'span')}"
    kind = "lane" if index else "lane small"
    return el("svg", drawn, class_=kind, role="group" if index else "img", aria_label=words)


def _span(span: Span, axis: Axis, index: Index | None) -> Html:
    begin, end = axis.percent(span.begin_ms), axis.percent(span.end_ms)
    width = max(LEAST_PERCENT, round(end - begin, 3))
    box = {"x": f"{min(begin, 100 - LEAST_PERCENT)}%", "width": f"{width}%", "height": "100%"}
    kind = f"s-{span.state}" + (" s-hurt" if span.failed and span.state != "FAILED" else "")
    if index is None:
        return el("rect", class_=kind, **box)
    words = f"{span.words}: {when(span.begin_ms)} – {when(span.end_ms)} ({span.place})"
    return index.drawn(span.place, el("rect", el("title", words), class_=kind, **box))


def _marks(marks: Sequence[Mark], axis: Axis, index: Index) -> Html:
    drawn = [_mark(mark, axis, index) for mark in marks]
    words = f"events: {sum(mark.number for mark in marks)}"
    return el("svg", drawn, class_="events", role="group", aria_label=words)


def _mark(mark: Mark, axis: Axis, index: Index) -> Html:
    number = el("text", str(mark.number), x=8, y=4) if mark.number > 1 else None
    words = el("title", f"{mark.words}: {when(mark.at_ms)} ({mark.place})")
    shape = el("path", words, d=_SHAPES[mark.kind], class_=f"m-{mark.kind}")
    place = {"x": f"{axis.percent(mark.at_ms)}%", "y": "50%", "overflow": "visible"}
    return index.drawn(mark.place, el("svg", shape, number, **place))


def legend_mark(kind: str) -> Html:
    """A mark for a legend."""
    return el(
        "svg",
        el("path", d=_SHAPES[kind], class_=f"m-{kind}"),
        view_box="-7 -7 14 14",
        class_="key",
        aria_hidden="true",
    )


# --- offsets ------------------------------------------------------------------------------------


def _plot(lines: Sequence[Line], axis: Axis) -> Content:
    """Offsets over time, each line between the least and the greatest of all."""
    values = [point.value for line in lines for point in line.points]
    low, high = min(values, default=0), max(values, default=0)
    if low == high:  # nothing moves
        return None
    drawn = [_polyline(number, line, axis, low, high) for number, line in enumerate(lines)]
    box = f"0 -4 {PLOT_WIDTH} {PLOT_HEIGHT + 8}"
    picture = el(
        "svg",
        drawn,
        view_box=box,
        preserve_aspect_ratio="none",
        class_="plot",
        role="img",
        aria_label=f"offsets of {count(len(lines), 'partition')}",
    )
    scale = (el("span", text) for text in (number_text(high), "offsets", number_text(low)))
    return el("div", scale, class_="label scale"), picture


def _polyline(number: int, line: Line, axis: Axis, low: float, high: float) -> Html:
    """Steps: an offset holds until the next one."""
    points: list[str] = []
    y = 0.0
    for point in line.points:
        x = axis.percent(point.at_ms) * PLOT_WIDTH / 100
        if points:
            points.append(f"{x:g},{y:g}")
        y = round(PLOT_HEIGHT * (high - point.value) / (high - low), 2)
        points.append(f"{x:g},{y:g}")
    points.append(f"{PLOT_WIDTH},{y:g}")
    return el("polyline", points=" ".join(points), class_=f"l-{number}")


def number_text(value: float) -> str:
    """A number with its thousands apart."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.6g}"
