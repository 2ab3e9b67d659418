"""Timeline chart as inline SVG: time from left to right, in per cent of the width.

The chart fills the available width, while texts and marks keep their size. FAILED, RUNNING, PAUSED
and STOPPED differ in height as well as in colour, the highest first.
"""

from collections.abc import Sequence

from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.offset_chart import plot
from controlplane.page.record_links import RecordLinks
from controlplane.page.time_axis import TimeAxis
from controlplane.page.timeline import ConnectorTimeline, EventMark, StateSpan
from controlplane.page.times import time_words

LEAST_PERCENT = 0.25
"""Least width of a span, in per cent."""

_HEIGHTS = {"FAILED": 100, "PAUSED": 44, "RESTARTING": 44, "STOPPED": 18, "DESTROYED": 18}
"""Height of a state, in per cent of its lane."""

_HEIGHT, _HURT_HEIGHT = 72, 100
"""Height of any other state, and of mixed states that include a failure."""

_SHAPES = {
    "created": "M0,-5 A5,5 0 1 1 -0.01,-5 Z",
    "seen": "M0,-5 A5,5 0 1 1 -0.01,-5 Z M0,-2.5 A2.5,2.5 0 1 0 0.01,-2.5 Z",
    "changed": "M0,-6 L6,0 L0,6 L-6,0 Z",
    "deleted": "M-5,-3 L-3,-5 L0,-2 L3,-5 L5,-3 L2,0 L5,3 L3,5 L0,2 L-3,5 L-5,3 L-2,0 Z",
    "restarted": "M-4,-6 L6,0 L-4,6 Z",
    "reset": "M-6,-4 L6,-4 L0,6 Z",
    "several": "M-5,-5 H5 V5 H-5 Z",
}
"""SVG path of each kind of mark, around its point."""

LEGEND = {
    "created": "created",
    "seen": "first seen, may be older",
    "changed": "config changed",
    "deleted": "deleted",
    "restarted": "restarted",
    "reset": "offsets reset",
    "several": "several",
}
"""Legend text of each kind of mark."""


def timeline(shown: ConnectorTimeline, axis: TimeAxis, links: RecordLinks) -> Html:
    """Draw the lanes of a connector: events, target state, reported state, tasks, then offsets."""
    lanes = (("wanted", shown.wanted), ("reported", shown.reported), ("tasks", shown.tasks))
    return el(
        "div",
        _row("events", el("div", _marks(shown.marks, axis, links), class_="marks")),
        [_row(name, lane(name, spans, axis, links)) for name, spans in lanes if spans],
        plot(shown, axis, links),
        el("div", "UTC", class_="label"),
        axis.labels(),
        class_="timeline",
    )


def _row(name: str, picture: Html) -> HtmlContent:
    return (el("div", name, class_="label"), picture)


def lane(name: str, spans: Sequence[StateSpan], axis: TimeAxis, links: RecordLinks | None) -> Html:
    """Draw states one after the other. If `links` is None, the lane is small and has no links."""
    drawn = [_span(span, axis, links) for span in spans]
    words = f"{name}: {spans[-1].words} at the end, {count(len(spans), 'span')}"
    kind = "lane" if links else "lane small"
    return el("svg", drawn, class_=kind, role="group" if links else "img", aria_label=words)


def _span(span: StateSpan, axis: TimeAxis, links: RecordLinks | None) -> Html:
    begin, end = axis.percent(span.begin_ms), axis.percent(span.end_ms)
    width = max(LEAST_PERCENT, round(end - begin, 3))
    hurt = span.failed and span.state != "FAILED"
    x, wide = f"{min(begin, 100 - LEAST_PERCENT)}%", f"{width}%"
    if links is None:
        return _box(span.state, x, wide, hurt=hurt)
    words = f"{span.words}: {time_words(span.begin_ms)} – {time_words(span.end_ms)} ({span.place})"
    box = _box(span.state, x, wide, el("title", words), hurt=hurt)
    return links.linked_picture(span.place, box)


def _box(state: str, x: str, width: str, words: HtmlContent = None, *, hurt: bool = False) -> Html:
    """Draw a state between two positions."""
    height = _HURT_HEIGHT if hurt else _HEIGHTS.get(state, _HEIGHT)
    kind = f"s-{state} s-hurt" if hurt else f"s-{state}"
    box = {"x": x, "width": width, "y": f"{(100 - height) // 2}%", "height": f"{height}%"}
    return el("rect", words, class_=kind, **box)


def _marks(marks: Sequence[EventMark], axis: TimeAxis, links: RecordLinks) -> Html:
    drawn = [_mark(mark, axis, links) for mark in marks]
    words = f"events: {sum(mark.number for mark in marks)}"
    return el("svg", drawn, class_="events", role="group", aria_label=words)


def _mark(mark: EventMark, axis: TimeAxis, links: RecordLinks) -> Html:
    number = el("text", str(mark.number), x=8, y=4) if mark.number > 1 else None
    words = el("title", f"{mark.words}: {time_words(mark.at_ms)} ({mark.place})")
    shape = el("path", words, d=_SHAPES[mark.kind], class_=f"m-{mark.kind}")
    place = {"x": f"{axis.percent(mark.at_ms)}%", "y": "50%", "overflow": "visible"}
    return links.linked_picture(mark.place, el("svg", shape, number, **place))


def legend_state(state: str, *, hurt: bool = False) -> Html:
    """Legend sample of a state; `hurt`: of mixed states that include a failure."""
    return el("svg", _box(state, "0", "100%", hurt=hurt), class_="key", aria_hidden="true")


def legend_mark(kind: str) -> Html:
    """Legend sample of the mark for a kind of event."""
    return el(
        "svg",
        el("path", d=_SHAPES[kind], class_=f"m-{kind}"),
        view_box="-7 -7 14 14",
        class_="key",
        aria_hidden="true",
    )
