"""Capture: the records that the log has and the archive lacks, appended step by step.

A long capture commits repeatedly, so a killed process loses only the last part. The archive holds a
prefix of each partition at any time.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from controlplane.core.entry import Batch
from controlplane.core.state import Topics
from controlplane.core.text.safe_text import count
from controlplane.logs.cluster_topics import missing_topics
from controlplane.logs.log import ReadableLog
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.segments.segment_files import SIZES, SegmentSizes
from replay.archive.stores.store import ArchiveStore
from replay.capture.secrets import SecretPolicy
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.snapshots.daily_snapshots import daily
from replay.errors import ArchiveConflict, ArchiveCorrupt
from replay.offsets_topics import own_topics
from replay.progress import NoProgress, ProgressListener

COMMIT_RECORDS = 5_000_000
"""New records after which a commit is made."""


class CaptureTarget(NamedTuple):
    """Archive of a capture, and its options."""

    store: ArchiveStore
    cluster: str
    topics: Topics
    secrets: SecretPolicy
    sizes: SegmentSizes = SIZES
    commit_records: int = COMMIT_RECORDS


class CaptureResult(NamedTuple):
    """Records read and added by a capture, and the cluster after it."""

    read: int
    added: int
    cluster: ArchivedCluster
    left_out: tuple[str, ...]
    """Topics of a dump that do not belong to the cluster; empty for a live log."""

    @property
    def records(self) -> int:
        """Number of archived records of the cluster."""
        return _records(self.cluster)


class LogCapture:
    """Reads a log into an archive.

    With `goes_on` the log is live: it must not end before the archive does. Reading starts at the
    last archived record. A dump is compared with the archive from its beginning.
    """

    def __init__(
        self,
        log: ReadableLog,
        target: CaptureTarget,
        *,
        goes_on: bool,
        progress: ProgressListener | None = None,
    ) -> None:
        self._log = log
        self._target = target
        self._goes_on = goes_on
        self._progress = progress or NoProgress()
        self._appending = self._begin()
        self._fresh = 0
        """Number of new records since the last commit."""
        self._own: set[str] = set()
        """Dedicated offsets topics, by the connector configs that were read so far."""

    async def run(self) -> CaptureResult:
        """Archive everything that the log has now.

        Raises:
            ArchiveConflict: the log contradicts the archive.
            ArchiveBusy: another process has appended meanwhile.
            ArchiveCorrupt: an archived file is damaged.
            LogError: the log cannot be read, or has no config topic.
        """
        topics, existing = self._target.topics, await self._log.topics()
        missing_topics(topics, existing)
        before = self._records
        known_topics = self._known_topics()
        read = await self._read([topics.config])
        connect_topics = {topics.offsets, topics.status, topics.commands, *known_topics, *self._own}
        read += await self._read(sorted((connect_topics & existing.keys()) - {topics.config}))
        # In a live cluster, other topics are users' data: do not report them.
        foreign_topics = existing.keys() - connect_topics - {topics.config}
        left_out = () if self._goes_on else tuple(sorted(foreign_topics))
        return self._finished(read, before, left_out)

    def _finished(self, read: int, before: int, left_out: tuple[str, ...]) -> CaptureResult:
        """Commit the rest, and write the snapshots that are due.

        Raises:
            ArchiveBusy: another process has appended meanwhile.
            ArchiveCorrupt: an archived file is damaged; the rest is committed without snapshots.
        """
        self._appending.commit(daily)
        cluster = open_cluster(self._target.store, self._target.cluster)
        return CaptureResult(read, _records(cluster) - before, cluster, left_out)

    @property
    def _records(self) -> int:
        return _records(self._appending.cluster)

    def _begin(self) -> Appender:
        into = self._target
        return Appender(into.store, into.cluster, into.topics, into.secrets.mode, into.sizes)

    def _known_topics(self) -> set[str]:
        """Archived topics, and topics that archived records name."""
        cluster = self._appending.cluster
        if not cluster.parts:
            return set()
        ends = cluster.ends[cluster.topics.config]
        try:
            own = LocalEngine(cluster).own_topics(ends)
        except ArchiveCorrupt:  # perhaps only a snapshot is damaged
            own = LocalEngine(cluster, LocalOptions(derived=False)).own_topics(ends)
        return {*cluster.ends, *own}

    async def _read(self, topics: Sequence[str]) -> int:
        """Read topics up to their current ends; return the number of records."""
        return sum([await self._read_topic(topic) for topic in topics])

    async def _read_topic(self, topic: str) -> int:
        begins = (await self._log.starts([topic]))[topic]
        # The next look reads a partition that is added between these requests.
        ends = (await self._log.ends([topic]))[topic][: len(begins)]
        self._check_ends(topic, ends)
        start = self._starts(topic, len(ends)) if self._goes_on else [*begins]
        spans = zip(start, begins, ends, strict=True)
        self._progress.begin(topic, sum(max(0, end - max(pair)) for *pair, end in spans))
        for partition, begin in enumerate(begins):  # a manifest covers every partition of a topic
            partial = begin < ends[partition]
            self._appending.reached(topic, partition, begin, begin, partial=partial)
        read = 0
        async for batch in self._log.read([topic], {topic: start}, {topic: ends}):
            if batch.partition >= len(begins):
                continue
            read += len(batch)
            self._take(batch, begins, ends)
            self._progress.advance(len(batch))
            await asyncio.sleep(0)  # reading a dump never waits, so yield to let Ctrl-C through
        for partition, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            self._appending.reached(topic, partition, begin, end)
        return read

    def _take(self, batch: Batch, begins: Sequence[int], ends: Sequence[int]) -> None:
        if batch.topic == self._target.topics.config:
            self._own.update(own_topics(batch, self._target.topics))
        self._fresh += self._appending.add(self._target.secrets.without(batch))
        begin, end = begins[batch.partition], batch.offsets[-1] + 1
        partial = end < ends[batch.partition]
        self._appending.reached(batch.topic, batch.partition, begin, end, partial=partial)
        if self._fresh >= self._target.commit_records:
            self._commit()

    def _commit(self) -> None:
        """Commit everything read so far, and begin the next append."""
        self._appending.commit()
        self._appending, self._fresh = self._begin(), 0

    def _starts(self, topic: str, partitions: int) -> list[int]:
        """Start offsets: the last archived record of each partition, which is compared."""
        parts = self._appending.cluster.parts
        archived = (parts.get((topic, partition)) for partition in range(partitions))
        return [part.segments[-1].end - 1 if part and part.segments else 0 for part in archived]

    def _check_ends(self, topic: str, ends: Sequence[int]) -> None:
        """Raise `ArchiveConflict` for a live topic that ends before the archive."""
        if not self._goes_on:
            return
        if self._appending.end_of(topic, len(ends)) is not None:
            raise ArchiveConflict(
                f"{topic} has {count(len(ends), 'partition')}, but partition {len(ends)} is "
                "archived: it was recreated. Capture it as another cluster (NAME=LOG)"
            )
        for partition, end in enumerate(ends):
            archived = self._appending.end_of(topic, partition)
            if archived is not None and end < archived:
                raise ArchiveConflict(
                    f"{topic} partition {partition} ends at {end}, but is archived up to "
                    f"{archived}: it was recreated. Capture it as another cluster (NAME=LOG)"
                )


def _records(cluster: ArchivedCluster) -> int:
    return sum(
        segment.stored.records for part in cluster.parts.values() for segment in part.segments
    )
