"""Verification of every byte of an archive: altered files, missing files, gaps."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET

from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.integrity import flaw_of
from replay.archive.manifest import Segment
from replay.archive.merges.merge_proof import MergedRecords, merged_records
from replay.archive.merges.retention_proof import RetentionRun
from replay.archive.merges.unnamed_files import unnamed_files
from replay.archive.segments.segment_files import SCHEMA, ascending, opened, row_groups, rows_of
from replay.archive.segments.segment_writer import described
from replay.archive.segments.winners import winners
from replay.errors import ArchiveCorrupt
from replay.kernels.row_runs import HeldRows
from replay.progress import Advance


class Verification(NamedTuple):
    """Result of the verification of one cluster."""

    cluster: str
    head: str
    """Hash of the last manifest. Stored elsewhere, it proves that the end was not cut off."""
    manifests: int
    segments: int
    records: int
    bytes: int
    flaws: tuple[str, ...]
    """Damage and alterations, one sentence each. Results that depend on them cannot be trusted."""
    gaps: tuple[str, ...]
    """Offsets that were removed from the captured log before a capture read them.

    One sentence each.
    """
    leftovers: tuple[str, ...]
    """Files that no manifest names: an append or a merge died, or is in progress. They are
    harmless."""
    replaced: int = 0
    """Number of files that a merge has replaced and not yet removed."""
    unproven: int = 0
    """Number of replaced segments whose manifests have no hash of their records."""
    earlier_heads: tuple[str, ...] = ()
    """Hashes of the manifests that merges have replaced."""
    retentions: tuple[RetentionRun, ...] = ()
    """Removals of records by age, the oldest first."""
    thinned: int = 0
    """Number of replaced segments from which retention has removed records."""


def verified(cluster: ArchivedCluster, advance: Advance = lambda _: None) -> Verification:
    """Check all files that a cluster's manifests name; the chain was checked on reading."""
    segments = [part_segment for part in cluster.parts.values() for part_segment in part.segments]
    files = list(cluster.chain.files)
    flaws = []
    for stored in files:
        flaw = flaw_of(cluster.store, stored)
        if flaw:
            flaws.append(f"{stored.file} {flaw}")
        advance(stored.bytes)
    damaged = {flaw.partition(" ")[0] for flaw in flaws}
    merged = merged_records(cluster)
    unnamed = unnamed_files(cluster.store, cluster.name, cluster.chain)
    flaws += merged.flaws
    for part in cluster.parts.values():
        before_ms = None
        for segment in part.segments:
            if segment.stored.file not in damaged:
                flaws += _flaws(cluster, segment, before_ms, merged)
            before_ms = segment.latest_ms
    return Verification(
        cluster.name,
        cluster.chain.head,
        len(cluster.chain.manifests),
        len(segments),
        sum(checked.stored.records for checked in segments),
        sum(file.bytes for file in files),
        tuple(flaws),
        tuple(gap.sentence for gap in cluster.gaps),
        unnamed.leftovers,
        len(unnamed.replaced),
        merged.unproven,
        merged.hashes,
        merged.retentions,
        merged.thinned,
    )


def _flaws(
    cluster: ArchivedCluster, segment: Segment, before_ms: int | None, merged: MergedRecords
) -> Iterator[str]:
    """Differences between a segment and its manifest, one sentence each."""
    name = segment.stored.file
    try:
        table = rows_of(cluster.store, segment)
    except ArchiveCorrupt as error:
        yield str(error)
        return
    if not ascending(table):
        yield f"{name} has offsets that do not ascend"
        return
    place = segment.topic, segment.partition
    actual = described(place, table, before_ms, segment.stored, segment.winners)
    for field in segment.__struct_fields__:
        actual_value, said = getattr(actual, field), getattr(segment, field)
        if said is not UNSET and actual_value != said:
            yield f"{name} has {field} {actual_value}, but its manifest says {said}"
    yield from merged.flaws_of(segment, table)
    if segment.winners is not None and not _wins(cluster, segment, table, before_ms):
        yield f"{segment.winners.file} does not hold the winners of its segment"


def _wins(
    cluster: ArchivedCluster, segment: Segment, table: pa.Table, before_ms: int | None
) -> bool:
    assert segment.winners is not None
    try:
        groups = row_groups(opened(cluster.store, segment.winners))
        stored = pa.concat_tables(group.read(*SCHEMA.names) for group in groups).cast(SCHEMA)
    except ArchiveCorrupt:
        return False
    return any(
        stored.equals(
            winners([HeldRows(table)], segment.topic, cluster.topics, before_ms, removed=kept)
        )
        for kept in (True, False)  # earlier versions kept fewer rows
    )


def as_document(result: Verification) -> dict[str, object]:
    """The result as a JSON document."""
    document: dict[str, object] = msgspec.to_builtins(result._asdict())
    # There is one hash for each append, and only --head needs them.
    del document["earlier_heads"]
    document["retentions"] = [
        {"manifest": run.number, "removed_at_ms": run.written_at_ms}
        | msgspec.to_builtins(run.retention)
        for run in result.retentions
    ]
    return document | {"sound": not result.flaws}
