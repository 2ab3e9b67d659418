"""Snapshot lookup: finds the snapshots from which a fold can start.

A snapshot replaces the records of one topic before a cut, as one release reads them (`kind_of`).
Topics are independent, so each has its own snapshots at its own cuts. Starting from a snapshot must
give the same state as reading everything. Three conditions ensure it:

* The records before the cut precede all others in the one order (`core.order`). A late record with
  the timestamp of a slow clock breaks that. So the cut lies some time before the latest record
  (`snapshot_writer.Watermark`). A load checks for late records; after one, it reads the whole
  topic.
* No record before the cut has been removed. When compaction or retention removes records of a
  topic, the log drops the topic's snapshots with them.
* The snapshot was made by an equal fold: only snapshots with the same release, isolation and
  `FOLD_VERSION` are used.

A damaged snapshot is ignored. `snapshot_writer` creates snapshots; `moment_search` uses them to
find moments in the log.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Batch
from controlplane.core.fold import Fold, TopicSnapshot
from controlplane.core.fold.snapshot_codec import DamagedSnapshot, SnapshotDecoder, kind_of
from controlplane.core.order import Ends
from controlplane.event_loop import sliced_parts
from controlplane.logs.log import LogCorrupt
from controlplane.logs.snapshots import SnapshotStore, StoredSnapshot, snapshot_store_of

DIGEST_BYTES = 16


class SnapshotHeader(msgspec.Struct, frozen=True, array_like=True):
    """Header of a snapshot; each sequence is by partition."""

    ends: Sequence[int]
    """End offsets of the records that it replaces."""
    latest: Sequence[int]
    """Running maximum of their timestamps, in ms since 1970."""
    seen: Sequence[int]
    """End offsets of the topic at creation; records between `ends` and these were too young."""
    rows: int
    """Number of rows in its tables."""
    digest: bytes
    """BLAKE2b digest of all pieces (16 bytes)."""


_HEADER_DECODER = msgspec.msgpack.Decoder(SnapshotHeader)


def digest_of(*pieces: bytes) -> blake2b:
    """Return a digest of pieces; the caller may update it with further pieces."""
    return blake2b(b"".join(pieces), digest_size=DIGEST_BYTES)


def sealed(topic: str, kind: str, header: SnapshotHeader) -> bytes:
    """Encode a header, preceded by a digest of topic, kind and header."""
    encoded = msgspec.msgpack.encode(header)
    return _seal(topic, kind, encoded) + encoded


def _open_header(topic: str, snapshot: StoredSnapshot) -> SnapshotHeader | None:
    """Decode a header; None if it is damaged, or belongs to another snapshot."""
    seal, encoded = snapshot.header[:DIGEST_BYTES], snapshot.header[DIGEST_BYTES:]
    return _HEADER_DECODER.decode(encoded) if seal == _seal(topic, snapshot.kind, encoded) else None


def _seal(topic: str, kind: str, encoded: bytes) -> bytes:
    return digest_of(msgspec.msgpack.encode((topic, kind)), encoded).digest()


class FoundSnapshot(NamedTuple):
    """A decoded snapshot from which a fold can start."""

    part: TopicSnapshot
    header: SnapshotHeader


StartSnapshots = Mapping[str, FoundSnapshot]
"""Snapshots from which a fold starts, by topic."""


async def start_snapshots(log: object, fold: Fold, stop: Ends) -> dict[str, FoundSnapshot]:
    """Return for each topic the nearest snapshot that ends at or before `stop`, if any.

    Only snapshots of the fold's release, isolation and version count. Damaged ones are skipped.
    """
    store, snapshots = snapshot_store_of(log), {}
    if store is not None:
        for topic, ends in stop.items():
            nearest = await _nearest_snapshot(store, fold, topic, ends)
            if nearest is not None:
                snapshots[topic] = nearest
    return snapshots


async def snapshot_headers(
    store: SnapshotStore, topic: str, kind: str | None = None
) -> list[tuple[int, SnapshotHeader]]:
    """Return (sequence number, header) of each snapshot of a topic (and kind), newest first."""
    with suppress(LogCorrupt):
        stored = await store.stored(topic, kind)
        headers = ((snapshot.number, _open_header(topic, snapshot)) for snapshot in stored)
        return [(number, header) for number, header in headers if header is not None]
    return []


async def _nearest_snapshot(
    store: SnapshotStore, fold: Fold, topic: str, stop: Sequence[int]
) -> FoundSnapshot | None:
    kind = kind_of(fold, topic)
    within = [
        (number, header)
        for number, header in await snapshot_headers(store, topic, kind)
        if all(end <= stop_offset for end, stop_offset in zip(header.ends, stop, strict=False))
    ]
    for number, header in sorted(within, key=lambda numbered: sum(numbered[1].ends), reverse=True):
        digest, decoder = digest_of(), SnapshotDecoder(fold.topics, topic)
        with suppress(DamagedSnapshot, LogCorrupt):
            async for piece in sliced_parts((piece,) async for piece in store.pieces(number)):
                digest.update(piece)
                decoder.add(piece)
            if digest.digest() == header.digest:
                return FoundSnapshot(decoder.part(), header)
    return None


def starts_of(snapshots: StartSnapshots) -> Ends:
    """Return the offsets after the snapshots, by topic."""
    return {topic: snapshot.header.ends for topic, snapshot in snapshots.items()}


def precedes_snapshot_end(batch: Batch, snapshots: StartSnapshots) -> bool:
    """Return True if the batch begins before the last record of its topic's snapshot.

    Records are compared by running maximum of timestamps, then partition (`core.order`). Call this
    function with the first batch of each partition only. The running maximum never decreases, so no
    later batch of the partition begins earlier.
    """
    snapshot = snapshots.get(batch.topic)
    if snapshot is None:
        return False
    latest = dict(enumerate(snapshot.header.latest))
    time_ms = max(batch.timestamps[0], latest.get(batch.partition, batch.timestamps[0]))
    return (time_ms, batch.partition) < max((ms, at) for at, ms in latest.items())
