"""Section of the records read, and of the records shown as evidence."""

from controlplane.core.state import Topics
from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.times import breakable
from replay.report.page_facts import ClusterFacts, PartitionFacts
from replay.report.record_index import RecordIndex
from replay.report.sections.elements import omitted_note, table


def records(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Records that the page names, in the order of the log."""
    rows = [
        el(
            "tr",
            el("th", el("code", record.place), scope="row"),
            el("td", breakable(record.at_ms)),
            el("td", el("code", record.key)),
            el("td", el("code", record.value)),
            id=index.anchor(record.place),
        )
        for record in cluster_facts.evidence
    ]
    head = el(
        "tr", [el("th", title, scope="col") for title in ("record", "time (UTC)", "key", "value")]
    )
    whole = el("table", el("thead", head), el("tbody", rows), class_="evidence")
    return el(
        "section",
        el("h3", "Evidence"),
        el("p", "Secrets are hidden, long values are cut.", class_="more"),
        el("div", whole, class_="scroll"),
        omitted_note(cluster_facts.evidence_more, "record", "replay history"),
        _read(cluster_facts, index),
        id=index.part("evidence"),
    )


def _read(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    heads = ("topic", "partition", "records", "first offset", "last offset")
    rows = [_part(part, cluster_facts.topics, index) for part in cluster_facts.parts]
    head, certain = cluster_facts.head, cluster_facts.certain_from
    missing = [
        el("li", gap.sentence, " ", index.chips(gap.places)) for gap in cluster_facts.missing
    ]
    return el(
        "div",
        el("h4", "What was read"),
        table(heads, rows, "parts", heads[1:]),
        el("ul", missing, class_="missing") if missing else None,
        omitted_note(cluster_facts.missing_more, "unknown span", "replay timeline -o json"),
        el("p", certain, class_="missing") if certain else None,
        el("p", "Last manifest: ", el("code", head), class_="more") if head else None,
        id=index.part("read"),
    )


def _part(part: PartitionFacts, topics: Topics, index: RecordIndex) -> tuple[HtmlContent, ...]:
    """Row of a partition; its numbers link to its first and last record."""
    first, last = part.places(topics)
    return (
        part.topic,
        str(part.partition),
        index.number_of(part.records, last),
        index.link(first, str(part.first), class_="number"),
        index.link(last, str(part.last), class_="number"),
    )
