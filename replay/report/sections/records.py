"""What was read, and the records that are named as evidence."""

from replay.report.drawing import when
from replay.report.evidence import Index
from replay.report.facts import Looked
from replay.report.html import Html, el
from replay.report.sections.parts import more, table


def records(looked: Looked, index: Index) -> Html:
    """The records that this page names, in the order in which they were written."""
    rows = [
        el(
            "tr",
            el("th", el("code", one.place), scope="row"),
            el("td", when(one.at_ms)),
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
        id=f"c{index.number}-evidence",
    )


def _read(looked: Looked, index: Index) -> Html:
    """What was read."""
    heads = ("topic", "partition", "records", "first offset", "last offset")
    rows = [
        (one.topic, str(one.partition), f"{one.records:,}", str(one.first), str(one.last))
        for one in looked.parts
    ]
    head = looked.head
    return el(
        "div",
        el("h4", "What was read"),
        table(heads, rows),
        el("p", "Last manifest: ", el("code", head), class_="more") if head else None,
        id=f"c{index.number}-read",
    )
