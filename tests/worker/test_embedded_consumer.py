"""Assignment of partitions to the consumers of sinks on a log of our own."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest

from controlplane.controller.log_groups import LogGroups
from controlplane.core.entry import Batch, TopicPartition
from controlplane.core.java.pattern_nodes import MatchLimitExceeded
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.core.order import Ends
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics import embedded_consumer
from controlplane.worker.data_topics.clients import ProducerFailure, TopicSubscription
from controlplane.worker.data_topics.embedded_consumer import (
    LogConsumer,
    LogConsumerSettings,
    Membership,
)
from controlplane.worker.data_topics.group_assignments import GroupAssignments, GroupMember
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import produce

PLACES = [("t", 0), ("t", 1)]


class SlowStarts(MemoryLog):
    """Log whose `starts` waits for `answering`, or fails while the log is `away`."""

    def __init__(self) -> None:
        super().__init__()
        self.requested = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()
        self.away = False

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Return the starts of topics, after a while."""
        self.requested.set()
        if self.away:
            raise LogUnavailable("away")
        await self.answering.wait()
        return await super().starts(topics)


class NotedPartitions:
    """Notes the partitions of its consumer."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Add partitions."""
        self.partitions |= {*partitions}

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove partitions."""
        self.partitions -= {*partitions}

    lost = revoked


class PositionReader(NotedPartitions):
    """Reads all positions of its consumer when partitions are revoked, as a commit does."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: LogConsumer | None = None
        self.positions: dict[TopicPartition, int] = {}

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Keep the positions, and remove partitions."""
        assert self.consumer is not None
        self.positions = {
            partition: self.consumer.position(partition) for partition in self.consumer.assignment
        }
        await super().revoked(partitions)


class Group:
    """Consumers of one group, which look for changes at each poll."""

    def __init__(self, log: MemoryLog, topics: Sequence[str] = ("t",)) -> None:
        self._log = log
        self._topics = topics
        self._groups = LogGroups(log, lambda: None, lambda: 0)
        self._assignments = GroupAssignments(log.topics)

    async def opened(self) -> "Group":
        """Read the committed offsets, as a worker does at its start."""
        await self._groups.open()
        return self

    def joined(
        self,
        sink: NotedPartitions,
        reset: str = "earliest",
        subscription: TopicSubscription | None = None,
    ) -> LogConsumer:
        """Return a new consumer with this `auto.offset.reset`; default: of the group's topics."""
        membership = Membership(self._groups, self._assignments, GroupMember("g"))
        subscription = subscription or TopicSubscription([*self._topics])
        settings = LogConsumerSettings(auto_offset_reset=reset)
        consumer = LogConsumer(self._log, membership, subscription, sink, settings)
        consumer.join()
        return consumer


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> SlowStarts:
    """A log with a topic of two partitions."""
    monkeypatch.setattr(embedded_consumer, "TOPICS_POLL_S", 0.0)
    made = SlowStarts()
    await made.create_topic("t", 2)
    return made


async def test_an_outage_at_the_first_positions_fails_no_sink(log: SlowStarts) -> None:
    """A sink outlives an outage at its first positions: it gets its partitions later."""
    sink = NotedPartitions()
    consumer = Group(log).joined(sink)
    log.away = True
    assert await consumer.poll(0) == []
    assert consumer.assignment == frozenset()
    log.away = False
    await consumer.poll(0)
    assert sorted(sink.partitions) == PLACES
    await consumer.close()


class FailingTail(MemoryLog):
    """Log whose tail fails after the first batch."""

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield a batch, then fail."""
        async for batch in super().tail(topics, start):
            yield batch
            break
        raise OSError("disk")


async def test_a_failure_of_the_reader_fails_the_poll() -> None:
    """An error that is no `LogError` is raised after the records that were read before it."""
    log = FailingTail()
    await produce(log, "t", "one")
    consumer = (await Group(log).opened()).joined(NotedPartitions())
    assert [entry.value for entry in await consumer.poll(PATIENCE_S)] == [b"one"]
    with pytest.raises(OSError, match="disk"):
        await consumer.poll(PATIENCE_S)
    await consumer.close()


class NotedStarts(MemoryLog):
    """Log that keeps the offsets at which its tails begin."""

    def __init__(self) -> None:
        super().__init__()
        self.tail_starts: list[Ends] = []

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield batches from these offsets on."""
        self.tail_starts.append(start)
        return super().tail(topics, start)


async def test_the_backlog_of_a_paused_partition_is_not_read() -> None:
    """A consumer reads on at the end of a paused partition, and from its position once resumed."""
    log = NotedStarts()
    await log.create_topic("t", 2)
    await log.append([Record("t", number, 1, None, b"v") for number in (0, 0, 0, 1)])
    consumer = (await Group(log).opened()).joined(NotedPartitions())
    await consumer.poll(0)
    await consumer.pause([("t", 0)])
    assert [entry.partition for entry in await consumer.poll(PATIENCE_S)] == [1]
    assert log.tail_starts[-1] == {"t": [3, 0]}
    await consumer.resume([("t", 0)])
    assert [entry.partition for entry in await consumer.poll(PATIENCE_S)] == [0, 0, 0]
    await consumer.close()


async def test_a_consumer_that_joins_during_an_assignment_shares_no_partition(
    log: SlowStarts,
) -> None:
    """A second consumer joins while the first gets its partitions: no partition has two owners."""
    group, sinks = Group(log), (NotedPartitions(), NotedPartitions())
    first = group.joined(sinks[0])
    log.answering.clear()
    log.requested.clear()
    polling: asyncio.Task[Any] = asyncio.create_task(first.poll(0))
    await log.requested.wait()
    second = group.joined(sinks[1])
    log.answering.set()
    await second.poll(0)
    await polling
    assert sorted(sinks[0].partitions) == PLACES
    assert sinks[1].partitions == set()
    await first.poll(0)
    await second.poll(0)
    assert sorted([*sinks[0].partitions, *sinks[1].partitions]) == PLACES
    assert len(sinks[1].partitions) == 1
    await first.close()
    await second.close()


@pytest.mark.parametrize(
    ("subscriptions", "expected"),
    [
        ((["t"], ["u"]), ([("t", 0), ("t", 1)], [("u", 0)])),
        ((["t", "u"], ["t"]), ([("t", 0), ("u", 0)], [("t", 1)])),
        ((["t"], ["t", "u"], ["u"]), ([("t", 0)], [("t", 1)], [("u", 0)])),
    ],
)
async def test_each_topic_is_shared_by_the_consumers_that_select_it(
    log: SlowStarts,
    subscriptions: Sequence[Sequence[str]],
    expected: Sequence[Sequence[TopicPartition]],
) -> None:
    """Consumers of one group read different topics: every partition has an owner."""
    await log.create_topic("u", 1)
    group, sinks = Group(log), [NotedPartitions() for _ in subscriptions]
    consumers = [
        group.joined(sink, subscription=TopicSubscription(topics))
        for sink, topics in zip(sinks, subscriptions, strict=True)
    ]
    for consumer in consumers:
        await consumer.poll(0)
    assert [sorted(sink.partitions) for sink in sinks] == [*expected]
    await log.create_topic("other", 1)
    for consumer in consumers:
        await consumer.poll(0)
    assert [sorted(sink.partitions) for sink in sinks] == [*expected]
    for consumer in consumers:
        await consumer.close()


async def test_a_pattern_that_takes_too_long_fails_only_its_own_consumer(log: SlowStarts) -> None:
    """Another consumer of the group gets its partitions; the failed one's own poll raises."""
    await log.create_topic("a" * 249, 1)
    pattern = JavaPattern.of("(.*(b++|a){240}){100}")
    group, sink = Group(log), NotedPartitions()
    failing = group.joined(NotedPartitions(), subscription=TopicSubscription((), pattern))
    other = group.joined(sink)
    await other.poll(0)
    assert sorted(sink.partitions) == PLACES
    with pytest.raises(MatchLimitExceeded):
        await failing.poll(0)
    await failing.close()
    await other.close()


async def test_every_assigned_partition_has_a_position_during_a_revocation(log: SlowStarts) -> None:
    """While partitions are revoked, each partition in the assignment has a position."""
    group, sink = Group(log, ("t", "u")), PositionReader()
    first = sink.consumer = group.joined(sink)
    await first.poll(0)
    second = group.joined(NotedPartitions())
    await log.create_topic("u", 2)
    await first.poll(0)
    assert sorted(sink.positions) == PLACES
    assert sorted(sink.partitions) == [("t", 0), ("u", 0)]
    await first.close()
    await second.close()


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", [b"a", b"b", b"c"]), ("latest", [b"c"])]
)
async def test_a_position_beyond_the_end_is_reset(
    log: SlowStarts, reset: str, expected: list[bytes]
) -> None:
    """The setting `auto.offset.reset` decides where the consumer continues, as in Kafka."""
    await produce(log, "t", "a", "b", partitions=2)
    consumer = Group(log).joined(NotedPartitions(), reset)
    await consumer.poll(0)
    await consumer.seek({("t", 0): 100})
    assert consumer.position(("t", 0)) == 100
    entries: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        while consumer.position(("t", 0)) != 1:
            entries += await consumer.poll(0.01)
        await produce(log, "t", "c", partitions=2)
        while sorted(entry.value for entry in entries) != expected:
            entries += await consumer.poll(0.01)
    await consumer.close()


class LostAnswers(MemoryLog):
    """Log that appends, and whose answer is lost."""

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Append, and fail."""
        await super().append(records, epoch)
        raise LogUnavailable("the answer is lost")


class LateAppends(MemoryLog):
    """Log whose appends never return; they are decided once `ends` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self._undecided: list[Sequence[Record]] = []

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Keep the records, and never return."""
        del epoch
        self._undecided.append(records)
        self.begun.set()
        await asyncio.Event().wait()

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Append what was kept; then return the ends."""
        undecided, self._undecided = self._undecided, []
        for records in undecided:
            await super().append(records)
        return await super().ends(topics)


async def test_a_commit_of_unknown_outcome_is_read_from_the_log() -> None:
    """After a lost answer, the next consumer begins at the offset that the log has."""
    log = LostAnswers()
    await log.create_topic("t", 1)
    await MemoryLog.append(log, [Record("t", 0, 1, None, b"v")] * 9)
    group = await Group(log).opened()
    consumer = group.joined(NotedPartitions())
    with pytest.raises(ProducerFailure, match="the answer is lost"):
        await consumer.commit({("t", 0): 5})
    await consumer.close()
    consumer = group.joined(NotedPartitions())
    await consumer.poll(0)
    assert consumer.position(("t", 0)) == 5
    await consumer.close()


async def test_a_cancelled_commit_is_read_from_the_log() -> None:
    """A commit whose caller is cancelled may still be written: then the offset is shown."""
    log = LateAppends()
    await log.create_topic("t", 1)
    groups = LogGroups(log, lambda: None, lambda: 0)
    await groups.open()
    commit = asyncio.create_task(groups.commit("g", {("t", 0): 5}))
    await log.begun.wait()
    commit.cancel()
    await asyncio.wait([commit])
    assert await groups.group_offsets("g") == (("t", 0, 5),)
