"""Summary: numbers of the whole fleet, and a row for each cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence

from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.timeline import TimeRange
from controlplane.page.times import breakable
from replay.report.page_facts import ClusterFacts, FindingFacts
from replay.report.record_index import RecordIndex
from replay.report.sections.elements import table, tile
from replay.report.sections.findings import part_with

_SEVERITIES = ("danger", "warning", "info")


def summary(
    fleet: Sequence[ClusterFacts],
    indexes: Sequence[RecordIndex],
    shared: Sequence[FindingFacts],
    failed: Mapping[str, str],
) -> Html:
    """The fleet in a few linked numbers."""
    numbers: Counter[str] = Counter()
    for cluster_facts in fleet:
        numbers.update(cluster_facts.numbers)
        numbers.update(_findings_by_severity(cluster_facts))
    numbers.update(finding.severity.value for finding in shared)
    numbers["records"] = sum(cluster_facts.records for cluster_facts in fleet)
    tiles = [
        *([tile("clusters", f"{len(fleet):,}", "#clusters")] if len(fleet) > 1 else []),
        tile("connectors", f"{numbers['there']:,}", _to("connectors", fleet)),
        tile("running", f"{numbers['RUNNING']:,}", _to("connectors", fleet), "good"),
        tile("failed", f"{numbers['FAILED']:,}", _to("connectors", fleet), _bad(numbers["FAILED"])),
        tile(
            "with failed tasks",
            f"{numbers['with failed tasks']:,}",
            _to("connectors", fleet),
            _bad(numbers["with failed tasks"]),
        ),
        *(
            tile(
                f"{word} findings",
                f"{numbers[word]:,}",
                _to(part_with(word, fleet[0]), fleet),
                word,
            )
            for word in _SEVERITIES
        ),
        tile("records read", f"{numbers['records']:,}", _to("read", fleet)),
    ]
    return el(
        "section",
        el("div", tiles, class_="tiles"),
        [
            el("p", el("b", name), f" could not be read: {why}", class_="failed")
            for name, why in failed.items()
        ],
        _clusters(fleet, indexes) if len(fleet) > 1 else None,
        id="summary",
    )


def _bad(number: int) -> str:
    return "danger" if number else ""


def _to(section: str, fleet: Sequence[ClusterFacts]) -> str:
    return f"#c0-{section}" if len(fleet) == 1 else "#clusters"


def _clusters(fleet: Sequence[ClusterFacts], indexes: Sequence[RecordIndex]) -> Html:
    numbers = ("connectors", "running", "with failures", *_SEVERITIES, "records")
    heads = ("cluster", *numbers, "from", "to")
    pairs = zip(fleet, indexes, strict=True)
    worst_first = sorted(pairs, key=lambda each: _badness(each[0]), reverse=True)
    rows = [_cluster(*each) for each in worst_first]
    return el("div", table(heads, rows, "stacked", numbers), id="clusters")


def _cluster(facts: ClusterFacts, index: RecordIndex) -> tuple[HtmlContent, ...]:
    def to(section: str, number: int) -> Html:
        kind = "number" if number else "number zero"
        return el("a", f"{number:,}", href=f"#{index.part(section)}", class_=kind)

    numbers, severities, time = (
        facts.numbers,
        _findings_by_severity(facts),
        facts.time or TimeRange(-1, -1),
    )
    failed = numbers.get("FAILED", 0) + numbers.get("with failed tasks", 0)
    return (
        el("a", el("b", facts.cluster), href=f"#c{index.number}"),
        to("connectors", numbers["there"]),
        to("connectors", numbers.get("RUNNING", 0)),
        to("connectors", failed),
        *(to(part_with(word, facts), severities[word]) for word in _SEVERITIES),
        to("read", facts.records),
        index.link(time.first, breakable(time.first_ms), class_="time"),
        index.link(time.last, breakable(time.last_ms), class_="time"),
    )


def _badness(facts: ClusterFacts) -> list[int]:
    numbers = _findings_by_severity(facts)
    return [numbers[word] for word in _SEVERITIES[:-1]]


def _findings_by_severity(facts: ClusterFacts) -> Counter[str]:
    """Number of findings of audits and rehearsals, by severity."""
    return Counter(facts.audited.numbers) + Counter(facts.linted.numbers)
