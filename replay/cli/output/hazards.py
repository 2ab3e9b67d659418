"""Output of hazards in several clusters, in the words of `controlplane inspect --hazards`."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.terminal.hazard_hits import (
    HEADS,
    HazardReader,
    hit_document,
    without_releases,
)
from controlplane.terminal.output import say
from controlplane.terminal.tables import table
from replay.cluster_records import ClusterRecords


class HazardOutcome(msgspec.Struct, frozen=True):
    """Hazards of one cluster, as rows and as documents."""

    rows: tuple[tuple[str, ...], ...]
    documents: tuple[dict[str, Any], ...]


class HazardTask(msgspec.Struct, frozen=True):
    """Task: find the hazards of one cluster. Its fields are everything that affects the result."""

    profile: Profile | None
    """None: workers of all releases."""
    connector: str | None

    def __call__(self, log: ClusterRecords) -> HazardOutcome:
        """Return the hazards of a cluster."""
        reader, entries = (
            HazardReader(self.profile, log.topics, log.exactly_once),
            list(log.entries()),
        )
        hits = reader.hits(entries, self.connector)
        by_position = {entry.position: entry for entry in entries}
        return HazardOutcome(
            tuple(reader.cells(hit, by_position[hit.hazard.position]) for hit in hits),
            tuple(hit_document(hit, by_position) for hit in hits),
        )


def hazard_documents(results: Mapping[str, HazardOutcome]) -> list[dict[str, Any]]:
    """Hazards of all clusters as JSON documents."""
    return [
        {"cluster": cluster, **document}
        for cluster, outcome in results.items()
        for document in outcome.documents
    ]


def print_hazards(
    profile: Profile | None, results: Mapping[str, HazardOutcome], *, exactly_once: bool
) -> None:
    """Print the hazards of all clusters as one table, and their number in each."""
    rows = list(_rows(profile, results))
    if rows:
        heads = HEADS if profile is None else without_releases(HEADS)
        table([*["CLUSTER"] * (len(results) > 1), *heads], rows)
        say()
    reader = HazardReader(profile, Topics(), exactly_once)
    for cluster, outcome in results.items():
        say(reader.summary(cluster, len(outcome.rows)))


def _rows(
    profile: Profile | None, results: Mapping[str, HazardOutcome]
) -> Iterator[tuple[str, ...]]:
    for cluster, outcome in results.items():
        for row in outcome.rows:
            cells = row if profile is None else without_releases(row)
            yield (cluster, *cells) if len(results) > 1 else cells
