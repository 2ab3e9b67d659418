"""Connectors: a table of all, and each over time."""

from controlplane.core.safe_text import count
from replay.findings import called
from replay.report.drawing import LEGEND, Axis, lane, legend_mark, number_text, timeline
from replay.report.evidence import Index
from replay.report.facts import Connector, Line, Looked, Time, Timeline
from replay.report.following import in_words
from replay.report.html import Content, Html, el
from replay.report.sections.parts import badge, more, state, table

_STATES = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", "MIXED")

_COUNTED = {
    "changed": "config changes",
    "restarted": "restarts",
    "failed": "failures",
    "moved": "offsets",
}
"""What a row counts."""


def connectors(looked: Looked, index: Index) -> Html:
    """All of a cluster that are listed, and those that are drawn."""
    axis = Axis(looked.time or Time(0, 0))
    rows = [_row(number, one, axis, index) for number, one in enumerate(looked.connectors)]
    heads = ("connector", "wanted", "reported", "tasks", *_COUNTED.values(), "over time", "")
    drawn = [
        _card(number, one, axis, index)
        for number, one in enumerate(looked.connectors)
        if one.timeline is not None
    ]
    undrawn = len(looked.connectors) - len(drawn)
    return el(
        "section",
        el("h3", "Connectors"),
        table(heads, rows, "stacked"),
        more(looked.connectors_more, "connector", "replay state"),
        el("h3", "Over time"),
        _legend() if drawn else None,
        drawn,
        el("p", f"{count(undrawn, 'connector')} more are not drawn.", class_="more")
        if undrawn
        else None,
        id=f"c{index.number}-connectors",
    )


def _row(number: int, one: Connector, axis: Axis, index: Index) -> tuple[Content, ...]:
    name = el("b", called(one.name))
    drawn = one.timeline
    spans = drawn.tasks or drawn.reported if drawn else ()
    counted = (index.number_of(one.numbers.get(kind, 0), one.places.get(kind)) for kind in _COUNTED)
    return (
        name if drawn is None else el("a", name, href=f"#{_anchor(number, index)}"),
        index.link(one.places.get("wanted"), state(one.wanted)) if one.there else "gone",
        index.link(one.places.get("reported"), state(one.reported)),
        index.link(one.places.get("tasks"), in_words(one.tasks) or "–", class_="tasks"),
        *counted,
        lane("over time", spans, axis, None) if spans else "–",
        badge(one.worst) if one.worst is not None else None,
    )


def _anchor(number: int, index: Index) -> str:
    return f"c{index.number}k{number}"


def _card(number: int, one: Connector, axis: Axis, index: Index) -> Html:
    drawn = one.timeline or Timeline((), (), (), (), (), 0)
    title = el(
        "h4",
        called(one.name),
        " ",
        state(one.wanted) if one.there else el("span", "gone", class_="state none"),
        badge(one.worst) if one.worst is not None else None,
    )
    return el(
        "article",
        title,
        timeline(one, axis, index),
        _offsets(drawn, index),
        id=_anchor(number, index),
        class_="card",
    )


def _offsets(drawn: Timeline, index: Index) -> Content:
    if not drawn.lines:
        return None
    others = count(drawn.undrawn, "partition")
    return (
        el(
            "ul",
            [_line(number, one, index) for number, one in enumerate(drawn.lines)],
            class_="lines",
        ),
        el("p", f"… and {others} more", class_="more") if drawn.undrawn else None,
    )


def _line(number: int, line: Line, index: Index) -> Html:
    first, last = line.points[0], line.points[-1]
    return el(
        "li",
        el("i", class_=f"swatch l-{number}"),
        el("code", line.partition),
        f" {line.field}: ",
        index.link(first.place, number_text(first.value), class_="number"),
        " → ",
        index.link(last.place, number_text(last.value), class_="number"),
    )


def _legend() -> Html:
    states = [el("span", el("i", class_=f"swatch s-{one}"), _word(one)) for one in _STATES]
    marks = [el("span", legend_mark(kind), words) for kind, words in LEGEND.items()]
    return el("div", states, marks, class_="legend")


def _word(state_name: str) -> str:
    return "several" if state_name == "MIXED" else state_name
