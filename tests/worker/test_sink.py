"""Running sinks: records, commits, rewinds, pauses, and commands about their offsets."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from controlplane.connect import SinkTaskContext
from controlplane.connect.sink import KafkaOffsets, KafkaPartition
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    PauseConnector,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.event_loop import now_ms
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Surroundings
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.worker import ConnectWorker
from tests.worker.numbered_records import CollectingSink, put
from tests.worker.worker_fixture import (
    RecordedNotices,
    committed_offsets,
    config_of,
    produce,
    running,
    task_trace,
    until,
    until_state,
)


@pytest.fixture(autouse=True)
def _empty() -> None:
    put.clear()
    OpenedSink.opened.clear()


def committed(worker: ConnectWorker, group: str) -> dict[tuple[str, int], int]:
    """Committed offsets of a consumer group."""
    return committed_offsets(worker, group)


async def test_records_arrive_and_offsets_are_committed() -> None:
    """A sink gets every record; its group commits behind the last one; the topic is active."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a", "b", "c")
        await plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until(lambda: put.get("s") == ["a", "b", "c"])
        await until(lambda: committed(worker, "connect-s") == {("t", 0): 3})
        await until(lambda: [*plane.state.status.active_topics.get("s", {})] == ["t"])
        progress = await plane.group_progress("s")
        assert [(part.committed, part.lag) for part in progress.partitions] == [(3, 0)]
        await produce(plane.log, "t", "d")
        await until(lambda: put["s"] == ["a", "b", "c", "d"])


async def test_offsets_are_altered_and_reset() -> None:
    """A stopped sink reads again from altered offsets, and everything after a reset."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a", "b", "c")
        await plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await until(lambda: put.get("s") == ["a", "b", "c"])
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        change = OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 2})
        await plane.execute(AlterOffsets("s", (change,)))
        await plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b", "c", "c"])
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        await plane.execute(ResetOffsets("s"))
        await plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b", "c", "c", "a", "b", "c"])


@pytest.mark.parametrize(
    ("key", "value"),
    [("auto.offset.reset", "last"), ("auto.offset.reset", ""), ("max.poll.records", "0")],
)
async def test_an_invalid_setting_of_the_consumer_fails_the_task(key: str, value: str) -> None:
    """The task does not start with another value in place of the invalid one."""
    config = config_of(CollectingSink, topics="t") | {f"consumer.override.{key}": value}
    async with running(CollectingSink) as worker:
        await produce(worker.plane.log, "t", "a")
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert f"consumer.override.* of the connector: {key} is" in task_trace(worker, "s")


async def test_without_a_reset_policy_a_sink_needs_committed_offsets() -> None:
    """With `auto.offset.reset=none`, a missing or invalid offset fails the task, as in Kafka."""
    override = {"consumer.override.auto.offset.reset": "none"}
    config = config_of(CollectingSink, topics="t") | override
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a", "b", partitions=2)
        await plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        undefined = "Undefined offset with no reset policy for partitions: [t-0, t-1]"
        assert undefined in task_trace(worker, "s")
        await alter(worker, 1)
        await until(lambda: put.get("s") == ["b"])
        await alter(worker, 9)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "Fetch position 9 is out of range for partition t-0" in task_trace(worker, "s")


async def alter(worker: ConnectWorker, offset: int) -> None:
    """Stop the sink, set its offsets in the partitions 0 (to `offset`) and 1 (to 0), and resume."""
    await worker.plane.execute(StopConnector("s"))
    await until_state(worker, "s", "STOPPED")
    changes = [
        OffsetChange({"kafka_topic": "t", "kafka_partition": partition}, {"kafka_offset": at})
        for partition, at in enumerate((offset, 0))
    ]
    await worker.plane.execute(AlterOffsets("s", tuple(changes)))
    await worker.plane.execute(ResumeConnector("s"))


async def test_a_plane_without_a_worker_resets_the_offsets() -> None:
    """The worker that runs next reads everything again."""
    log = MemoryLog()
    async with running(CollectingSink, log=log) as worker:
        await log.create_topic("t", 1)
        await log.append([Record("t", 0, now_ms(), None, value) for value in (b"a", b"b")])
        await worker.plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until(lambda: committed(worker, "connect-s") == {("t", 0): 2})
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
    around = Surroundings(plugins=ConnectorClasses([CollectingSink]).plugins())
    async with ControlPlane.open(log, around=around) as plane:
        assert await plane.group_offsets("s") == (("t", 0, 2),)
        await plane.execute(ResetOffsets("s"))
        await plane.execute(ResumeConnector("s"))
    async with running(CollectingSink, log=log):
        await until(lambda: put["s"] == ["a", "b", "a", "b"])


async def test_tasks_share_the_partitions() -> None:
    """Two tasks get each record once, also when the topic appears after them."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        config = config_of(CollectingSink, topics_regex="t.*", tasks_max="2")
        await plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")
        values = [str(number) for number in range(20)]
        await produce(plane.log, "t4", *values, partitions=4)
        await until(lambda: sorted(put["s"], key=int) == values)
        await until(lambda: sum(committed(worker, "connect-s").values()) == 20)


async def test_new_partitions_are_consumed() -> None:
    """A topic gets another partition while a sink consumes it."""
    log = MemoryLog()
    async with running(CollectingSink, log=log) as worker:
        await produce(log, "t", "a")
        await worker.plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until(lambda: put.get("s") == ["a"])
        await log.add_partitions("t", 2)
        await log.append([Record("t", 1, 1_000, None, b"b")])
        await until(lambda: put["s"] == ["a", "b"])


class OpenedSink(CollectingSink):
    """CollectingSink that notes its open partitions."""

    opened: ClassVar[list[KafkaPartition]] = []

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Note the partitions."""
        del task
        self.opened.extend(partitions)


async def test_an_idle_partition_keeps_its_position() -> None:
    """A record that arrives while the sink is stopped is put, also with `latest`.

    The first commit has the positions of all partitions, as in Kafka.
    """
    latest = {"consumer.override.auto.offset.reset": "latest"}
    async with running(OpenedSink) as worker:
        log = worker.plane.log
        await log.create_topic("t", 2)
        config = config_of(OpenedSink, topics="t") | latest
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(OpenedSink.opened) == 2)
        await log.append([Record("t", 0, 1_000, None, b"a")])
        await until(lambda: committed(worker, "connect-s") == {("t", 0): 1, ("t", 1): 0})
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        await log.append([Record("t", 1, 1_000, None, b"b")])
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b"])


async def test_a_retriable_failure_puts_the_same_batch_again() -> None:
    """The task gets the same batch again; no record is lost, and the task stays RUNNING."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a", "b")
        await plane.execute(
            CreateConnector("s", config_of(CollectingSink, topics="t", fail="once"))
        )
        await until(lambda: put.get("s") == ["a", "b"])
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_failing_flush_rewinds() -> None:
    """A failed flush rewinds: records since the last commit are put again."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a", "b")
        await plane.execute(
            CreateConnector("s", config_of(CollectingSink, topics="t", fail="flush"))
        )
        await until(lambda: put.get("s") == ["a", "b", "a", "b"])
        await until(lambda: committed(worker, "connect-s") == {("t", 0): 2})


async def test_a_failing_put_fails_the_task() -> None:
    """The status has Kafka's sentence and the author's; no offset of the batch is committed."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a")
        await plane.execute(
            CreateConnector("s", config_of(CollectingSink, topics="t", fail="always"))
        )
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = plane.state.status.tasks["s"][0].trace or ""
        assert "Exiting WorkerSinkTask due to unrecoverable exception." in trace
        assert "ValueError: no more" in trace
        assert committed(worker, "connect-s") == {}


class UnopenedSink(CollectingSink):
    """Fails at its start, and again when it is stopped."""

    def start(self, task: SinkTaskContext) -> None:
        """Raise ValueError in the start of the task."""
        del task
        raise ValueError("no start")

    def stop(self, task: SinkTaskContext) -> None:
        """Raise AttributeError, since `start` opened nothing."""
        del task
        raise AttributeError("out")


async def test_a_failing_stop_hides_no_failing_start() -> None:
    """The status has the trace of the failed start, not of the failed stop."""
    async with running(UnopenedSink) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(UnopenedSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = worker.plane.state.status.tasks["s"][0].trace or ""
        assert trace.endswith("ValueError: no start")


async def test_a_paused_sink_gets_nothing() -> None:
    """Records that arrive during a pause are put once the sink is resumed."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a")
        await plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until(lambda: put.get("s") == ["a"])
        await plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await produce(plane.log, "t", "b")
        await plane.execute(CreateConnector("other", config_of(CollectingSink, topics="t")))
        await until(lambda: put.get("other") == ["a", "b"])
        assert put["s"] == ["a"]
        await plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b"])


async def test_offsets_of_an_active_group_cannot_be_changed() -> None:
    """Changes of offsets are refused for a sink that is not stopped."""
    async with running(CollectingSink) as worker:
        plane = worker.plane
        await produce(plane.log, "t", "a")
        await plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        with pytest.raises(Refusal, match="STOPPED"):
            await plane.execute(ResetOffsets("s"))


class HastySink(CollectingSink):
    """Sink that returns an offset beyond its records, and one of a foreign partition."""

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> KafkaOffsets:
        """Return the two offsets, once a record was put."""
        del task
        return {("t", 0): 9, ("u", 3): 1} if offsets.get(("t", 0)) else offsets


async def test_an_ignored_offset_is_logged() -> None:
    """Offsets that are never committed would otherwise look like a worker that hangs."""
    notices = RecordedNotices()
    async with running(HastySink, notices=notices) as worker:
        await produce(worker.plane.log, "t", "a")
        config = config_of(HastySink, topics="t")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(notices.of("sink_offset_ignored")) > 1)
        assert notices.of("sink_offset_ignored")[:2] == [
            {"partition": "t-0", "offset": 9, "consumed": 1},
            {"partition": "u-3", "offset": 1, "consumed": None},
        ]
