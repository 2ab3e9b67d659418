"""Head of the page and of each cluster."""

from collections import Counter
from collections.abc import Iterable, Sequence

from controlplane.core.text.safe_text import count
from controlplane.page.html import Html, HtmlContent, el
from controlplane.page.times import time_words
from replay.findings import Severity
from replay.report.page_facts import ClusterFacts
from replay.report.record_index import RecordIndex
from replay.report.sections.findings import part_with


def header(
    fleet: Sequence[ClusterFacts], indexes: Sequence[RecordIndex], links: Iterable[tuple[str, str]]
) -> Html:
    """Title, time range and links of the page."""
    return el(
        "header",
        el("p", "Kafka Connect, replayed", class_="kicker"),
        el("h1", fleet[0].cluster if len(fleet) == 1 else _all(fleet)),
        el("p", _span(fleet, indexes), f", read as {fleet[0].release}", class_="span"),
        navigation(links),
    )


def navigation(links: Iterable[tuple[str, str]]) -> Html:
    """Links to parts of the page."""
    return el("nav", [el("a", title, href=f"#{part}") for part, title in links])


def brief(cluster_facts: ClusterFacts, index: RecordIndex) -> Html:
    """Summary beside a cluster's name: number of connectors and open problems."""
    numbers = Counter(cluster_facts.audited.numbers) + Counter(cluster_facts.linted.numbers)
    connectors = count(cluster_facts.numbers["there"], "connector")
    grave = [
        severity.value
        for severity in (Severity.DANGER, Severity.WARNING)
        if numbers[severity.value]
    ]
    return el(
        "span",
        el("a", connectors, href=f"#{index.part('connectors')}"),
        [
            el(
                "a",
                f"{numbers[severity]:,} {severity}",
                href=f"#{index.part(part_with(severity, cluster_facts))}",
                class_=f"badge {severity}",
            )
            for severity in grave
        ],
        class_="brief",
    )


def _all(fleet: Sequence[ClusterFacts]) -> Html:
    """Number of clusters, linked to their list."""
    return el("a", f"{len(fleet):,} clusters", href="#clusters")


def _span(fleet: Sequence[ClusterFacts], indexes: Sequence[RecordIndex]) -> HtmlContent:
    """Time range of the records; each end links to its record."""
    pairs = zip(fleet, indexes, strict=True)
    timed = [
        (cluster_facts.time, index)
        for cluster_facts, index in pairs
        if cluster_facts.time is not None
    ]
    if not timed:
        return "at unknown times"
    first, begins = min(timed, key=lambda each: each[0].first_ms)
    last, ends = max(timed, key=lambda each: each[0].last_ms)
    return (
        begins.link(first.first, time_words(first.first_ms)),
        " – ",
        ends.link(last.last, time_words(last.last_ms)),
        " UTC",
    )
