"""Snapshot writer: stores snapshots of a log that is open for writing."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.core.entry import Batch
from controlplane.core.fold import Fold
from controlplane.core.fold.snapshot_codec import freeze, kind_of
from controlplane.core.order import running_max
from controlplane.core.state import ClusterState
from controlplane.logs.log import ReadableLog
from controlplane.logs.snapshots import SnapshotStore, snapshot_store_of
from controlplane.projection.loader import load_topics
from controlplane.projection.snapshot_lookup import (
    SnapshotHeader,
    digest_of,
    sealed,
    snapshot_headers,
)

SLICE_BYTES = 4 * 2**20
"""Bytes per transaction: it takes some 10 ms, and appends wait for it."""

NEVER_MS = -(2**63)
"""Earlier than every timestamp: nothing has been read."""


class SnapshotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of snapshots: when one is due, and how many are kept."""

    tail_records: int = 10_000
    """Number of new records in a topic after which its next snapshot is due. 10,000 records of the
    config topic, the costliest ones, fold in a third of a second. A lower number writes the state
    more often."""

    lateness_ms: Annotated[int, Meta(ge=0)] = 10_000
    """Time between the end of a snapshot and the latest record of its topic. It covers clock
    differences between writers, and appends that overtake each other. A record that is even later
    costs only time: the whole topic is read until its next snapshot."""

    kept: int = 4
    """Snapshots kept per topic: older ones speed up queries about past moments. Each is as large as
    the topic's state."""


async def keep_snapshots(
    log: ReadableLog, state: ClusterState, settings: SnapshotSettings | None = None
) -> list[str]:
    """Store a snapshot of every topic with enough new records; return these topics.

    `state`: gives the release and the ends to read up to. An idle call costs one or two short reads
    per topic. A cancelled call leaves at most an incomplete snapshot, which readers ignore. A log
    without snapshot storage is not changed.

    Raises:
        LogError: the log cannot be read or written.
    """
    store, settings = snapshot_store_of(log), settings or SnapshotSettings()
    written_topics = []
    if store is not None:
        for topic, topic_ends in state.ends_by_topic.items():
            writer = _SnapshotWriter(log, store, state, topic, settings)
            if await writer.is_due(topic_ends) and await writer.make(topic_ends):
                written_topics.append(topic)
    return written_topics


class Watermark:
    """Prefix of one topic's records in the one order; no further record is expected in it.

    A record may come late: its writer's clock is behind, or another append overtook it. In the
    order it then precedes records that have been read already. So a prefix counts as settled only
    if it lies some time before the latest record. The timestamp of that record counts, not a clock.
    In stream processing this is a watermark with an allowed lateness.

    It begins at a cut (`ends`, `latest`); `add` all later records. `ends` and `latest` then
    describe the settled records: end offsets and running maxima of timestamps, by partition.
    """

    def __init__(self, lateness_ms: int, ends: Sequence[int], latest: Sequence[int]) -> None:
        self.ends = list(ends)
        """Offset after the last settled record, by partition."""
        self.latest = list(latest)
        """Running maximum of the timestamps up to there, in ms, by partition."""
        self._lateness_ms = lateness_ms
        self._top_ms = max(latest, default=NEVER_MS)
        # (running maximum, offset) of the records that are not settled, by partition.
        self._pending: list[deque[tuple[int, int]]] = [deque() for _ in ends]

    def add(self, batch: Batch) -> None:
        """Add records of one partition, in offset order."""
        pending = self._pending[batch.partition]
        before_ms = pending[-1][0] if pending else self.latest[batch.partition]
        times = running_max(batch.timestamps, before_ms)
        pending.extend(zip(times, batch.offsets, strict=True))
        self._top_ms = max(self._top_ms, times[-1])
        # A new latest record can settle records of every partition.
        for partition in range(len(self.ends)):
            self._settle(partition)

    def _settle(self, partition: int) -> None:
        pending, settled_ms = self._pending[partition], self._top_ms - self._lateness_ms
        while pending and pending[0][0] <= settled_ms:
            self.latest[partition], offset = pending.popleft()
            self.ends[partition] = offset + 1


class _SnapshotWriter:
    """Writes snapshots of one topic, for the release of `state`."""

    def __init__(
        self,
        log: ReadableLog,
        store: SnapshotStore,
        state: ClusterState,
        topic: str,
        settings: SnapshotSettings,
    ) -> None:
        self._log = log
        self._store = store
        self._topic = topic
        self._settings = settings
        self._fold = Fold(state.profile, topics=state.topics, exactly_once=state.exactly_once)
        self._kind = kind_of(self._fold, topic)

    async def is_due(self, upto: Sequence[int]) -> bool:
        """Return True if enough records have arrived since the newest snapshot.

        The minimum is `tail_records`, or the number of rows of the newest snapshot if that is
        greater. So after a snapshot with a million rows, the next one is due a million records
        later. This limits the cost of writing to about one row per received record.
        """
        newest = await self._newest()
        first_counted = (
            newest.seen if newest else (await self._log.starts([self._topic]))[self._topic]
        )
        rows = newest.rows if newest else 0
        return sum(upto) - sum(first_counted) >= max(self._settings.tail_records, rows)

    async def make(self, upto: Sequence[int]) -> bool:
        """Store a snapshot of the settled records.

        Returns False if compaction or retention has removed records of the topic meanwhile: the log
        has then dropped the snapshot.
        """
        number = await self._store.begin(self._topic, self._kind)
        settled = await self._watermark(upto)
        await load_topics(self._log, self._fold, [self._topic], {self._topic: settled.ends})
        part = self._fold.topic_snapshot(self._topic)
        digest = digest_of()
        slices = _slices(freeze(part))
        while pieces := await asyncio.to_thread(next, slices, None):
            digest.update(b"".join(pieces))
            if not await self._store.add(number, pieces):
                return False
        header = SnapshotHeader(settled.ends, settled.latest, upto, part.rows, digest.digest())
        sealed_header = sealed(self._topic, self._kind, header)
        return await self._store.finish(number, sealed_header, self._settings.kept)

    async def _newest(self) -> SnapshotHeader | None:
        headers = await snapshot_headers(self._store, self._topic, self._kind)
        return headers[0][1] if headers else None

    async def _watermark(self, topic_ends: Sequence[int]) -> Watermark:
        """Return the watermark before which no late record is expected."""
        newest = await self._newest()
        ends, latest = (newest.ends, newest.latest) if newest else ([], [])
        added = len(topic_ends) - len(ends)
        mark = Watermark(
            self._settings.lateness_ms, [*ends, *[0] * added], [*latest, *[NEVER_MS] * added]
        )
        start, stop = {self._topic: mark.ends.copy()}, {self._topic: topic_ends}
        async for batch in self._log.read([self._topic], start, stop):
            await asyncio.to_thread(mark.add, batch)
        return mark


def _slices(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Group pieces into slices of about `SLICE_BYTES`, each for one transaction."""
    group: list[bytes] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += len(piece)
        if size >= SLICE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
