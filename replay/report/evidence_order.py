"""Order of the records that a page names, the most important first.

A page shows a limited number of records as evidence, so the order selects them.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from controlplane.core.state import Topics
from controlplane.page.timeline import TimeRange
from replay.report.page_facts import FindingFacts, PartitionFacts, ReleaseFacts, ReportConnector


def named(
    findings: Iterable[FindingFacts],
    ends: Iterable[str],
    changes: Iterable[ReleaseFacts],
    connectors: Iterable[ReportConnector],
) -> dict[str, None]:
    """Places of all named records, each once."""
    listed = list(connectors)
    return dict.fromkeys(
        chain(
            chain.from_iterable(finding.places for finding in findings),
            ends,
            _reasons(changes),
            chain.from_iterable(finding.places.values() for finding in listed),
            _latest(listed),
            _drawn(listed),
        )
    )


def ends_of(
    time: TimeRange | None, parts: Iterable[PartitionFacts], topics: Topics
) -> Iterator[str]:
    """First and last record of each partition and of the whole log."""
    if time is not None:
        yield from (time.first, time.last)
    for part in parts:
        yield from part.places(topics)


def _reasons(changes: Iterable[ReleaseFacts]) -> Iterator[str]:
    for change in changes:
        for judged in change.judged:
            for reason in judged.reasons:
                yield from reason.places


def _latest(connectors: Iterable[ReportConnector]) -> Iterator[str]:
    for connector in connectors:
        if connector.timeline is not None:
            yield from chain.from_iterable(connector.latest.values())


def _drawn(connectors: Iterable[ReportConnector]) -> Iterator[str]:
    """Records to which a picture links."""
    for connector in connectors:
        if (drawn := connector.timeline) is not None:
            yield from (mark.place for mark in drawn.marks)
            for lane in (drawn.wanted, drawn.reported, drawn.tasks):
                yield from (span.place for span in lane)
            marked = chain.from_iterable(line.marked for line in drawn.lines)
            yield from (point.place for point in (*drawn.extremes, *marked))
