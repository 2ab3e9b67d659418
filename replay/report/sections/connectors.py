"""Connectors: a table of all."""

from collections.abc import Iterator

from replay.findings import called
from replay.report.axis import Axis
from replay.report.drawing import lane
from replay.report.evidence import Index
from replay.report.facts import Connector, Looked, Time
from replay.report.following import in_words
from replay.report.html import Content, Html, el
from replay.report.sections.cards import COUNTED, cards
from replay.report.sections.findings import worst_of
from replay.report.sections.parts import badge, more, state, table

_SHOWN = ("changed", "restarted", "failed", "moved")
"""What a row counts."""


def connectors(looked: Looked, index: Index) -> Html:
    """All of a cluster that are listed, and those that are drawn."""
    axis, findings = Axis(looked.time or Time(0, 0)), worst_of(looked, index)
    rows = [
        (*_row(number, one, axis, index), _badge(one, findings.get(one.name)))
        for number, one in enumerate(looked.connectors)
    ]
    counted = [f"{COUNTED[kind]}s" for kind in _SHOWN]
    heads = ("connector", "wanted", "reported", "tasks", *counted, "over time", "")
    return el(
        "section",
        el("h3", "Connectors"),
        table(heads, rows, "stacked", counted),
        more(looked.connectors_more, "connector", "replay state"),
        cards(looked, axis, index),
        id=index.part("connectors"),
    )


def _row(number: int, one: Connector, axis: Axis, index: Index) -> tuple[Content, ...]:
    name, drawn = el("b", called(one.name)), one.timeline
    spans = drawn.tasks or drawn.reported if drawn else ()
    wanted = state(one.wanted) if one.there else "gone"
    return (
        name if drawn is None else el("a", name, href=f"#{index.card(number)}"),
        index.link(one.places.get("wanted"), wanted),
        index.link(one.places.get("reported"), state(one.reported)),
        index.link(one.places.get("tasks"), in_words(one.tasks) or "–", class_="tasks"),
        *_numbers(number, one, index),
        lane("over time", spans, axis, None) if spans else "–",
    )


def _numbers(number: int, one: Connector, index: Index) -> Iterator[Html]:
    """Each leads to the one record that it counts, or to where there are several."""
    for kind in _SHOWN:
        counted = one.numbers.get(kind, 0)
        if counted > 1 and one.timeline is not None:
            href = f"#{index.card(number, kind)}"
            yield el("a", f"{counted:,}", href=href, class_="number")
        else:
            yield index.number_of(counted, one.places.get(kind))


def _badge(one: Connector, anchor: str | None) -> Content:
    """The worst that was found about it, leading there."""
    if one.worst is None:
        return None
    return badge(one.worst) if anchor is None else el("a", badge(one.worst), href=f"#{anchor}")
