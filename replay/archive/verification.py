"""Verification of every byte of an archive: altered files, missing files, gaps."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa

from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.integrity import flaw_of
from replay.archive.manifest import Segment
from replay.archive.segment_writer import described
from replay.archive.segments import SCHEMA, ascending, opened, row_groups
from replay.archive.winners import winners
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
    """Offsets that the source had lost before they were archived, one sentence each."""
    leftovers: tuple[str, ...]
    """Files that no manifest names, left by an append that died. They are harmless."""


def verified(cluster: ArchivedCluster, advance: Advance = lambda _: None) -> Verification:
    """Check all files that a cluster's manifests name; the chain was checked on reading."""
    segments = [part_segment for part in cluster.parts.values() for part_segment in part.segments]
    files = [file for manifest in cluster.chain.manifests for file in manifest.files]
    flaws = []
    for stored in files:
        flaw = flaw_of(cluster.store, stored)
        if flaw:
            flaws.append(f"{stored.file} {flaw}")
        advance(stored.bytes)
    hurt = {flaw.partition(" ")[0] for flaw in flaws}
    for part in cluster.parts.values():
        before_ms = None
        for segment in part.segments:
            if segment.stored.file not in hurt:
                flaws += _flaws(cluster, segment, before_ms)
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
        tuple(_leftovers(cluster)),
    )


def _flaws(cluster: ArchivedCluster, segment: Segment, before_ms: int | None) -> Iterator[str]:
    """Differences between a segment and its manifest, one sentence each."""
    name = segment.stored.file
    try:
        file = opened(cluster.store, segment.stored)
        table = pa.concat_tables(group.read(*SCHEMA.names) for group in row_groups(file)).cast(
            SCHEMA
        )
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
        if actual_value != said:
            yield f"{name} has {field} {actual_value}, but its manifest says {said}"
    if segment.winners is not None and not _wins(cluster, segment, table, before_ms):
        yield f"{segment.winners.file} does not hold the rows of its segment that may still count"


def _wins(
    cluster: ArchivedCluster, segment: Segment, table: pa.Table, before_ms: int | None
) -> bool:
    assert segment.winners is not None
    try:
        file = opened(cluster.store, segment.winners)
    except ArchiveCorrupt:
        return False
    groups = row_groups(file)
    stored = pa.concat_tables(group.read(*SCHEMA.names) for group in groups).cast(SCHEMA)
    return any(
        stored.equals(
            winners([HeldRows(table)], segment.topic, cluster.topics, before_ms, removed=kept)
        )
        for kept in (True, False)  # earlier versions kept fewer rows
    )


def _leftovers(cluster: ArchivedCluster) -> Iterator[str]:
    """Files in a cluster's folder that no manifest names."""
    named = {file.file for manifest in cluster.chain.manifests for file in manifest.files}
    named |= {
        layout.manifest(cluster.name, manifest.number) for manifest in cluster.chain.manifests
    }
    for name in cluster.store.walk(layout.folder(cluster.name)):
        if name not in named:
            yield name


def as_document(result: Verification) -> dict[str, object]:
    """The result as a JSON document."""
    document: dict[str, object] = msgspec.to_builtins(result._asdict())
    return document | {"sound": not result.flaws}
