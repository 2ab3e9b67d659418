"""Every byte of an archive, looked at: what is altered, missing, lost before it was archived."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa

from replay.archive import layout
from replay.archive.cluster import Cluster
from replay.archive.filling import described
from replay.archive.integrity import flaw_of
from replay.archive.manifest import Segment
from replay.archive.segments import SCHEMA, ascending, opened, row_groups
from replay.archive.winners import winners
from replay.errors import ArchiveCorrupt
from replay.kernels.rows import Held
from replay.progress import Advance


class Verified(NamedTuple):
    """What the archive of one cluster is worth."""

    cluster: str
    head: str
    """The hash of the last manifest: kept elsewhere, it tells whether the end was cut off."""
    manifests: int
    segments: int
    records: int
    bytes: int
    flaws: tuple[str, ...]
    """What is damaged or altered: a sentence each. Nothing that depends on it can be trusted."""
    gaps: tuple[str, ...]
    """What the source had lost before it was archived: a sentence each."""
    leftovers: tuple[str, ...]
    """Files that no manifest names: an append died. They do no harm."""


def verified(cluster: Cluster, advance: Advance = lambda _: None) -> Verified:
    """Look at everything that the manifests of a cluster name, which must be a chain by itself."""
    segments = [one for part in cluster.parts.values() for one in part.segments]
    files = [one for manifest in cluster.chain.manifests for one in manifest.files]
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
    return Verified(
        cluster.name,
        cluster.chain.head,
        len(cluster.chain.manifests),
        len(segments),
        sum(one.stored.records for one in segments),
        sum(one.bytes for one in files),
        tuple(flaws),
        tuple(gap.sentence for gap in cluster.gaps),
        tuple(_leftovers(cluster)),
    )


def _flaws(cluster: Cluster, segment: Segment, before_ms: int | None) -> Iterator[str]:
    """What a segment has that its manifest does not tell, or the other way round."""
    name = segment.stored.file
    try:
        file = opened(cluster.store, segment.stored)
        table = pa.concat_tables(one.read(*SCHEMA.names) for one in row_groups(file)).cast(SCHEMA)
    except ArchiveCorrupt as error:
        yield str(error)
        return
    if not ascending(table):
        yield f"{name} has offsets that do not ascend"
        return
    place = segment.topic, segment.partition
    told = described(place, table, before_ms, segment.stored, segment.winners)
    for field in segment.__struct_fields__:
        there, said = getattr(told, field), getattr(segment, field)
        if there != said:
            yield f"{name} has {field} {there}, and its manifest says {said}"
    if segment.winners is not None and not _wins(cluster, segment, table, before_ms):
        yield f"{segment.winners.file} has other rows than those of its segment that count"


def _wins(cluster: Cluster, segment: Segment, table: pa.Table, before_ms: int | None) -> bool:
    assert segment.winners is not None
    try:
        file = opened(cluster.store, segment.winners)
    except ArchiveCorrupt:
        return False
    groups = row_groups(file)
    there = pa.concat_tables(one.read(*SCHEMA.names) for one in groups).cast(SCHEMA)
    return any(
        there.equals(winners([Held(table)], segment.topic, cluster.topics, before_ms, removed=kept))
        for kept in (True, False)  # an earlier version may have written them
    )


def _leftovers(cluster: Cluster) -> Iterator[str]:
    """Files in a cluster's folder that no manifest names."""
    named = {one.file for manifest in cluster.chain.manifests for one in manifest.files}
    named |= {layout.manifest(cluster.name, one.number) for one in cluster.chain.manifests}
    for name in cluster.store.walk(layout.folder(cluster.name)):
        if name not in named:
            yield name


def as_document(result: Verified) -> dict[str, object]:
    """The same as JSON."""
    document: dict[str, object] = msgspec.to_builtins(result._asdict())
    return document | {"sound": not result.flaws}
