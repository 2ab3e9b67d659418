"""Section of connectors: a table of the listed ones, and a card with a timeline for drawn ones."""

from collections.abc import Iterator

from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.offset_chart import line_key, offset_text
from controlplane.page.time_axis import TimeAxis
from controlplane.page.timeline import MIXED, ConnectorTimeline, OffsetLine, TimeRange
from controlplane.page.timeline_chart import LEGEND, lane, legend_mark, legend_state, timeline
from replay.findings import called
from replay.report.connector_timelines import in_words
from replay.report.page_facts import ClusterFacts, ReportConnector
from replay.report.record_index import RecordIndex
from replay.report.sections.elements import badge, omitted_note, state, table
from replay.report.sections.findings import worst_of

_STATES = ("RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING")

COUNTED = {
    "created": "creation",
    "seen": "first seen",
    "changed": "config change",
    "restarted": "restart",
    "failed": "failure",
    "reset": "offset reset",
    "moved": "offset",
    "deleted": "deletion",
}
"""Names of the counted events."""

_WITHOUT_PLURAL = frozenset({"first seen"})
"""Names that are no nouns."""


def _cards(cluster_facts: ClusterFacts, axis: TimeAxis, index: RecordIndex) -> HtmlContent:
    drawn = [
        _card(number, connector, connector.timeline, axis, index)
        for number, connector in enumerate(cluster_facts.connectors)
        if connector.timeline is not None
    ]
    undrawn = len(cluster_facts.connectors) - len(drawn)
    left_out = (
        el("a", f"{count(undrawn, 'connector')} more", href=f"#{index.part('connectors')}"),
        " is not drawn." if undrawn == 1 else " are not drawn.",
    )
    return (
        el("h3", "Over time"),
        _legend() if drawn else None,
        drawn,
        el("p", left_out, class_="more") if undrawn else None,
    )


def _legend() -> Html:
    states = [el("span", legend_state(value), value) for value in _STATES]
    several = [
        el("span", legend_state(MIXED, hurt=hurt), words)
        for hurt, words in ((False, "several"), (True, "several, a failure among them"))
    ]
    marks = [el("span", legend_mark(kind), words) for kind, words in LEGEND.items()]
    return el("div", states, several, marks, class_="legend")


def _card(
    number: int,
    connector: ReportConnector,
    drawn: ConnectorTimeline,
    axis: TimeAxis,
    index: RecordIndex,
) -> Html:
    title = el(
        "h4",
        called(connector.name),
        " ",
        state(connector.wanted) if connector.there else el("span", "gone", class_="state none"),
        badge(connector.worst) if connector.worst is not None else None,
    )
    return el(
        "article",
        title,
        timeline(drawn, axis, index),
        _offsets(drawn, index),
        _behind(number, connector, index),
        id=index.card(number),
        class_="card",
    )


def _offsets(drawn: ConnectorTimeline, index: RecordIndex) -> HtmlContent:
    if not drawn.lines:
        return None
    lines = [_line(number, line, drawn, index) for number, line in enumerate(drawn.lines)]
    left_out = omitted_note(drawn.undrawn, "partition", "replay timeline --offsets")
    return el("ul", lines, class_="lines"), left_out


def _line(number: int, line: OffsetLine, drawn: ConnectorTimeline, index: RecordIndex) -> Html:
    ends = dict.fromkeys((line.points[0], line.points[-1]))
    numbers = [index.link(end.place, offset_text(end.value), class_="number") for end in ends]
    return el(
        "li",
        line_key(number) if drawn.has_changes else None,
        el("code", line.partition),
        f" {line.field}: ",
        numbers[0],
        [(" → ", number_link) for number_link in numbers[1:]],
    )


def _behind(number: int, connector: ReportConnector, index: RecordIndex) -> HtmlContent:
    """Records behind a connector's numbers: the last few of each kind."""
    rows = [
        _records_row(
            COUNTED[kind],
            connector.numbers[kind],
            connector.latest[kind],
            index,
            index.card(number, kind),
        )
        for kind in COUNTED
        if connector.numbers.get(kind)
    ]
    if connector.tasks:
        tasks = sum(connector.tasks.values())
        rows.append(
            _records_row(
                "task", tasks, connector.latest["tasks"], index, index.card(number, "tasks")
            )
        )
    if not rows:
        return None
    return el("details", el("summary", "Records behind the numbers"), el("ul", rows))


def _records_row(
    noun: str, number: int, few: tuple[str, ...], index: RecordIndex, anchor: str
) -> Html:
    left_out = number - len(few)
    label = noun if number == 1 or noun in _WITHOUT_PLURAL else f"{noun}s"
    words = f"and {left_out:,} more: ", el("code", "replay history"), " lists all"
    return el(
        "li",
        el("b", f"{number:,}"),
        el("span", label),
        el("span", index.chips(few), words if left_out else None, class_="chips"),
        id=anchor,
    )


_SHOWN = ("changed", "restarted", "failed", "moved")
"""Counted events of a row."""


def connectors(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Listed connectors of a cluster, and the cards of the drawn ones."""
    axis, findings = TimeAxis(cluster_facts.time or TimeRange(0, 0)), worst_of(cluster_facts, index)
    rows = [
        (*_row(number, connector, axis, index), _badge(connector, findings.get(connector.name)))
        for number, connector in enumerate(cluster_facts.connectors)
    ]
    counted = [f"{COUNTED[kind]}s" for kind in _SHOWN]
    heads = ("connector", "wanted", "reported", "tasks", *counted, "over time", "")
    return el(
        "section",
        el("h3", "Connectors"),
        table(heads, rows, "stacked", counted),
        omitted_note(cluster_facts.connectors_more, "connector", "replay state"),
        _cards(cluster_facts, axis, index),
        id=index.part("connectors"),
    )


def _row(
    number: int, connector: ReportConnector, axis: TimeAxis, index: RecordIndex
) -> tuple[HtmlContent, ...]:
    name, drawn = el("b", called(connector.name)), connector.timeline
    spans = drawn.tasks or drawn.reported if drawn else ()
    target = state(connector.wanted) if connector.there else "gone"
    return (
        name if drawn is None else el("a", name, href=f"#{index.card(number)}"),
        index.link(connector.places.get("wanted"), target),
        index.link(connector.places.get("reported"), state(connector.reported)),
        index.link(connector.places.get("tasks"), in_words(connector.tasks) or "–", class_="tasks"),
        *_numbers(number, connector, index),
        lane("over time", spans, axis, None) if spans else "–",
    )


def _numbers(number: int, connector: ReportConnector, index: RecordIndex) -> Iterator[Html]:
    """Yield the number of events of each kind, as a link.

    A single event links to its record, several events to their list on the connector's card.
    """
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
