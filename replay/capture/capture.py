"""One capture: what a log has and the archive lacks, read once, appended by and by.

A long capture makes count on the way what it has, so that whoever is killed loses the last part
only; of each partition a prefix is archived at any time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.core.entry import Batch
from controlplane.core.state import Topics
from controlplane.logs.log import ReadableLog
from controlplane.logs.missing import missing_topics
from replay.archive.appending import Appending
from replay.archive.cluster import Cluster, open_cluster
from replay.archive.segments import SIZES, Sizes
from replay.archive.store import Store
from replay.capture.secrets import Secrets
from replay.engine.local import Local
from replay.engine.snapshots import daily
from replay.errors import ArchiveConflict
from replay.offsets_topics import own_topics
from replay.progress import Progress, Unseen

Ends = Mapping[str, Sequence[int]]


COMMIT_RECORDS = 5_000_000
"""New records after which what was read so far is made to count."""


class Target(NamedTuple):
    """Which archive a log goes into, and how."""

    store: Store
    cluster: str
    topics: Topics
    secrets: Secrets
    sizes: Sizes = SIZES
    commit_records: int = COMMIT_RECORDS


class Captured(NamedTuple):
    """What came of a capture."""

    read: int
    added: int
    cluster: Cluster
    left_out: tuple[str, ...]
    """Topics of the log that are none of the cluster's."""

    @property
    def records(self) -> int:
        """How many records are archived of the cluster."""
        return _records(self.cluster)


class Capture:
    """Reads a log into an archive.

    `goes_on` says that the log is a living one: it is read from where the archive ends, and must
    not end before that. A dump is compared with what is archived, from its beginning.
    """

    def __init__(
        self, log: ReadableLog, target: Target, *, goes_on: bool, progress: Progress | None = None
    ) -> None:
        self._log = log
        self._target = target
        self._goes_on = goes_on
        self._progress = progress or Unseen()
        self._appending = self._begin()
        self._fresh = 0
        self._own: set[str] = set()

    async def run(self) -> Captured:
        """Archive what the log has by now.

        Raises:
            ArchiveConflict: the log contradicts the archive.
            ArchiveBusy: somebody else has appended meanwhile.
            LogError: the log cannot be read, or has no config topic.
        """
        topics, there = self._target.topics, await self._log.topics()
        missing_topics(topics, there)
        before = self._records
        known = self._known_topics()
        read = await self._read([topics.config])
        wanted = {topics.offsets, topics.status, topics.commands, *known, *self._own}
        read += await self._read(sorted((wanted & there.keys()) - {topics.config}))
        # A broker has topics with ordinary data; of a dump each topic is worth a word.
        others = there.keys() - wanted - {topics.config}
        left_out = () if self._goes_on else tuple(sorted(others))
        return self._finished(read, before, left_out)

    def _finished(self, read: int, before: int, left_out: tuple[str, ...]) -> Captured:
        """Make count what is left to, and the snapshots that are due."""
        self._appending.commit(daily)
        cluster = open_cluster(self._target.store, self._target.cluster)
        return Captured(read, _records(cluster) - before, cluster, left_out)

    @property
    def _records(self) -> int:
        return _records(self._appending.cluster)

    def _begin(self) -> Appending:
        into = self._target
        return Appending(into.store, into.cluster, into.topics, into.secrets.mode, into.sizes)

    def _known_topics(self) -> set[str]:
        """The topics that are archived, or are named by what is."""
        cluster = self._appending.cluster
        if not cluster.parts:
            return set()
        return {*cluster.ends, *Local(cluster).own_topics(cluster.ends[cluster.topics.config])}

    async def _read(self, topics: Sequence[str]) -> int:
        """Read topics up to where they end now; answers how many records that were."""
        return sum([await self._read_topic(topic) for topic in topics])

    async def _read_topic(self, topic: str) -> int:
        begins = (await self._log.starts([topic]))[topic]
        ends = (await self._log.ends([topic]))[topic]
        self._check_ends(topic, ends)
        start = self._starts(topic, len(ends)) if self._goes_on else [*begins]
        spans = zip(start, begins, ends, strict=True)
        self._progress.begin(topic, sum(max(0, end - max(pair)) for *pair, end in spans))
        for partition, begin in enumerate(begins):  # a manifest leaves out none of a topic
            self._appending.reached(topic, partition, begin, begin)
        read = 0
        async for batch in self._log.read([topic], {topic: start}, {topic: ends}):
            read += len(batch)
            self._take(batch, begins)
            self._progress.advance(len(batch))
            await asyncio.sleep(0)  # a dump makes nobody wait, and so nobody would hear Ctrl-C
        for partition, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            self._appending.reached(topic, partition, begin, end)
        return read

    def _take(self, batch: Batch, begins: Sequence[int]) -> None:
        if batch.topic == self._target.topics.config:
            self._own.update(own_topics(batch, self._target.topics))
        self._fresh += self._appending.add(self._target.secrets.without(batch))
        self._appending.reached(
            batch.topic, batch.partition, begins[batch.partition], batch.offsets[-1] + 1
        )
        if self._fresh >= self._target.commit_records:
            self._commit()

    def _commit(self) -> None:
        """Make count what was read so far."""
        self._appending.commit()
        self._appending, self._fresh = self._begin(), 0

    def _starts(self, topic: str, partitions: int) -> list[int]:
        """Where to go on: with the last record that is archived, which is compared."""
        parts = self._appending.cluster.parts
        found = (parts.get((topic, partition)) for partition in range(partitions))
        return [part.segments[-1].end - 1 if part and part.segments else 0 for part in found]

    def _check_ends(self, topic: str, ends: Sequence[int]) -> None:
        """Raise `ArchiveConflict` for a living topic that ends before the archive does."""
        for partition, end in enumerate(ends):
            archived = self._appending.end_of(topic, partition)
            if self._goes_on and archived is not None and end < archived:
                raise ArchiveConflict(
                    f"{topic} partition {partition} ends at {end}, and is archived up to "
                    f"{archived}: it was made anew, so archive it as another cluster (NAME=LOG)"
                )


def _records(cluster: Cluster) -> int:
    return sum(one.stored.records for part in cluster.parts.values() for one in part.segments)
