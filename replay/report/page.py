"""Assembly of the page: one HTML file without scripts or external resources."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

from controlplane.page.html import Html, el
from replay.audit.shared_topics import in_common
from replay.report.fleet_facts import finding_facts
from replay.report.page_facts import ClusterFacts, FindingFacts
from replay.report.record_index import RecordIndex
from replay.report.sections.connectors import connectors
from replay.report.sections.evidence import records
from replay.report.sections.findings import audited, linted, shared
from replay.report.sections.page_head import brief, header, navigation
from replay.report.sections.releases import fleet_matrix, releases
from replay.report.sections.summary import summary

OPEN = 4
"""Greatest size of a fleet whose clusters are all expanded when the page opens. In a larger fleet,
all are collapsed."""

_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: inline styles only."""

_PARTS = (
    ("connectors", "Connectors", connectors),
    ("findings", "Findings", audited),
    ("releases", "Releases", releases),
    ("lint", "Compaction", linted),
    ("evidence", "Evidence", records),
)


def page(fleet: Sequence[ClusterFacts], failed: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the page in pieces; `failed` maps unreadable clusters to reasons."""
    between = _between(fleet)
    styles = files("replay.report").joinpath("style.css").read_text(encoding="utf-8")
    title = f"Replay: {fleet[0].cluster if len(fleet) == 1 else f'{len(fleet)} clusters'}"
    yield "<!doctype html>\n"
    yield '<html lang="en">'
    yield el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_NOTHING_ELSE),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", Html(styles)),
    )
    indexes = [RecordIndex.of(number, cluster_facts) for number, cluster_facts in enumerate(fleet)]
    yield "<body>"
    yield header(fleet, indexes, _links(indexes, between))
    yield "<main>"
    yield summary(fleet, indexes, between, failed or {})
    if len(fleet) > 1:
        yield fleet_matrix(fleet, indexes)
    yield shared(
        between, {facts.cluster: index for facts, index in zip(fleet, indexes, strict=True)}
    )
    for cluster_facts, index in zip(fleet, indexes, strict=True):
        if len(fleet) == 1:
            yield from _parts(cluster_facts, index)
        else:
            yield _cluster(cluster_facts, index, is_open=len(fleet) <= OPEN)
    yield "</main>"
    yield _footer(fleet)
    yield "</body></html>\n"


def _between(fleet: Sequence[ClusterFacts]) -> list[FindingFacts]:
    """Findings about resources that clusters share by mistake."""
    topics = {cluster_facts.cluster: cluster_facts.topics for cluster_facts in fleet}
    return [finding_facts(finding, topics) for finding in in_common(each.shares for each in fleet)]


def _links(
    indexes: Sequence[RecordIndex], between: Sequence[FindingFacts]
) -> list[tuple[str, str]]:
    """Links to the parts of the page, with titles."""
    if len(indexes) == 1:
        return [("summary", "Summary"), *_parts_of(indexes[0])]
    shared = [("shared", "Between clusters")] if between else []
    return [("summary", "Summary"), ("clusters", "Clusters"), ("releases", "Releases"), *shared]


def _parts_of(index: RecordIndex) -> list[tuple[str, str]]:
    return [(index.part(part), title) for part, title, _ in _PARTS]


def _parts(cluster_facts: ClusterFacts, index: RecordIndex) -> Iterator[Html]:
    return (make(cluster_facts, index) for _, _, make in _PARTS)


def _cluster(cluster_facts: ClusterFacts, index: RecordIndex, *, is_open: bool) -> Html:
    return el(
        "details",
        el("summary", el("h2", cluster_facts.cluster), brief(cluster_facts, index)),
        navigation(_parts_of(index)),
        _parts(cluster_facts, index),
        id=f"c{index.number}",
        class_="cluster",
        open=is_open,
    )


def _footer(fleet: Sequence[ClusterFacts]) -> Html:
    has_trail, limits = any(facts.has_trail for facts in fleet), fleet[0].limits
    made = (
        "Made by ",
        el("code", "replay report"),
        " from the records and audit streams." if has_trail else " from the records alone.",
        " It contains no secrets.",
    )
    bounds = (
        f"For each cluster it lists up to {limits.listed:,} connectors and draws up to "
        f"{limits.drawn:,}. It lists up to {limits.findings:,} findings of each section, and shows "
        f"up to {limits.evidence:,} records."
    )
    return el("footer", el("p", made), el("p", bounds))
