"""Table of all connectors."""

from collections.abc import Iterator

from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.time_axis import TimeAxis
from controlplane.page.timeline import TimeRange
from controlplane.page.timeline_chart import lane
from replay.findings import called
from replay.report.connector_timelines import in_words
from replay.report.page_facts import ClusterFacts, ReportConnector
from replay.report.record_index import RecordIndex
from replay.report.sections.cards import COUNTED, cards
from replay.report.sections.elements import badge, more, state, table
from replay.report.sections.findings import worst_of

_SHOWN = ("changed", "restarted", "failed", "moved")
"""Counted events of a row."""


def connectors(looked: ClusterFacts, index: RecordIndex) -> Html:
    """Listed connectors of a cluster, and the cards of the drawn ones."""
    axis, findings = TimeAxis(looked.time or TimeRange(0, 0)), worst_of(looked, index)
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


def _row(
    number: int, connector: ReportConnector, axis: TimeAxis, index: RecordIndex
) -> tuple[HtmlContent, ...]:
    name, drawn = el("b", called(connector.name)), connector.timeline
    spans = drawn.tasks or drawn.reported if drawn else ()
    wanted = state(connector.wanted) if connector.there else "gone"
    return (
        name if drawn is None else el("a", name, href=f"#{index.card(number)}"),
        index.link(connector.places.get("wanted"), wanted),
        index.link(connector.places.get("reported"), state(connector.reported)),
        index.link(connector.places.get("tasks"), in_words(connector.tasks) or "–", class_="tasks"),
        *_numbers(number, connector, index),
        lane("over time", spans, axis, None) if spans else "–",
    )


def _numbers(number: int, connector: ReportConnector, index: RecordIndex) -> Iterator[Html]:
    """Numbers linked to their record, or to the list of several."""
    for kind in _SHOWN:
        counted = connector.numbers.get(kind, 0)
        if counted > 1 and connector.timeline is not None:
            href = f"#{index.card(number, kind)}"
            yield el("a", f"{counted:,}", href=href, class_="number")
        else:
            yield index.number_of(counted, connector.places.get(kind))


def _badge(connector: ReportConnector, anchor: str | None) -> HtmlContent:
    """Badge of the worst finding, linked to it."""
    if connector.worst is None:
        return None
    return (
        badge(connector.worst)
        if anchor is None
        else el("a", badge(connector.worst), href=f"#{anchor}")
    )
