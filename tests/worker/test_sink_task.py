"""Life of a running sink task: Kafka's `WorkerSinkTaskTest`.

docs/kafka-unit-tests.md says which test is which.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import pytest

from controlplane.connect import RetriableError, Sink, SinkRecord
from controlplane.connect.sink import KafkaOffsets, KafkaPartition, SinkTaskContext
from controlplane.connect.transforms import Transformation
from controlplane.core.commands import (
    CreateConnector,
    PauseConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.records import Target
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.log import LogUnavailable, Record
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.faulty_log import FaultyLog
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    committed_offsets,
    config_of,
    produce,
    running,
    task_trace,
    until,
    until_state,
)

RARELY = msgspec.structs.replace(QUICK, offset_flush_interval_ms=3_600_000)
"""Runtime without commits at intervals: only on request, or at the end of a task."""


class SinkScript:
    """Script of the sinks, and the calls that they received."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        """Connector, method and argument of each call. A `put` without records is left out."""
        self.records: list[SinkRecord] = []
        """Records of the puts that have returned."""
        self.acts: dict[str, Callable[[SinkTaskContext, Any], Any]] = {}
        """Acts of the methods, by name or by `connector.method`; an act may raise."""
        self.released = threading.Event()

    def reset(self) -> None:
        """Clear the script and the calls."""
        self.released.set()
        self.released = threading.Event()
        self.calls.clear()
        self.records.clear()
        self.acts.clear()

    def of(self, connector: str, method: str) -> list[Any]:
        """Return the arguments of the calls of a method."""
        call = connector, method
        return [argument for name, called, argument in self.calls if (name, called) == call]

    def act(self, task: SinkTaskContext, method: str, argument: Any) -> Any:
        """Note a call, and do what the test says."""
        if argument or method != "put":
            self.calls.append((task.connector, method, argument))
        act = self.acts.get(f"{task.connector}.{method}") or self.acts.get(method)
        return None if act is None else act(task, argument)


sinks = SinkScript()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    sinks.reset()


def raising(failure: Exception, times: int = 1_000_000) -> Callable[..., Any]:
    """Return an action that raises this many times."""
    left = [failure] * times if times < 10 else None

    def act(*_: Any) -> None:
        if left is None:
            raise failure
        if left:
            raise left.pop()

    return act


class ScriptedSink(Sink):
    """Sink that follows the script."""

    def start(self, task: SinkTaskContext) -> None:
        """Note the start in the script."""
        sinks.act(task, "start", None)

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Note the partitions that are opened."""
        sinks.act(task, "open", sorted(partitions))

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Note the values, and keep the records."""
        sinks.act(task, "put", [record.value for record in records])
        sinks.records += records

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> Any:
        """Note the offsets; return them unless the test says otherwise."""
        return sinks.act(task, "pre_commit", dict(offsets)) or offsets

    def close(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Note the partitions that are closed."""
        sinks.act(task, "close", sorted(partitions))

    def stop(self, task: SinkTaskContext) -> None:
        """Note the stop in the script."""
        sinks.act(task, "stop", None)


async def begin(worker: ConnectWorker, name: str = "s", **config: str) -> None:
    """Create a sink of the topic `t`, and wait until it runs."""
    full = config_of(ScriptedSink, **{"topics": "t", **config})
    await worker.plane.execute(CreateConnector(name, full))
    await until_state(worker, name, "RUNNING", "RUNNING")
    await until(lambda: sinks.of(name, "open"))


def committed(worker: ConnectWorker, group: str = "connect-s") -> dict[KafkaPartition, int]:
    """Return the committed offsets of a consumer group."""
    return dict(committed_offsets(worker, group))


def asks_for_commit(task: SinkTaskContext, values: Any) -> None:
    """Act of `put`: request a commit."""
    if values:
        task.request_commit()


async def test_a_task_that_is_created_paused_gets_nothing() -> None:
    """The task is started and opened when it is resumed."""
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "a")
        create = CreateConnector("s", config_of(ScriptedSink, topics="t"), Target.PAUSED)
        await worker.plane.execute(create)
        await until_state(worker, "s", "PAUSED")
        assert sinks.calls == []
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: sinks.of("s", "put") == [["a"]])


async def test_a_task_that_never_started_is_not_stopped() -> None:
    """A task that is restarted while paused ends without `start` or `stop`."""
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "a")
        await begin(worker)
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await worker.plane.execute(RestartTask("s", 0))
        await until(lambda: sinks.of("s", "stop"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
    assert [method for _, method, _ in sinks.calls if method in {"start", "stop"}] == [
        "start",
        "stop",
    ]


async def test_a_pause_commits() -> None:
    """A pause commits; a paused task gets no `put`."""
    async with running(ScriptedSink, runtime=RARELY) as worker:
        await produce(worker.plane.log, "t", "a")
        await begin(worker)
        await until(lambda: sinks.of("s", "put") == [["a"]])
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        assert committed(worker) == {("t", 0): 1}
        await produce(worker.plane.log, "t", "b")
        await begin(worker, "other")
        await until(lambda: sinks.records[-1].value == "b")
        assert sinks.of("s", "put") == [["a"]]
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: sinks.of("s", "put") == [["a"], ["b"]])


async def test_a_stop_commits_closes_and_stops() -> None:
    """The calls come in this order, each once."""
    async with running(ScriptedSink, runtime=RARELY) as worker:
        await produce(worker.plane.log, "t", "a")
        await begin(worker)
        await until(lambda: sinks.of("s", "put"))
        await worker.plane.execute(StopConnector("s"))
        await until(lambda: sinks.of("s", "stop"))
        assert [method for _, method, _ in sinks.calls] == [
            *("start", "open", "put", "pre_commit", "close", "stop")
        ]
        assert sinks.of("s", "close") == [[("t", 0)]]
        assert committed(worker) == {("t", 0): 1}


@pytest.mark.slow
async def test_a_redelivery_puts_the_same_records() -> None:
    """A failed batch is put again without further records; nothing of it is committed before."""
    async with running(ScriptedSink) as worker:
        sinks.acts["put"] = raising(RetriableError("later"), 3)
        await produce(worker.plane.log, "t", "a", "b")
        sinks.acts["start"] = lambda task, _: task.retry_after(0.01)
        await begin(worker)
        await until(lambda: len(sinks.of("s", "put")) == 1)
        assert committed(worker) == {}
        await produce(worker.plane.log, "t", "c")
        await until(lambda: committed(worker) == {("t", 0): 3})
        puts = sinks.of("s", "put")
    assert puts == [["a", "b"]] * (len(puts) - 1) + [["c"]]
    assert [record.value for record in sinks.records] == ["a", "b", "c"]


def takes_turns(pause_s: float, task: SinkTaskContext, values: Any) -> None:
    """Action of `put`: the first sink refuses records of partition 1 for ever."""
    if values and any(value.startswith("odd") for value in values):
        task.retry_after(pause_s)
        raise RetriableError("later")


GROUP = {"consumer_override_group_id": "shared"}


@pytest.mark.parametrize("pause_s", [0, 0.01])
async def test_a_group_rebalances_during_a_redelivery(pause_s: float) -> None:
    """A second member gets its partition; the first drops those records and continues."""
    async with running(ScriptedSink) as worker:
        sinks.acts["s.put"] = partial(takes_turns, pause_s)
        await produce(worker.plane.log, "t", "even", "odd", partitions=2)
        await begin(worker, **GROUP)
        await until(lambda: any("odd" in values for values in sinks.of("s", "put")))
        await begin(worker, "z", **GROUP)
        await until(lambda: sinks.of("s", "close") == [[("t", 1)]])
        await until(lambda: committed(worker, "shared") == {("t", 0): 1, ("t", 1): 1})
        assert sinks.of("z", "put") == [["odd"]]
        assert [record.value for record in sinks.records].count("even") == 1


@pytest.mark.slow
async def test_partitions_come_and_go() -> None:
    """A member opens and closes only the changed partitions; it commits before it closes."""
    async with running(ScriptedSink, runtime=RARELY) as worker:
        await produce(worker.plane.log, "t", "a", "b", partitions=2)
        await begin(worker, **GROUP)
        await until(lambda: len(sinks.records) == 2)
        await begin(worker, "z", **GROUP)
        await until(lambda: sinks.of("z", "open") == [[("t", 1)]])
        assert sinks.of("s", "close") == [[("t", 1)]]
        assert committed(worker, "shared")["t", 1] == 1
        await worker.plane.execute(StopConnector("z"))
        await until(lambda: sinks.of("s", "open") == [[("t", 0), ("t", 1)], [("t", 1)]])
        await worker.plane.log.append([Record("t", 1, 1, None, b"c")])
        await until(lambda: [record.value for record in sinks.records] == ["a", "b", "c"])


async def test_a_failed_commit_rewinds_present_partitions_only() -> None:
    """Records of a partition that was revoked in a rebalance are not put again."""
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "a", "b", partitions=2)
        await begin(worker, **GROUP)
        await until(lambda: committed(worker, "shared") == {("t", 0): 1, ("t", 1): 1})
        await begin(worker, "z", **GROUP)
        await until(lambda: sinks.of("z", "open") == [[("t", 1)]])
        sinks.acts["s.pre_commit"] = raising(ValueError("no flush"), 2)
        await worker.plane.log.append([Record("t", 0, 1, None, b"c")])
        await until(lambda: committed(worker, "shared")["t", 0] == 2)
        values = [record.value for record in sinks.records]
    assert values.count("b") == 1
    assert values.count("a") == 1
    assert values.count("c") >= 1


@pytest.mark.parametrize("method", ["open", "close"])
async def test_a_rebalance_that_fails_fails_the_task(method: str) -> None:
    """The task is FAILED with the author's error, and leaves its group."""
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "a", "b", partitions=2)
        if method == "close":
            await begin(worker, **GROUP)
        sinks.acts[f"s.{method}"] = raising(ValueError(f"no {method}"))
        if method == "open":
            config = config_of(ScriptedSink, topics="t", **GROUP)
            await worker.plane.execute(CreateConnector("s", config))
            await until_state(worker, "s", "RUNNING", "FAILED")
        await begin(worker, "z", **GROUP)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert f"ValueError: no {method}" in task_trace(worker, "s")
        await until(lambda: sorted(chain(*sinks.of("z", "open"))) == [("t", 0), ("t", 1)])


async def test_a_requested_commit_comes_at_once() -> None:
    """A requested commit comes at once, although the interval is an hour; a new interval begins."""
    async with running(ScriptedSink, runtime=RARELY) as worker:
        sinks.acts["put"] = asks_for_commit
        await produce(worker.plane.log, "t", "a")
        await begin(worker)
        await until(lambda: committed(worker) == {("t", 0): 1})
        sinks.acts.clear()
        await produce(worker.plane.log, "t", "b")
        await until(lambda: len(sinks.records) == 2)
        assert committed(worker) == {("t", 0): 1}


async def test_the_task_limits_the_commit() -> None:
    """A task may return fewer offsets, but neither later ones nor those of other partitions.

    As in Kafka, the partition without a valid offset gets its first position.
    """
    async with running(ScriptedSink) as worker:
        sinks.acts["pre_commit"] = lambda *_: {("t", 0): 1, ("t", 1): 7, ("u", 0): 1}
        await produce(worker.plane.log, "t", "a", "b", "c", partitions=2)
        await begin(worker)
        await until(lambda: len(sinks.records) == 3)
        await until(lambda: committed(worker) == {("t", 0): 1, ("t", 1): 0})
        count = len(sinks.of("s", "pre_commit"))
        await until(lambda: len(sinks.of("s", "pre_commit")) > count + 2)
        assert committed(worker) == {("t", 0): 1, ("t", 1): 0}


async def test_unchanged_offsets_are_not_committed() -> None:
    """A task that returns the committed offsets causes no record."""
    log = FaultyLog()
    async with running(ScriptedSink, log=log) as worker:
        sinks.acts["pre_commit"] = lambda *_: {("t", 0): 0}
        await produce(log, "t", "a")
        await begin(worker)
        await until(lambda: len(sinks.of("s", "pre_commit")) > 3)
        assert log.appended.count([GROUPS_TOPIC]) == 0


async def test_a_failed_pre_commit_rewinds() -> None:
    """Records since the last commit are put again."""
    async with running(ScriptedSink) as worker:
        sinks.acts["put"] = asks_for_commit
        sinks.acts["pre_commit"] = raising(ValueError("no flush"), 1)
        await produce(worker.plane.log, "t", "a", "b")
        await begin(worker)
        await until(lambda: committed(worker) == {("t", 0): 2})
        assert [record.value for record in sinks.records] == ["a", "b", "a", "b"]


async def test_a_slow_commit_within_its_time_out_counts() -> None:
    """The commit counts; the task waits for it, so that no later commit overtakes it."""
    log, notices = FaultyLog(), RecordedNotices()
    runtime = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=1_000 * PATIENCE_S)
    async with running(ScriptedSink, log=log, notices=notices, runtime=runtime) as worker:
        await produce(log, "t", "a")
        await begin(worker)
        log.held.add(GROUPS_TOPIC)
        await produce(log, "t", "b")
        await until(lambda: GROUPS_TOPIC in log.waiting)
        before = len(sinks.of("s", "pre_commit"))
        await asyncio.sleep(0.05)
        assert len(sinks.of("s", "pre_commit")) == before
        log.release(GROUPS_TOPIC)
        await until(lambda: committed(worker) == {("t", 0): 2})
        assert notices.of("offsets_not_committed") == []


async def test_a_failed_commit_of_the_group_is_repeated() -> None:
    """The task continues; the records are not put again."""
    log, notices = FaultyLog(), RecordedNotices()
    async with running(ScriptedSink, log=log, notices=notices) as worker:
        log.failures[GROUPS_TOPIC] = [LogUnavailable("away")]
        await produce(log, "t", "a")
        await begin(worker)
        await until(lambda: notices.of("offsets_not_committed"))
        await until(lambda: committed(worker) == {("t", 0): 1})
        assert len(sinks.records) == 1


async def test_a_failing_close_hides_no_failing_put() -> None:
    """The status has the trace of the put; the log has the failure of the close."""
    notices = RecordedNotices()
    async with running(ScriptedSink, notices=notices) as worker:
        sinks.acts["s.put"] = lambda _, values: raising(ValueError("no put"))() if values else None
        sinks.acts["s.close"] = raising(ValueError("no close"))
        await produce(worker.plane.log, "t", "a")
        await worker.plane.execute(CreateConnector("s", config_of(ScriptedSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert trace.endswith("Exiting WorkerSinkTask due to unrecoverable exception.")
        assert "ValueError: no put" in trace
        assert "no close" not in trace
        assert "no close" in notices.of("partitions_not_closed")[0]["reason"]
        assert committed(worker) == {}


async def test_an_abandoned_task_commits_nothing() -> None:
    """The worker commits neither earlier records of the task nor those of its last `put`."""
    runtime = msgspec.structs.replace(RARELY, task_shutdown_graceful_timeout_ms=20)
    async with running(ScriptedSink, runtime=runtime) as worker:
        await produce(worker.plane.log, "t", "a")
        await begin(worker)
        await until(lambda: len(sinks.records) == 1)
        sinks.acts["put"] = lambda *_: sinks.released.wait(PATIENCE_S)
        await produce(worker.plane.log, "t", "b")
        await until(lambda: sinks.of("s", "put") == [["a"], ["b"]])
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        sinks.released.set()
        await until(lambda: sinks.of("s", "stop"))
        assert sinks.of("s", "pre_commit") == []
        assert committed(worker) == {}


class Renaming(Transformation):
    """Gives each record another topic and partition."""

    def apply(self, record: Any) -> Any:
        """Rename the topic of a record and change its partition."""
        return msgspec.structs.replace(record, topic=f"new_{record.topic}", kafka_partition=9)


async def test_offsets_are_those_of_the_original_topic() -> None:
    """A transformed record still has its original topic, partition and offset (KIP-793)."""
    async with running(ScriptedSink, others=[Renaming]) as worker:
        await produce(worker.plane.log, "t", "a")
        kind = {"transforms.r.type": f"{Renaming.__module__}.Renaming", "transforms": "r"}
        config = config_of(ScriptedSink, topics="t") | kind
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: committed(worker) == {("t", 0): 1})
        (record,) = sinks.records
    assert (record.topic, record.kafka_partition) == ("new_t", 9)
    original = record.original_topic, record.original_kafka_partition, record.original_kafka_offset
    assert original == ("t", 0, 0)


async def test_a_rewind_drops_renamed_records() -> None:
    """Records that are read again replace those of the batch, which have another topic."""

    def rewinds(task: SinkTaskContext, values: Any) -> None:
        if values and len(sinks.of("s", "put")) == 1:
            task.rewind({("t", 0): 0})
            task.retry_after(0)
            raise RetriableError("later")

    sinks.acts["put"] = rewinds
    async with running(ScriptedSink, others=[Renaming]) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        kind = {"transforms.r.type": f"{Renaming.__module__}.Renaming", "transforms": "r"}
        config = config_of(ScriptedSink, topics="t") | kind
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: committed(worker) == {("t", 0): 2})
    assert [record.value for record in sinks.records] == ["a", "b"]


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(1_234, (1_234, "CreateTime")), (-1, (None, "NoTimestampType"))]
)
async def test_a_sink_gets_the_time_of_a_record_and_its_type(
    timestamp: int, expected: tuple[Any, str]
) -> None:
    """The sink gets the time of a record and its type, if it has one."""
    async with running(ScriptedSink) as worker:
        await worker.plane.log.create_topic("t", 1)
        await worker.plane.log.append([Record("t", 0, timestamp, None, b"a")])
        await begin(worker)
        await until(lambda: sinks.records)
    assert (sinks.records[0].timestamp, sinks.records[0].timestamp_type) == expected


async def test_headers_are_converted() -> None:
    """The header converter reads numbers as numbers."""
    async with running(ScriptedSink) as worker:
        await worker.plane.log.create_topic("t", 1)
        headers = (("name", b"Ada"), ("n", b"7"))
        await worker.plane.log.append([Record("t", 0, 1, None, b"a", headers)])
        await begin(worker)
        await until(lambda: sinks.records)
    assert [(header.name, header.value) for header in sinks.records[0].headers] == [
        ("name", "Ada"),
        ("n", 7),
    ]


async def test_a_pattern_matches_whole_names_also_of_later_topics() -> None:
    """The whole name must match; a topic that appears later is consumed from its first record."""
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t1", "a")
        await produce(worker.plane.log, "at1", "no")
        config = config_of(ScriptedSink, topics_regex="t[0-9]")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: [record.value for record in sinks.records] == ["a"])
        await produce(worker.plane.log, "t2", "b")
        await until(lambda: [record.value for record in sinks.records] == ["a", "b"])
        await until(lambda: committed(worker) == {("t1", 0): 1, ("t2", 0): 1})
