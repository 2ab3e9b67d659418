"""What audits and rehearsals found."""

from collections.abc import Mapping, Sequence

from replay.findings import Severity, called
from replay.report.evidence import Index
from replay.report.facts import Looked, Told
from replay.report.html import Html, el
from replay.report.sections.parts import badge, more


def audited(looked: Looked, index: Index) -> Html:
    """What went wrong in a cluster, and who did what."""
    return el(
        "section",
        el("h3", "Findings"),
        _list(looked.audited.told, {looked.cluster: index}, "Nothing was found."),
        more(looked.audited.more, "finding", "replay audit"),
        id=f"c{index.number}-findings",
    )


def linted(looked: Looked, index: Index) -> Html:
    """What would change if the log were compacted and a worker restarted."""
    nothing = "Every connector would be what it is."
    return el(
        "section",
        el("h3", "Compacted now, and a worker restarted"),
        _list(looked.linted.told, {looked.cluster: index}, nothing),
        more(looked.linted.more, "finding", "replay lint"),
        id=f"c{index.number}-lint",
    )


def shared(found: Sequence[Told], indexes: Mapping[str, Index]) -> Html:
    """What clusters have in common that they should not; nothing where they have nothing."""
    if not found:
        return Html()
    return el("section", el("h2", "Between clusters"), _list(found, indexes, ""), id="shared")


def _list(found: Sequence[Told], indexes: Mapping[str, Index], nothing: str) -> Html:
    """Those that somebody has to see to, and folded up those that are merely worth knowing."""
    if not found:
        return el("p", nothing, class_="none")
    known = [one for one in found if one.severity is Severity.INFO]
    grave = [one for one in found if one.severity is not Severity.INFO]
    lists = [
        el("ul", [_finding(one, indexes) for one in each], class_="findings")
        for each in (grave, known)
    ]
    words = el("summary", f"{len(known):,} for information")
    return el("div", lists[0] if grave else None, el("details", words, lists[1]) if known else None)


def _finding(one: Told, indexes: Mapping[str, Index]) -> Html:
    chips = [
        indexes[cluster].link(place, f"{cluster} {place}" if one.clusters else place, class_="chip")
        for cluster, place in one.where
    ]
    return el(
        "li",
        el("p", badge(one.severity), " ", el("b", called(one.connector)), " ", el("i", one.kind)),
        el("p", one.sentence),
        el("p", one.advice, class_="advice") if one.advice else None,
        el("p", chips, class_="chips"),
        class_=f"finding {one.severity.value}",
    )
