"""Snapshot lookup: finds the snapshots from which a fold can start.

A snapshot replaces the records of one topic before a cut, as one release reads them (`kind_of`).
Topics are independent, so each has its own snapshots at its own cuts. Starting from a snapshot must
give the same state as reading everything. Three conditions ensure it:

* The records before the cut precede all others in the one order (`core.order`). A late record,
  stamped by a slow clock, breaks that. So a cut is made some time before the latest record
  (`core.topics.watermark`), and a load checks for later records: if there is one, the topic
  is read whole.
* No record before the cut was removed since. The log drops a topic's snapshots together with the
  first record that compaction or retention removes of it: every snapshot describes records that
  are there.
* The fold is the same: another release, isolation or version of the fold is another kind.

A damaged snapshot is ignored. `snapshot_writer` makes snapshots; `moment_search` uses them to find
moments in the log.
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
    """End offsets of the topic at creation: beyond `ends` by the records that were too young."""
    rows: int
    """Number of rows in its tables."""
    digest: bytes
    """Digest of all pieces."""


_ABOUT = msgspec.msgpack.Decoder(SnapshotHeader)


def digest_of(*pieces: bytes) -> blake2b:
    """Return the digest of pieces; further pieces may be added to it."""
    return blake2b(b"".join(pieces), digest_size=DIGEST_BYTES)


def sealed(topic: str, kind: str, about: SnapshotHeader) -> bytes:
    """Encode a header, preceded by a digest of it, its topic and its kind."""
    encoded = msgspec.msgpack.encode(about)
    return _seal(topic, kind, encoded) + encoded


def _unsealed(topic: str, snapshot: StoredSnapshot) -> SnapshotHeader | None:
    """Decode a header; None if it is damaged, or belongs to another snapshot."""
    seal, encoded = snapshot.about[:DIGEST_BYTES], snapshot.about[DIGEST_BYTES:]
    return _ABOUT.decode(encoded) if seal == _seal(topic, snapshot.kind, encoded) else None


def _seal(topic: str, kind: str, encoded: bytes) -> bytes:
    return digest_of(msgspec.msgpack.encode((topic, kind)), encoded).digest()


class FoundSnapshot(NamedTuple):
    """A snapshot to start a fold from."""

    part: TopicSnapshot
    about: SnapshotHeader


StartSnapshots = Mapping[str, FoundSnapshot]
"""Snapshots by topic."""


async def start_snapshots(log: object, fold: Fold, stop: Ends) -> dict[str, FoundSnapshot]:
    """Return for each topic the nearest snapshot that ends at or before `stop`, if any.

    The fold provides only its release, isolation and version.
    """
    shelf, snapshots = snapshot_store_of(log), {}
    if shelf is not None:
        for topic, ends in stop.items():
            nearest = await _nearest(shelf, fold, topic, ends)
            if nearest is not None:
                snapshots[topic] = nearest
    return snapshots


async def snapshot_headers(
    shelf: SnapshotStore, topic: str, kind: str | None = None
) -> list[tuple[int, SnapshotHeader]]:
    """Return the number and header of each snapshot of a topic (and kind), the newest first."""
    with suppress(LogCorrupt):
        kept = await shelf.stored(topic, kind)
        headers = ((snapshot.number, _unsealed(topic, snapshot)) for snapshot in kept)
        return [(number, header) for number, header in headers if header is not None]
    return []


async def _nearest(
    shelf: SnapshotStore, fold: Fold, topic: str, stop: Sequence[int]
) -> FoundSnapshot | None:
    kind = kind_of(fold, topic)
    within = [
        (number, about)
        for number, about in await snapshot_headers(shelf, topic, kind)
        if all(end <= upto for end, upto in zip(about.ends, stop, strict=False))
    ]
    for number, about in sorted(within, key=lambda numbered: sum(numbered[1].ends), reverse=True):
        digest, decoder = digest_of(), SnapshotDecoder(fold.topics, topic)
        with suppress(DamagedSnapshot, LogCorrupt):
            async for piece in sliced_parts((piece,) async for piece in shelf.pieces(number)):
                digest.update(piece)
                decoder.add(piece)
            if digest.digest() == about.digest:
                return FoundSnapshot(decoder.part(), about)
    return None


def starts_of(begun: StartSnapshots) -> Ends:
    """Return the offsets after the snapshots, by topic."""
    return {topic: snapshot.about.ends for topic, snapshot in begun.items()}


def precedes_snapshot_end(batch: Batch, begun: StartSnapshots) -> bool:
    """Return True if the batch begins before the last record of its topic's snapshot.

    Call it with the first batch of each partition: if none of them does, no later one does.
    Records are compared by running maximum of timestamps, then partition (`core.order`).
    """
    snapshot = begun.get(batch.topic)
    if snapshot is None:
        return False
    latest = dict(enumerate(snapshot.about.latest))
    time_ms = max(batch.timestamps[0], latest.get(batch.partition, batch.timestamps[0]))
    return (time_ms, batch.partition) < max((ms, at) for at, ms in latest.items())
