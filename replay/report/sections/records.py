"""What was read, and the records that are named as evidence."""

from controlplane.core.state import Topics
from replay.report.evidence import Index
from replay.report.facts import Looked, Part
from replay.report.html import Content, Html, el
from replay.report.sections.parts import more, table
from replay.report.when import breakable


def records(looked: Looked, index: Index) -> Html:
    """The records that this page names, in the order in which they were written."""
    rows = [
        el(
            "tr",
            el("th", el("code", one.place), scope="row"),
            el("td", breakable(one.at_ms)),
            el("td", el("code", one.key)),
            el("td", el("code", one.value)),
            id=index.anchor(one.place),
        )
        for one in looked.evidence
    ]
    head = el(
        "tr", [el("th", one, scope="col") for one in ("record", "time (UTC)", "key", "value")]
    )
    whole = el("table", el("thead", head), el("tbody", rows), class_="evidence")
    return el(
        "section",
        el("h3", "Evidence"),
        el("p", "Secrets are hidden, long values are cut.", class_="more"),
        el("div", whole, class_="scroll"),
        more(looked.evidence_more, "record", "replay history"),
        _read(looked, index),
        id=index.part("evidence"),
    )


def _read(looked: Looked, index: Index) -> Html:
    """What was read."""
    heads = ("topic", "partition", "records", "first offset", "last offset")
    rows = [_part(one, looked.topics, index) for one in looked.parts]
    head, known = looked.head, looked.missing[: looked.limits.findings]
    missing = [el("li", one.sentence, " ", index.chips(one.places)) for one in known]
    return el(
        "div",
        el("h4", "What was read"),
        table(heads, rows, "parts", heads[1:]),
        el("ul", missing, class_="missing") if missing else None,
        more(len(looked.missing) - len(known), "gap", "replay verify -o json"),
        el("p", "Last manifest: ", el("code", head), class_="more") if head else None,
        id=index.part("read"),
    )


def _part(one: Part, topics: Topics, index: Index) -> tuple[Content, ...]:
    """Of one partition: its numbers lead to its first and its last record."""
    first, last = one.places(topics)
    return (
        one.topic,
        str(one.partition),
        index.number_of(one.records, last),
        index.link(first, str(one.first), class_="number"),
        index.link(last, str(one.last), class_="number"),
    )
