"""A control plane without a worker reads and changes the consumer groups that its log has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from controlplane.controller import ExternalActionFailed, NoExternalSystems
from controlplane.controller.log_groups import (
    EmbeddedActions,
    LogGroups,
    StoredGroups,
    default_actions,
)
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
    StopConnector,
)
from controlplane.core.entry import Position, TopicPartition
from controlplane.core.plan import AnyAction
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.core.views.group_progress import LogEnd
from controlplane.logs.log import EmbeddedLog, Fenced, Log, LogUnavailable, ReadableLog, Record
from controlplane.logs.log_factory import open_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import ControlPlane, Refusal
from tests.controller.scene import (
    NOW_MS,
    Crash,
    commit_offsets,
    plane_on,
    raw,
)
from tests.rest.served_history import catalogue

SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "topics": "t",
}
CREATE, STOP, RESET = CreateConnector("s", SINK), StopConnector("s"), ResetOffsets("s")
GROUP = "connect-s"


def alter(topic: str, partition: int, offset: int | None) -> AlterOffsets:
    """Command that sets or removes an offset of the sink."""
    where = {"kafka_topic": topic, "kafka_partition": partition}
    change = OffsetChange(where, None if offset is None else {"kafka_offset": offset})
    return AlterOffsets("s", (change,))


class NotedLog(MemoryLog):
    """Log that notes the topics of each appended batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Note the topics of the records, and append them."""
        self.batches.append([record.topic for record in records])
        return await super().append(records, epoch)


async def log_with(*groups: Mapping[TopicPartition, int]) -> NotedLog:
    """Log with a stopped sink, whose group has committed each of these."""
    log = NotedLog()
    async with plane_on(log, plugins=catalogue(), new_id=lambda: str(uuid4())) as plane:
        await plane.execute(CREATE)
        await plane.execute(STOP)
    for offsets in groups:
        await commit_offsets(log, GROUP, offsets)
    return log


async def stored(log: ReadableLog, group: str = GROUP) -> dict[TopicPartition, int]:
    """Committed offsets of a group, as a worker would continue from them."""
    groups = StoredGroups(log)
    await groups.refresh()
    return dict(groups.committed(group))


async def test_offsets_of_a_worker_are_read() -> None:
    """The plane shows the offsets, the ends that the log has, and the lag."""
    log = await log_with({("t", 0): 5, ("gone", 0): 1})
    await log.create_topic("t", 1)
    await log.append([raw("t", "k", "x")] * 9)
    async with plane_on(log, plugins=catalogue()) as plane:
        assert set(await plane.group_offsets("s")) == {("t", 0, 5), ("gone", 0, 1)}
        progress = await plane.group_progress("s")
        assert {part.topic: (part.end, part.lag) for part in progress.partitions} == {
            "t": (LogEnd(9), 4),
            "gone": (LogEnd(None, "the log has no such partition"), None),
        }
        await commit_offsets(log, GROUP, {("t", 0): 6})  # as by a worker of another plane
        assert ("t", 0, 6) in await plane.group_offsets("s")


async def test_offsets_of_a_worker_are_altered() -> None:
    """One offset is set, another is removed, and other groups stay."""
    log = await log_with({("t", 0): 5, ("t", 1): 6})
    await commit_offsets(log, "connect-other", {("t", 0): 7})
    async with plane_on(log, plugins=catalogue()) as plane:
        await plane.execute(alter("t", 0, 2))
        await plane.execute(alter("t", 1, None))
        assert await plane.group_offsets("s") == (("t", 0, 2),)
    assert await stored(log) == {("t", 0): 2}
    assert await stored(log, "connect-other") == {("t", 0): 7}


async def test_offsets_of_a_worker_are_reset_in_one_batch() -> None:
    """A reset removes every offset at once; a crash between two of them is impossible."""
    log = await log_with({("t", 0): 5, ("t", 1): 6})
    log.batches.clear()
    async with plane_on(log, plugins=catalogue()) as plane:
        await plane.execute(RESET)
        assert await plane.group_offsets("s") == ()
    assert await stored(log) == {}
    assert log.batches.count([GROUPS_TOPIC, GROUPS_TOPIC]) == 1


class CrashingActions(EmbeddedActions):
    """Actions of a process that dies before or after each of them."""

    def __init__(self, log: EmbeddedLog, *, performs: bool) -> None:
        super().__init__(log, lambda: None, lambda: NOW_MS)
        self._performs = performs

    async def perform(self, action: AnyAction) -> None:
        """Perform the action or not, and die."""
        if self._performs:
            await super().perform(action)
        raise Crash


@pytest.mark.parametrize("performed", [False, True])
async def test_a_reset_that_was_cut_off_is_completed(performed: bool) -> None:
    """The next plane completes the reset, whether or not the crashed one has removed offsets."""
    log = await log_with({("t", 0): 5})
    dying = CrashingActions(log, performs=performed)
    async with plane_on(log, plugins=catalogue(), outside=dying) as plane:
        with pytest.raises(Crash):
            await plane.execute(RESET, key="k")
    assert await stored(log) == ({} if performed else {("t", 0): 5})
    async with plane_on(log, plugins=catalogue()) as plane:
        assert not plane.state.commands["k"].unfinished
        assert await plane.group_offsets("s") == ()
    assert await stored(log) == {}


async def test_a_log_without_groups_stays_without_them() -> None:
    """Reads are empty, a reset succeeds, other changes are refused; no topic is created."""
    log = await log_with()
    async with plane_on(log, plugins=catalogue()) as plane:
        assert await plane.group_offsets("s") == ()
        assert (await plane.group_progress("s")).lag is None
        await plane.execute(RESET)
        with pytest.raises(Refusal, match="this control plane has no Kafka cluster"):
            await plane.execute(alter("t", 0, 2))
    assert GROUPS_TOPIC not in await log.topics()


async def test_given_actions_replace_the_groups_of_the_log() -> None:
    """A program that gives `NoExternalSystems` has no groups."""
    log = await log_with({("t", 0): 5})
    async with plane_on(log, plugins=catalogue(), outside=NoExternalSystems()) as plane:
        assert await plane.group_offsets("s") == ()
        await plane.execute(RESET)
    assert await stored(log) == {("t", 0): 5}


async def test_a_sink_is_created_with_offsets() -> None:
    """KIP-995: the new sink has these offsets, and none of an earlier sink of its name."""
    log = MemoryLog()
    await commit_offsets(log, GROUP, {("t", 1): 9})
    create = CreateConnector("s", SINK, None, alter("t", 0, 4).offsets)
    async with plane_on(log, plugins=catalogue()) as plane:
        await plane.execute(create)
        assert await plane.group_offsets("s") == (("t", 0, 4),)


async def test_a_log_file_has_the_groups(tmp_path: Path) -> None:
    """On SQLite, the group is reset in the file, and upkeep may compact its topic meanwhile."""
    where = f"sqlite:///{tmp_path}/state.db"
    async with plane_on(where, plugins=catalogue()) as plane:
        await plane.execute(CREATE)
        await plane.execute(STOP)
        await commit_offsets(plane.log, GROUP, {("t", 0): 5})
        assert await plane.group_offsets("s") == (("t", 0, 5),)
        await commit_offsets(plane.log, GROUP, {("t", 0): 6})
        assert isinstance(plane.log, SqliteLog)
        await plane.log.compact(GROUPS_TOPIC)
        assert await plane.group_offsets("s") == (("t", 0, 6),)
        await plane.execute(RESET)
    async with await open_log(where) as opened:
        assert await stored(opened.log) == {}


async def test_a_fenced_writer_changes_no_group() -> None:
    """The commit of a writer with an old epoch is refused."""
    log = MemoryLog()
    epoch = await log.claim()
    groups = LogGroups(log, lambda: epoch, lambda: NOW_MS)
    await groups.open()
    await groups.commit(GROUP, {("t", 0): 5})
    await log.claim()
    with pytest.raises(Fenced):
        await groups.commit(GROUP, {("t", 0): 6})
    assert await stored(log) == {("t", 0): 5}


class AwayLog(MemoryLog):
    """Log whose topic of groups cannot be read while `away`."""

    away = False

    async def topics(self) -> Mapping[str, int]:
        """Return the topics, unless the log is away."""
        if self.away:
            raise LogUnavailable("the disk is gone")
        return await super().topics()


async def test_groups_of_an_unreadable_log_are_unknown() -> None:
    """A group that cannot be read is a failure, and is not shown as empty."""
    log = AwayLog()
    await commit_offsets(log, GROUP, {("t", 0): 5})
    async with plane_on(log, plugins=catalogue()) as plane:
        await plane.execute(CREATE)
        log.away = True
        with pytest.raises(ExternalActionFailed, match="the disk is gone"):
            await plane.group_offsets("s")


class BrokersLog:
    """A log that is not embedded, such as a cluster."""

    def __init__(self, log: Log) -> None:
        for name in ("topics", "starts", "ends", "read", "tail", "close", "create_topic"):
            setattr(self, name, getattr(log, name))
        self.claim, self.append = log.claim, log.append


async def test_only_an_embedded_log_has_groups() -> None:
    """A topic of this name on a cluster is no topic of groups."""
    log = await log_with({("t", 0): 5})
    foreign = BrokersLog(log)
    assert isinstance(foreign, Log)
    actions = default_actions(foreign, lambda: None, lambda: NOW_MS)
    assert await actions.group_offsets(GROUP) == ()
    assert isinstance(default_actions(log, lambda: None, lambda: NOW_MS), LogGroups)


async def test_a_worker_finds_the_change(tmp_path: Path) -> None:
    """`ControlPlane.open` alone, with its defaults, resets what a worker reads next."""
    where = f"sqlite:///{tmp_path}/state.db"
    async with ControlPlane.open(where) as plane:
        await plane.execute(CREATE)
        await plane.execute(STOP)
        await commit_offsets(plane.log, GROUP, {("t", 0): 5})
    async with ControlPlane.open(where) as plane:
        await plane.execute(RESET)
        groups = LogGroups(plane.log, lambda: plane.epoch, lambda: NOW_MS)
        await groups.open()
        assert groups.committed(GROUP) == {}


ODD_COMMITS = [
    ('["g","t",-1]', '{"offset":1}'),
    ('["g","t",0]', '{"offset":-1}'),
    ('["g","t",0]', '{"offset":1,"x":' + "[" * 100_000 + "}"),
]


@pytest.mark.parametrize(("key", "value"), ODD_COMMITS, ids=["partition", "offset", "deep"])
async def test_odd_commits_are_ignored(key: str, value: str) -> None:
    """A log of a stranger may have any bytes in the topic of groups."""
    log = MemoryLog()
    await log.create_topic(GROUPS_TOPIC, 1)
    good = raw(GROUPS_TOPIC, '["g","t",1]', '{"offset":7}')
    await log.append([raw(GROUPS_TOPIC, key, value), good])
    assert await StoredGroups(log).group_offsets("g") == (("t", 1, 7),)
