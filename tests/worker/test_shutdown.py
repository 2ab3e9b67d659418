"""End of a worker: nothing delays it beyond its limits."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane.connect import Source, key
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, DeleteConnector
from controlplane.core.order import Ends
from controlplane.logs.memory import MemoryLog
from controlplane.settings.providers import Providers
from controlplane.worker.lifecycle import statuses
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.faulty_log import FaultyLog
from tests.worker.worker_fixture import (
    ABANDONING,
    RecordedNotices,
    config_of,
    connector_status,
    running,
    until,
    until_state,
)


class RestingSource(Source):
    """Source that yields no records."""

    config = (key("password", default=""),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.01)


@asynccontextmanager
async def ending_in_time(**parts: Any) -> AsyncIterator[ConnectWorker]:
    """Run a worker; fail if its end takes longer than a limit."""
    opened = running(RestingSource, **parts)
    worker = await opened.__aenter__()
    try:
        yield worker
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await opened.__aexit__(None, None, None)


async def test_a_deletion_during_an_outage_is_completed_by_the_next_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next worker removes statuses that the first could not remove after a deletion."""
    monkeypatch.setattr(statuses, "CLOSE_S", 0.1)
    log = FaultyLog()
    async with ending_in_time(log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(RestingSource)))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        topic = worker.plane.state.topics.status
        log.held.add(topic)
        await worker.plane.execute(DeleteConnector("c"))
        await until(lambda: topic in log.waiting)
    log.release(topic)
    async with running(RestingSource, log=log) as worker:
        await until(lambda: connector_status(worker, "c") is None)


class HangingProviders(Providers):
    """Config providers that give no answer before the end of a test."""

    def of_connector(self, key: str, text: str) -> Any:
        """Block until the test sets `answered`."""
        called.set()
        answered.wait(PATIENCE_S)
        return super().of_connector(key, text)


called, answered = threading.Event(), threading.Event()


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_hanging_config_provider_delays_no_shutdown(deleted: bool) -> None:
    """The worker abandons the connector, deleted or not."""
    called.clear()
    answered.clear()
    try:
        async with ending_in_time(runtime=ABANDONING, providers=HangingProviders({}, {})) as worker:
            config = config_of(RestingSource, password="${vault:password}")
            await worker.plane.execute(CreateConnector("c", config))
            await until(called.is_set)
            if deleted:
                await worker.plane.execute(DeleteConnector("c"))
                await worker.removed("c")
    finally:
        answered.set()


class SilentLog(MemoryLog):
    """Log whose `ends` never answers a call for the offsets topic only."""

    ends_requested = False

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the ends; wait for ever if only the offsets topic is asked for."""
        topics = [*topics]
        if topics == ["connect-offsets"]:
            self.ends_requested = True
            await asyncio.Event().wait()
        return await super().ends(topics)


@pytest.mark.parametrize("deleted", [True, False])
async def test_tasks_that_wait_for_their_offsets_are_abandoned(deleted: bool) -> None:
    """The worker abandons the start of tasks that wait for their offsets."""
    log, notices = SilentLog(), RecordedNotices()
    async with ending_in_time(log=log, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(RestingSource)))
        await until(lambda: log.ends_requested)
        if deleted:
            await worker.plane.execute(DeleteConnector("c"))
            await worker.removed("c")
    assert not notices.of("connector_left_behind")


class LingeringSource(Source):
    """Source whose `read` does not end in time."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records; wait at the end, too."""
        try:
            while True:
                yield task.idle(0.01)
        finally:
            await asyncio.sleep(PATIENCE_S)


async def test_a_second_cancellation_leaves_nothing_running() -> None:
    """A caller that is cancelled again, while connectors stop, leaves no task of the worker."""
    before, runs = asyncio.all_tasks(), asyncio.Event()

    async def caller() -> None:
        async with running(LingeringSource) as worker:
            await worker.plane.execute(CreateConnector("c", config_of(LingeringSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            runs.set()
            await asyncio.Event().wait()

    calling = asyncio.create_task(caller())
    await runs.wait()
    for _ in range(2):
        calling.cancel()
        await asyncio.sleep(0.02)
    await asyncio.wait([calling])
    assert calling.cancelled()
    await until(lambda: asyncio.all_tasks() <= before)


@pytest.mark.parametrize("steps", range(1, 7))
async def test_a_cancelled_end_leaves_nothing_running(steps: int) -> None:
    """A worker whose end is cancelled after any step of the event loop leaves no asyncio task."""
    before = asyncio.all_tasks()
    opened = running(RestingSource)
    worker = await opened.__aenter__()
    await worker.plane.execute(CreateConnector("c", config_of(RestingSource)))
    await until_state(worker, "c", "RUNNING", "RUNNING")
    ending = asyncio.ensure_future(opened.__aexit__(None, None, None))
    for _ in range(steps):
        await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending])
    assert ending.cancelled()
    await until(lambda: asyncio.all_tasks() <= before)


class SlowlyEndingSource(Source):
    """Source whose `read` takes a moment to end."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records; wait at the end, too."""
        try:
            while True:
                yield task.idle(0.01)
        finally:
            await asyncio.sleep(0.2)


async def test_a_worker_that_ends_starts_no_connector_of_a_deleted_name() -> None:
    """A request may wait for the end of a deleted connector while the worker ends."""
    before = asyncio.all_tasks()
    config = config_of(SlowlyEndingSource)
    async with running(SlowlyEndingSource) as worker:
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        await worker.plane.execute(DeleteConnector("c"))
        await worker.plane.execute(CreateConnector("c", config))
        starting = asyncio.create_task(worker.started("c", PATIENCE_S))
        await asyncio.sleep(0)
    with pytest.raises(ConnectError, match="Connector c was stopped"):
        await starting
    await until(lambda: asyncio.all_tasks() <= before)
