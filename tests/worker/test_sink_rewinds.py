"""Rewinds of partitions that a sink task does not have (`WorkerSinkTask#rewind`)."""

import _thread
import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from controlplane.connect import Sink, SinkRecord
from controlplane.connect.sink import KafkaOffsets, KafkaPartition, SinkTaskContext
from controlplane.core.commands import (
    CreateConnector,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    QUICK,
    committed_offsets,
    config_of,
    produce,
    running,
    task_states,
    task_trace,
    until,
    until_state,
)

RARELY = msgspec.structs.replace(QUICK, offset_flush_interval_ms=3_600_000)
"""Runtime without commits at intervals."""

rewinds: dict[str, KafkaOffsets] = {}
"""Offsets that the next call of a method rewinds to."""

puts: list[tuple[str, Any]] = []
"""Connector and value of each record that was put."""

steps: list[str] = []
"""Next steps of an `UnflushedRewindSink`."""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    rewinds.clear()
    puts.clear()
    steps.clear()


class RewindingSink(Sink):
    """Sink that rewinds in the methods that the test names."""

    def start(self, task: SinkTaskContext) -> None:
        """Rewind if the test says so."""
        self._rewind(task, "start")

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Rewind if the test says so."""
        del partitions
        self._rewind(task, "open")

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values; rewind if the test says so."""
        puts.extend((task.connector, record.value) for record in records)
        self._rewind(task, "put")

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> KafkaOffsets:
        """Rewind if the test says so; return the offsets."""
        self._rewind(task, "pre_commit")
        return offsets

    def _rewind(self, task: SinkTaskContext, method: str) -> None:
        if method in rewinds:
            task.rewind(rewinds.pop(method))


REWIND = f"{__file__}:{RewindingSink._rewind.__code__.co_firstlineno + 2}"
"""File and line of the call of `rewind`."""


async def create(worker: ConnectWorker, name: str) -> None:
    """Create a sink of the topic `t` in a group that all of these sinks share."""
    config = config_of(RewindingSink, topics="t", consumer_override_group_id="shared")
    await worker.plane.execute(CreateConnector(name, config))


@pytest.mark.parametrize("method", ["start", "open", "put", "pre_commit"])
async def test_a_rewind_of_an_unassigned_partition_fails_the_task(method: str) -> None:
    """The trace has the message of Kafka's consumer, and the author's line."""
    rewinds[method] = {("bad", 9): 0}
    async with running(RewindingSink) as worker:
        await produce(worker.plane.log, "t", "a")
        await create(worker, "s")
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
    assert "ConnectError: No current assignment for partition bad-9" in trace
    assert trace.endswith(f"It was called at {REWIND}")


class UnflushedRewindSink(RewindingSink):
    """Sink that commits two records, rewinds to the first one, and cannot flush them again."""

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> KafkaOffsets:
        """Take the next step once both records were put."""
        if offsets.get(("t", 0)) == 2 and steps:
            step = steps.pop(0)
            if step == "rewind":
                task.rewind({("t", 0): 0})
            elif step == "fail":
                raise ValueError("no flush")
        return offsets


async def test_a_failed_flush_goes_back_to_a_rewind() -> None:
    """A failed flush repeats the records from the rewind on, not from an earlier commit."""
    steps.extend(["commit", "rewind", "fail"])
    async with running(UnflushedRewindSink) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        config = config_of(UnflushedRewindSink, topics="t")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: [value for _, value in puts] == ["a", "b"] * 3)
        assert not steps
        assert task_states(worker, "s") == ["RUNNING"]


async def test_a_rewind_is_committed_without_further_records() -> None:
    """The offset of a rewind is committed although no record follows it."""
    async with running(RewindingSink) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        await create(worker, "s")
        await until(lambda: dict(committed_offsets(worker, "shared")) == {("t", 0): 2})
        rewinds["pre_commit"] = {("t", 0): 0}
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await until(lambda: not rewinds)
        await asyncio.sleep(0.05)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert dict(committed_offsets(worker, "shared")) == {("t", 0): 0}


class ThreadSink(Sink):
    """Sink that starts threads with `task.rewind` itself as their function."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Rewind a partition that the task lacks."""
        del records
        _thread.start_new_thread(task.rewind, ({("bad", 9): 0},))


async def test_a_rewind_as_the_function_of_a_thread_has_no_line() -> None:
    """No code has called it, so that the message names the thread."""
    async with running(ThreadSink) as worker:
        await produce(worker.plane.log, "t", "a")
        await worker.plane.execute(CreateConnector("s", config_of(ThreadSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert task_trace(worker, "s").endswith("It was called at the start of a thread")


@pytest.mark.slow
async def test_a_rewind_before_a_rebalance_takes_effect_in_a_paused_task() -> None:
    """A rewind that precedes the loss of a partition does no harm, also while the task pauses."""
    async with running(RewindingSink, runtime=RARELY) as worker:
        await produce(worker.plane.log, "t", "a", "b", partitions=2)
        await create(worker, "s")
        await until(lambda: sorted(puts) == [("s", "a"), ("s", "b")])
        rewinds["pre_commit"] = {("t", 0): 0, ("t", 1): 0}  # the pause commits
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await create(worker, "z")
        await until(lambda: ("z", "b") in puts)
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: puts.count(("s", "a")) == 2)
        assert task_states(worker, "s") == ["RUNNING"]
    assert puts.count(("s", "b")) == 1
