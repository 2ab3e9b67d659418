"""Which records a page names, by their places, those first that matter most.

A page shows so many of them as evidence as it may, so the order decides which.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from controlplane.core.state import Topics
from replay.report.facts import Change, Connector, Part, Time, Told


def named(
    told: Iterable[Told],
    ends: Iterable[str],
    changes: Iterable[Change],
    connectors: Iterable[Connector],
) -> dict[str, None]:
    """All of them, each once."""
    listed = list(connectors)
    return dict.fromkeys(
        chain(
            chain.from_iterable(one.places for one in told),
            ends,
            _reasons(changes),
            chain.from_iterable(one.places.values() for one in listed),
            _latest(listed),
            _drawn(listed),
        )
    )


def ends_of(time: Time | None, parts: Iterable[Part], topics: Topics) -> Iterator[str]:
    """Where everything begins and ends."""
    if time is not None:
        yield from (time.first, time.last)
    for part in parts:
        yield from part.places(topics)


def _reasons(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        for judged in change.judged:
            for reason in judged.reasons:
                yield from reason.places


def _latest(connectors: Iterable[Connector]) -> Iterator[str]:
    """Every record that is told beneath a picture."""
    for connector in connectors:
        if connector.timeline is not None:
            yield from chain.from_iterable(connector.latest.values())


def _drawn(connectors: Iterable[Connector]) -> Iterator[str]:
    """Every record to which a picture leads."""
    for connector in connectors:
        if (drawn := connector.timeline) is not None:
            yield from (mark.place for mark in drawn.marks)
            for lane in (drawn.wanted, drawn.reported, drawn.tasks):
                yield from (span.place for span in lane)
            marked = chain.from_iterable(line.marked for line in drawn.lines)
            yield from (point.place for point in (*drawn.extremes, *marked))
