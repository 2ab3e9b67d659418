"""Section of findings from audits and rehearsals."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.page.html import Html, el
from replay.findings import Severity, called
from replay.report.page_facts import ClusterFacts, FindingFacts, FindingsFacts
from replay.report.record_index import RecordIndex
from replay.report.sections.elements import badge, omitted_note


def worst_of(cluster_facts: ClusterFacts, index: RecordIndex) -> dict[str | None, str]:
    """Anchor of the worst listed finding of each connector."""
    parts = (("findings", cluster_facts.audited), ("lint", cluster_facts.linted))
    anchors = [
        (finding.severity, finding.connector, index.finding(part, row))
        for part, listing in parts
        for row, finding in enumerate(listing.listed)
    ]
    # The worst finding comes last and replaces the others.
    anchors.sort(key=lambda each: list(Severity).index(each[0]))
    return {connector: anchor for _, connector, anchor in anchors}


def part_with(severity: str, cluster_facts: ClusterFacts) -> str:
    """Part of a cluster's page where findings of a severity begin."""
    audit_numbers, lint_numbers = cluster_facts.audited.numbers, cluster_facts.linted.numbers
    return "lint" if lint_numbers.get(severity) and not audit_numbers.get(severity) else "findings"


def audited(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Problems of a cluster, and changes with their authors."""
    lines = _SectionText("Findings", "Nothing was found.", "replay audit")
    return _section("findings", lines, cluster_facts.audited, {cluster_facts.cluster: index})


def linted(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Effects of a compaction and a restart."""
    lines = _SectionText(
        "After a compaction and a restart", "No connector would change.", "replay lint"
    )
    return _section("lint", lines, cluster_facts.linted, {cluster_facts.cluster: index})


class _SectionText(NamedTuple):
    """Fixed text of a section: title, text without findings, and the command that lists all."""

    title: str
    empty: str
    command: str


def _section(
    part: str, text: _SectionText, facts: FindingsFacts, indexes: Mapping[str, RecordIndex]
) -> Html:
    (index,) = indexes.values()
    anchor, rows = index.part(part), _named(part, facts.listed, index)
    return el(
        "section",
        el("h3", text.title),
        _list(anchor, rows, indexes) or el("p", text.empty, class_="none"),
        omitted_note(facts.unlisted, "finding", text.command),
        id=anchor,
    )


def shared(findings: Sequence[FindingFacts], indexes: Mapping[str, RecordIndex]) -> Html:
    """Resources that clusters share by mistake; empty if there are none."""
    if not findings:
        return Html()
    rows = [(f"shared-{row}", finding) for row, finding in enumerate(findings)]
    return el("section", el("h2", "Between clusters"), _list("shared", rows, indexes), id="shared")


_Named = tuple[str, FindingFacts]
"""A finding with its anchor."""


def _named(part: str, findings: Sequence[FindingFacts], index: RecordIndex) -> list[_Named]:
    return [(index.finding(part, row), finding) for row, finding in enumerate(findings)]


def _list(part: str, named: Sequence[_Named], indexes: Mapping[str, RecordIndex]) -> Html | None:
    """Findings that need action, then the informational ones, collapsed."""
    if not named:
        return None
    infos = [each for each in named if each[1].severity is Severity.INFO]
    grave = [each for each in named if each[1].severity is not Severity.INFO]
    lists = [
        el("ul", [_finding(*row, indexes) for row in rows], class_="findings", id=name)
        for rows, name in ((grave, None), (infos, f"{part}-known"))
    ]
    words = el("summary", el("a", f"{len(infos):,} for information", href=f"#{part}-known"))
    return el("div", lists[0] if grave else None, el("details", words, lists[1]) if infos else None)


def _finding(anchor: str, finding: FindingFacts, indexes: Mapping[str, RecordIndex]) -> Html:
    chips = [
        indexes[cluster].link(
            place, f"{cluster} {place}" if finding.clusters else place, class_="chip"
        )
        for cluster, place in finding.cluster_places
    ]
    return el(
        "li",
        el(
            "p",
            badge(finding.severity),
            " ",
            el("b", called(finding.connector)),
            " ",
            el("i", finding.kind),
        ),
        el("p", finding.sentence),
        el("p", finding.advice, class_="advice") if finding.advice else None,
        el("p", chips, class_="chips"),
        id=anchor,
        class_=f"finding {finding.severity.value}",
    )
