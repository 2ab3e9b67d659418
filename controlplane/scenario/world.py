"""World of one scenario: a log in memory, workers, consumer groups, a clock, plugins.

Nothing in it depends on the machine or the time of day, so the output of a scenario never changes.
"""

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    DeleteGroup,
    GroupOffsets,
)
from controlplane.core.plugins import Plugins
from controlplane.core.state import Topics
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.memory import MemoryLog
from controlplane.plugins import catalogued
from controlplane.scenario.folds import Folds
from controlplane.scenario.journal import Journal
from controlplane.scenario.running_worker import WorkerEnvironment
from controlplane.scenario.worker_group import WorkerGroup
from controlplane.scenario.worker_releases import ViewColumn, columns

START_MS = 1_700_000_000_000
"""Start of every scenario in ms since 1970."""

STEP_MS = 1_000
"""Time in ms that passes before each step that may write. Within a step, each reading of the clock
advances it by only 1 ms (`World.now_ms`)."""


class ConsumerGroups:
    """Consumer groups of sinks, in memory.

    Other actions outside of the log have no effect: tasks and their producers do not run.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], int]] = {}

    async def perform(self, action: AnyAction) -> None:
        """Set or remove offsets, or delete a group."""
        match action:
            case AlterGroup():
                group = self._groups.setdefault(action.group, {})
                group |= {(topic, partition): offset for topic, partition, offset in action.put}
                for partition in action.remove:
                    group.pop(partition, None)
            case DeleteGroup():
                self._groups.pop(action.group, None)

    async def group_offsets(
        self, group: str, admin: AdminOverrides = msgspec.UNSET
    ) -> GroupOffsets:
        """Offsets of a group; empty for an unknown group."""
        del admin  # a scenario has one cluster
        offsets = self._groups.get(group, {})
        return tuple((*partition, offset) for partition, offset in sorted(offsets.items()))


_CLASSES = {"JdbcSource": "source", "JdbcSink": "sink"}
"""Connector classes of every scenario, besides Kafka's own."""

_HOOK = (
    "by the config key 'hook': accepts accepts, unsupported raises UnsupportedOperationException, "
    "refuses raises ConnectException('No such table')"
)
"""Answers of these classes to `alterOffsets`, in the words of a catalogue.

The first word of each case is a value of the config key `hook`; the other words are the answer.
`accepts accepts` means: with `hook=accepts` the class accepts. Without the key it declines.
"""


@cache
def plugins() -> Plugins:
    """Plugins of all workers of all scenarios."""
    classes = [
        {"class": name, "type": kind, "alter_offsets": _HOOK} for name, kind in _CLASSES.items()
    ]
    return catalogued(msgspec.json.encode(classes))


class ForeignWriter(NamedTuple):
    """Options of records that a foreign producer writes."""

    partition: int | None = None
    """None: the partition that Kafka's partitioner gives; 0 for a record without a key."""
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
        """True if folds disagree about the present step."""
        self._now_ms = START_MS

    @property
    def columns(self) -> list[ViewColumn]:
        """Columns of a view, of running and stopped workers."""
        return columns(self.cluster.workers.values())

    def now_ms(self) -> int:
        """Time in ms since 1970; each call advances it by 1 ms."""
        self._now_ms += 1
        return self._now_ms

    def pass_ms(self, passed_ms: int = STEP_MS) -> None:
        """Advance the clock of the world; `now_ms` follows it."""
        self._now_ms += passed_ms

    async def add_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic unless it exists."""
        if topic not in await self.log.topics():
            await self.log.create_topic(topic, partitions)

    async def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        writer: ForeignWriter,
    ) -> list[Position]:
        """Append records as a foreign writer would, one millisecond apart.

        A transaction ends with a marker in each partition that it wrote to. The marker takes an
        offset, but is no entry.
        """
        self.pass_ms()
        ends = list((await self.log.ends([topic]))[topic])
        entries = [self._appended_entry(topic, key, value, ends, writer) for key, value in records]
        await self.log.put(entries)
        if writer.transaction:
            for partition in sorted({entry.partition for entry in entries}):
                await self.log.add_marker(topic, partition)
        return [entry.position for entry in entries]

    async def entries(self) -> list[Entry]:
        """All records of the log, sorted by `core.order`."""
        batches = [batch async for batch in self.log.read(await self.log.topics())]
        return in_order(entries_of(batches))

    def _appended_entry(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        ends: list[int],
        writer: ForeignWriter,
    ) -> Entry:
        """Return a record as an entry at the end of its partition, and advance `ends`."""
        usual = 0 if key is None else partition_of(key, len(ends))
        partition = usual if writer.partition is None else writer.partition
        offset = ends[partition]
        ends[partition] += 1
        time_ms = self.now_ms() + writer.skew_ms
        aborted = writer.transaction == "aborted"
        return Entry(topic, partition, offset, time_ms, key, value, (), aborted)
