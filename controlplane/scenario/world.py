"""The world of one scenario: a log in memory, a cluster of workers, a clock of its own.

Nothing in it depends on the machine or the time of day, so a scenario prints the same for ever.
"""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from controlplane.core.entry import Entry, Position
from controlplane.core.order import entries_of, in_order
from controlplane.core.state import Topics
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.memory import MemoryLog
from controlplane.scenario.consumer_groups import ConsumerGroups
from controlplane.scenario.folds import Folds
from controlplane.scenario.journal import Journal
from controlplane.scenario.running_worker import WorkerEnvironment
from controlplane.scenario.scenario_plugins import plugins
from controlplane.scenario.worker_group import WorkerGroup
from controlplane.scenario.workers import Column, columns

START_MS = 1_700_000_000_000
"""Start of every scenario in ms since 1970."""

STEP_MS = 1_000
"""Time between two steps that write: more than the records of one step take."""


class ForeignWriter(NamedTuple):
    """Options of records that a foreign producer writes."""

    partition: int | None = None
    """None: the partition that Kafka's partitioner gives."""
    skew_ms: int = 0
    """Lead of the writer's clock in ms."""
    transaction: str = ""
    """`committed` or `aborted`: a marker follows. Empty: no transaction."""


class World:
    """State of one scenario, on which its verbs act."""

    def __init__(self, folds: Folds) -> None:
        self.folds = folds
        self.log = MemoryLog()
        self.topics = Topics()
        self.plugins = plugins()
        self.journal = Journal(self.log, [self.topics.commands])
        around = WorkerEnvironment(
            self.log, self.topics, self.plugins, ConsumerGroups(), self.now_ms, count(1)
        )
        self.cluster = WorkerGroup(around, self.journal)
        self.settings: dict[str, bool] = {"commands": True, "steps": False}
        self.disagreed = False
        """True if a second computation of the present step gave another result."""
        self._now_ms = START_MS

    @property
    def columns(self) -> list[Column]:
        """Workers that read alike, whether they run or not: the columns of a view."""
        return columns(self.cluster.workers.values())

    def now_ms(self) -> int:
        """The time, in ms since 1970. It passes by being looked at, too."""
        self._now_ms += 1
        return self._now_ms

    def pass_ms(self, passed_ms: int = STEP_MS) -> None:
        """Time passes."""
        self._now_ms += passed_ms

    async def add_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic unless it is there."""
        if topic not in await self.log.topics():
            await self.log.create_topic(topic, partitions)

    async def write(
        self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]], hand: ForeignWriter
    ) -> list[Position]:
        """Append records as a foreign writer would, one millisecond apart.

        After a transaction each partition written to has a marker: an offset without entry.
        """
        self.pass_ms()
        ends = list((await self.log.ends([topic]))[topic])
        entries = [self._place(topic, key, value, ends, hand) for key, value in records]
        await self.log.put(entries)
        if hand.transaction:
            for partition in sorted({entry.partition for entry in entries}):
                await self.log.add_marker(topic, partition)
        return [entry.position for entry in entries]

    async def entries(self) -> list[Entry]:
        """Everything there is, in the one order between partitions."""
        batches = [batch async for batch in self.log.read(await self.log.topics())]
        return in_order(entries_of(batches))

    def _place(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        ends: list[int],
        hand: ForeignWriter,
    ) -> Entry:
        """A record at the end of its partition, which it moves."""
        usual = 0 if key is None else partition_of(key, len(ends))
        partition = usual if hand.partition is None else hand.partition
        offset = ends[partition]
        ends[partition] += 1
        time_ms = self.now_ms() + hand.skew_ms
        aborted = hand.transaction == "aborted"
        return Entry(topic, partition, offset, time_ms, key, value, (), aborted)
