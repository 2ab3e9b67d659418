"""The world of one scenario: a log in memory, workers of some releases, a clock of its own.

Nothing in it depends on the machine or the time of day, so a scenario prints the same for ever.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from controlplane.core.entry import Entry, Position
from controlplane.core.order import entries_of, in_order
from controlplane.core.partitioner import partition_of
from controlplane.core.profiles import RELEASES, Profile
from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.scenario.folds import Folds

START_MS = 1_700_000_000_000
"""When every scenario begins, in ms since 1970."""

_STEP_MS = 1_000
"""Time between two steps that write: more than the records of one step take."""

EXACTLY_ONCE = "+eos"


class Worker(NamedTuple):
    """A worker: its release as written (`3.4`), what that means, exactly-once support or not."""

    name: str
    release: str
    profile: Profile
    exactly_once: bool


class Column(NamedTuple):
    """All workers that read alike: one column of a view."""

    title: str
    profile: Profile
    exactly_once: bool


class Writing(NamedTuple):
    """How records are written, beyond key and value."""

    partition: int | None = None
    """None: the partition that Kafka's partitioner gives."""
    skew_ms: int = 0
    """How far the writer's clock is ahead."""
    transaction: str = ""
    """`committed` or `aborted`: a marker follows. Empty: no transaction."""


class World:
    """What the verbs of one scenario act upon."""

    def __init__(self, folds: Folds) -> None:
        self.folds = folds
        self.log = MemoryLog()
        self.topics = Topics()
        self.workers: dict[str, Worker] = {}
        self.leader = ""
        self.settings: dict[str, bool] = {"commands": True, "steps": False}
        self.disagreed = False
        """Whether a second computation of the present step gave something else."""
        self._now_ms = START_MS
        self._next: dict[tuple[str, int], int] = defaultdict(int)

    @property
    def columns(self) -> list[Column]:
        """The workers by release, oldest first; of one release, those with exactly-once last."""
        groups: dict[tuple[str, bool], list[Worker]] = defaultdict(list)
        for worker in sorted(self.workers.values()):
            groups[worker.release, worker.exactly_once].append(worker)
        columns = []
        for (release, exactly_once), group in sorted(groups.items(), key=_age):
            names = " ".join(worker.name for worker in group)
            mark = EXACTLY_ONCE if exactly_once else ""
            columns.append(Column(f"{release}{mark} ({names})", group[0].profile, exactly_once))
        return columns

    async def add_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic unless it is there."""
        if topic not in await self.log.topics():
            await self.log.create_topic(topic, partitions)

    async def partitioned(self) -> frozenset[str]:
        """The topics with more than one partition."""
        counts = await self.log.topics()
        return frozenset(topic for topic, count in counts.items() if count > 1)

    async def write(
        self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]], how: Writing
    ) -> list[Position]:
        """Append records as a foreign writer would, one millisecond apart.

        After a transaction each partition written to has a marker: an offset without entry.
        """
        ends = (await self.log.ends([topic]))[topic]
        for partition, end in enumerate(ends):
            self._next[topic, partition] = max(self._next[topic, partition], end)
        self._now_ms += _STEP_MS
        entries = [self._place(topic, key, value, len(ends), how) for key, value in records]
        await self.log.put(entries)
        if how.transaction:
            for place in {(topic, entry.partition) for entry in entries}:
                self._next[place] += 1
        return [entry.position for entry in entries]

    async def entries(self) -> list[Entry]:
        """Everything there is, in the one order between partitions."""
        batches = [batch async for batch in self.log.read(await self.log.topics())]
        return in_order(entries_of(batches))

    def _place(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, how: Writing
    ) -> Entry:
        self._now_ms += 1
        usual = 0 if key is None else partition_of(key, count)
        partition = usual if how.partition is None else how.partition
        offset = self._next[topic, partition]
        self._next[topic, partition] += 1
        time_ms = self._now_ms + how.skew_ms
        aborted = how.transaction == "aborted"
        return Entry(topic, partition, offset, time_ms, key, value, (), aborted)


def _age(group: tuple[tuple[str, bool], Sequence[Worker]]) -> tuple[int, str, bool]:
    (release, exactly_once), workers = group
    real = workers[0].profile.release
    return (RELEASES.index(real) if real in RELEASES else len(RELEASES)), release, exactly_once
