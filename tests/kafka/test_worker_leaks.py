"""A stopped connector on brokers leaves no task, thread, socket, file, process or warning."""

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.state import Topics
from controlplane.worker.worker import ConnectWorker
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import Broker
from tests.patience import PATIENCE_S
from tests.worker.leak_checks import (
    Draining,
    Inventory,
    Ticking,
    idle,
    run_cycles,
    settled,
    surplus,
    until_same,
    without_warnings,
)
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    connector_status,
    until,
    until_state,
)

CYCLES = 300
"""Cycles of stop, start, restart, pause and reconfiguration; three connectors take turns."""

FAILURES = 100
HANGS = 30

FILES_OF_THREAD = 3
"""Files of the event loop of a task's thread: a selector and a pair of sockets."""

PATIENT = msgspec.structs.replace(QUICK, task_shutdown_graceful_timeout_ms=1_000 * PATIENCE_S)
"""Settings with which no task is left behind, however busy the machine is."""

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

EXPECTED_LINES = ("because it is rebalancing",)
"""Log lines of aiokafka about rebalances: the tasks of a sink cause one when they restart."""


class FailingLate(Source):
    """Source that raises after its first record."""

    config = (key("topic"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Raise ValueError after a record."""
        yield task.record("x", {"p": 1}, {"at": 1})
        raise ValueError("late")


hung: list[str] = []
"""Connectors of the tasks that hang, or have hung."""

released = threading.Event()
"""Set: no task hangs any more."""


class Stuck(Source):
    """Source whose task hangs in synchronous code after a record."""

    config = (key("topic"),)

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Hang after a record."""
        yield task.record("x", {"p": 1}, {"at": 1})
        hung.append(task.connector)
        released.wait()


class StuckSink(Sink):
    """Sink whose task hangs in synchronous code with its first records."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Hang with records."""
        if records:
            hung.append(task.connector)
            released.wait()


async def create(worker: ConnectWorker, configs: dict[str, dict[str, str]]) -> None:
    """Create connectors, and wait until their tasks run."""
    for name, config in configs.items():
        await worker.plane.execute(CreateConnector(name, config))
    for name in configs:
        await settled(worker, name, "RUNNING")


def hang(tasks: int) -> bool:
    """True once this number of tasks hang."""
    return len(hung) == tasks


async def delete(worker: ConnectWorker, *names: str) -> None:
    """Delete connectors, and wait until their statuses are removed."""
    for name in names:
        await worker.plane.execute(DeleteConnector(name))
    await until(lambda: not any(connector_status(worker, name) for name in names))


async def warm(
    worker: ConnectWorker, configs: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> Inventory:
    """Inventory of an empty worker with all connections that it keeps.

    The first consumer of a new broker warns that there is no coordinator yet.
    """
    await create(worker, configs)
    await delete(worker, *configs)
    caplog.clear()
    return await idle()


@pytest.mark.prove
@pytest.mark.parametrize("support", ["enabled", "disabled"])
async def test_cycles_leave_nothing(
    broker: Broker, own_topics: Topics, caplog: pytest.LogCaptureFixture, support: str
) -> None:
    """The inventory stays equal over many cycles; after the deletion it is that of the start."""
    data = unused_name()
    await create_topic(broker, data, 2, cleanup__policy="delete")
    source = config_of(Ticking, topic=data)
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{data}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "consumer.override.group.id": f"group-{data}",
    }
    configs = {
        "ticking": source,
        "own": source | {"offsets.storage.topic": f"{data}-offsets"},
        "sink": config_of(Draining, topics=data, tasks_max="2") | letters,
    }
    async with (
        without_warnings(caplog, EXPECTED_LINES) as notices,
        worker_on(
            broker,
            own_topics,
            Ticking,
            Draining,
            notices=notices,
            limits=PATIENT,
            exactly__once__source__support=support,
        ) as worker,
    ):
        empty = await warm(worker, configs, caplog)
        await create(worker, configs)
        await run_cycles(worker, configs, len(configs))
        before = await idle()
        await run_cycles(worker, configs, CYCLES)
        await until_same(before)
        await delete(worker, *configs)
        await until_same(empty)
    assert {event for event, _ in notices.lines} == {"command"}


async def test_failures_leave_nothing(
    broker: Broker, own_topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed task holds no task, thread, file or socket, however often it is restarted."""
    data = unused_name()
    async with (
        without_warnings(caplog, EXPECTED_LINES) as notices,
        worker_on(broker, own_topics, FailingLate, notices=notices) as worker,
    ):
        await worker.plane.execute(CreateConnector("f", config_of(FailingLate, topic=data)))
        await until_state(worker, "f", "RUNNING", "FAILED")
        before = await idle()
        for _ in range(FAILURES):
            await worker.plane.execute(RestartTask("f", 0))
            await until_state(worker, "f", "RUNNING", "FAILED")
        await until_same(before)
    events = {"command", "task_failed", "task_failed_while_stopping"}
    assert {event for event, _ in notices.lines} <= events


async def test_hanging_tasks_leave_only_their_threads(
    broker: Broker, own_topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    """Hanging tasks are left behind without their clients; their threads end once they return."""
    data, limits = (
        unused_name(),
        msgspec.structs.replace(QUICK, task_shutdown_graceful_timeout_ms=50),
    )
    await create_topic(broker, data, 1, cleanup__policy="delete")
    configs = {
        "source": config_of(Stuck, topic=data),
        "sink": config_of(StuckSink, topics=data) | {"consumer.override.group.id": f"group-{data}"},
    }
    hung.clear()
    released.clear()
    async with (
        without_warnings(caplog, EXPECTED_LINES) as notices,
        worker_on(broker, own_topics, Stuck, StuckSink, notices=notices, limits=limits) as worker,
    ):
        for name, config in configs.items():
            await worker.plane.execute(CreateConnector(name, config))
        await until(partial(hang, 2))
        caplog.clear()
        before = await idle()
        for number in range(1, HANGS + 1):
            for name in configs:
                await worker.plane.execute(StopConnector(name))
                await until_state(worker, name, "STOPPED")
                await worker.plane.execute(ResumeConnector(name))
            await until(partial(hang, 2 * number + 2))
        threads = {"task source-": HANGS, "task sink-": HANGS}
        files = FILES_OF_THREAD * sum(threads.values())
        await until(lambda: surplus(before) == ({}, threads, files, 0))
        # Before the worker closes: on a busy machine, its last tasks may be left behind, too.
        assert len(notices.of("task_left_behind")) == 2 * HANGS
        released.set()
        await until_same(before)
