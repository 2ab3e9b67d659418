"""KIP-910 for one-class sources: the hook while `read` waits."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, cast

import pytest

from controlplane.connect import Source
from controlplane.connect.source import OffsetPairs, SourceRun
from controlplane.core.commands import PauseConnector
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.source_context import TaskContext
from controlplane.worker.drivers.source_drivers import GeneratorDriver
from controlplane.worker.worker import ConnectWorker
from tests.kips.running_source import NAME, Append, RecordingLog, committed, record, running_source
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import task_trace, until, until_state, values_in

BOUNDARIES = pytest.mark.parametrize("boundary", [None, "poll", "interval"])
"""None: delivery at least once."""


class BurstSource(Source):
    """Yields three records, waits in an `await` until the test goes on, and repeats."""

    exactly_once = True
    bursts: ClassVar[int] = 0
    """Number of bursts that `read` may begin."""
    shown: ClassVar[list[int]] = []
    """Offsets that the hook has seen."""
    position = 0

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the bursts that the test allows."""
        del task
        while True:
            while self.position >= 3 * self.bursts:  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.002)
            for _ in range(3):
                self.position += 1
                yield record("a", self.position)

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Note the offsets; add nothing."""
        del task
        self.shown.extend(int(str(offset["at"])) for _, offset in offsets if offset is not None)
        return None


class FailingHookSource(BurstSource):
    """Has a hook that fails once there are offsets."""

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Raise an exception if there are offsets."""
        del task
        if offsets:
            raise ValueError("no offsets today")
        return None


class SlowHookSource(BurstSource):
    """Has a hook that lets `read` go on, waits, and then returns the position of `read`."""

    async def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> Any:  # type: ignore[override]
        """Return the position as the offset of a bookmark."""
        del task
        if offsets:
            type(self).bursts += 1
            await asyncio.sleep(0.01)
        return [({"p": "bookmark"}, {"at": self.position})]


class GatedHookSource(BurstSource):
    """Has a hook that lets `read` go on, and waits for the test; notes each call of `acked`."""

    gate: ClassVar[threading.Event] = threading.Event()
    acknowledged: ClassVar[list[Any]] = []

    async def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> Any:  # type: ignore[override]
        """Wait until the test opens the gate; add nothing."""
        del task, offsets
        type(self).bursts += 1
        while not self.gate.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.002)

    def acked(self, task: SourceRun, record: Any, metadata: Any) -> None:
        """Note the record."""
        del task, metadata
        self.acknowledged.append(record.value)


class BlockingSource(BurstSource):
    """Yields three records, blocks its thread, and then rests."""

    blocked: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()

    def read(self, task: SourceRun) -> Iterator[Any]:  # type: ignore[override]
        """Yield the records of one burst."""
        for number in (1, 2, 3):
            yield record("a", number)
        self.blocked.set()
        self.released.wait(PATIENCE_S)
        while True:
            yield task.idle(0.005)


STALL_S = 0.5
"""Time for which the thread of a stalling source takes no calls."""


class StallingSource(BurstSource):
    """Stalls its thread just after it has ended a transaction: another callback blocks the loop."""

    boundaries = True
    ends_with: ClassVar[str] = "commit"

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a record and, in a later poll, the end of its transaction."""
        yield record("a", 1)
        yield task.idle(0.01)
        asyncio.get_running_loop().call_soon(time.sleep, STALL_S)
        yield task.commit() if self.ends_with == "commit" else task.abort()
        while True:
            yield task.idle(0.005)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    BurstSource.bursts = SlowHookSource.bursts = GatedHookSource.bursts = 1
    BurstSource.shown.clear()
    GatedHookSource.gate.clear()
    GatedHookSource.acknowledged.clear()
    BlockingSource.blocked.clear()
    BlockingSource.released.clear()
    yield
    BlockingSource.released.set()


@BOUNDARIES
async def test_offsets_are_committed_while_read_awaits(boundary: str | None) -> None:
    """Each burst is committed while `read` waits after it, and the hook has seen each offset."""
    log = RecordingLog()
    async with running_source(BurstSource, boundary=boundary, log=log) as worker:
        for burst in (1, 2, 3):
            BurstSource.bursts = burst
            await until(partial(_is_committed, worker, 3 * burst))
            assert len(await values_in(log, "t")) == 3 * burst
    assert {append.offsets["a"] for append in log.appends if append.offsets} <= {*BurstSource.shown}


@BOUNDARIES
async def test_offsets_wait_while_read_blocks_its_thread(boundary: str | None) -> None:
    """The commit waits for the hook; with exactly-once support, the records wait, too."""
    log = RecordingLog()
    async with running_source(BlockingSource, boundary=boundary, log=log) as worker:
        await until(BlockingSource.blocked.is_set)
        await asyncio.sleep(0.15)
        assert log.offsets == {}
        assert len(await values_in(log, "t")) == (3 if boundary is None else 0)
        BlockingSource.released.set()
        await until(lambda: committed(worker) == {"a": 3})
        assert BurstSource.shown[-1] == 3
    if boundary is not None:
        assert log.appends == [Append(["1", "2", "3"], {"a": 3})]


@pytest.mark.parametrize(("ends_with", "values"), [("commit", ["1"]), ("abort", [])])
async def test_a_requested_end_waits_for_the_hook(
    monkeypatch: pytest.MonkeyPatch, ends_with: str, values: list[str]
) -> None:
    """A transaction ends where the source requests it, although its thread stalls there."""
    monkeypatch.setattr(StallingSource, "ends_with", ends_with)
    log = RecordingLog()
    async with running_source(StallingSource, boundary="connector", log=log) as worker:
        await until(lambda: committed(worker) == {"a": 1})
    assert log.appends == [Append(values, {"a": 1})]
    assert BurstSource.shown == [1]


@BOUNDARIES
async def test_a_pause_commits_without_the_hook(boundary: str | None) -> None:
    """A blocked thread cannot call the hook, so the commit waits until the pause."""
    async with running_source(BlockingSource, boundary=boundary) as worker:
        await until(BlockingSource.blocked.is_set)
        await asyncio.sleep(0.05)
        await worker.plane.execute(PauseConnector(NAME))
        await until(lambda: committed(worker) == {"a": 3})
        assert BurstSource.shown == []
        BlockingSource.released.set()


@BOUNDARIES
async def test_a_failure_ends_the_wait(boundary: str | None) -> None:
    """A hook that fails while `read` waits fails the task at once."""
    async with running_source(FailingHookSource, boundary=boundary) as worker:
        await until_state(worker, NAME, "RUNNING", "FAILED")
        assert "no offsets today" in task_trace(worker, NAME)


@BOUNDARIES
async def test_an_answer_never_passes_a_record(boundary: str | None) -> None:
    """The answer of a hook is dropped if `read` has yielded a record meanwhile."""
    log = RecordingLog()
    async with running_source(SlowHookSource, boundary=boundary, log=log) as worker:
        await until(lambda: committed(worker).get("bookmark", 0) >= 9)
    read = 0
    for append in log.appends:
        read += len(append.values)
        assert (append.offsets.get("bookmark") or 0) <= read


async def test_the_hook_waits_until_a_poll_returns_the_yielded_record() -> None:
    """Until then, the hook's answer could cover a record that is not in the log."""
    source = BurstSource()
    async with _driver_of(source) as driver:
        assert _values(await _burst(driver)) == ["1", "2", "3"]
        assert await _answer(driver, list) == ()
        BurstSource.bursts = 2
        await until(lambda: source.position == 4)
        assert await driver.update_offsets(lambda: [({"p": "a"}, {"at": 3})]) is None
        assert BurstSource.shown == []
        assert _values(await driver.poll()) == ["4"]
        assert await _answer(driver, lambda: [({"p": "a"}, {"at": 4})]) == ()
        assert BurstSource.shown == [4]


async def test_offsets_are_copied_once_the_hook_is_called() -> None:
    """The source's thread copies the offsets when it calls the hook; the event loop never does."""
    threads: list[str] = []

    def offsets() -> OffsetPairs:
        threads.append(threading.current_thread().name)
        return [({"p": "a"}, {"at": 3})]

    async with _driver_of(BlockingSource()) as driver:
        assert _values(await _burst(driver)) == ["1", "2", "3"]
        for _ in range(3):
            assert await driver.update_offsets(offsets) is None
        assert threads == []
        BlockingSource.released.set()
        assert await driver.poll() == []
        while await driver.update_offsets(offsets) is None:
            assert await driver.poll() == []  # the withdrawn call ends meanwhile
        assert threads == ["author"]


async def test_a_blocked_thread_takes_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of the hook do not pile up in front of a blocked thread."""
    submitted: list[Any] = []
    submit = AuthorThread.submit

    def noting(thread: AuthorThread, method: Any, *arguments: Any) -> Any:
        submitted.append(method)
        return submit(thread, method, *arguments)

    async with _driver_of(BlockingSource()) as driver:
        assert _values(await _burst(driver)) == ["1", "2", "3"]
        monkeypatch.setattr(AuthorThread, "submit", noting)
        for _ in range(3):
            assert await driver.update_offsets(list) is None
        assert len(submitted) == 1
        BlockingSource.released.set()


async def test_a_hook_that_waits_delays_other_calls() -> None:
    """No other method of the source is called while its hook waits, although `read` has yielded."""
    source = GatedHookSource()
    async with _driver_of(source) as driver:
        polled = await _burst(driver)
        asking = asyncio.create_task(_answer(driver, list, lambda: GatedHookSource.bursts > 1))
        await until(lambda: source.position >= 4)
        await driver.acknowledged([(polled[0].record, None)])
        await asyncio.sleep(0.05)
        assert GatedHookSource.acknowledged == []
        GatedHookSource.gate.set()
        assert await asking is None
        await until(lambda: GatedHookSource.acknowledged == ["1"])


@asynccontextmanager
async def _driver_of(source: Source) -> AsyncIterator[GeneratorDriver]:
    """Run a source in a thread named `author`."""
    thread = AuthorThread("author")
    try:
        driver = GeneratorDriver(source, cast(TaskContext, None), thread)
        await driver.start()
        yield driver
        await driver.stop()
    finally:
        thread.abandon()


async def _burst(driver: GeneratorDriver) -> list[Any]:
    """Return the three records of a burst. Under load, the first poll may return fewer."""
    items: list[Any] = []
    while len(items) < 3:
        items.extend(await driver.poll())
    return items


async def _answer(
    driver: GeneratorDriver,
    offsets: Callable[[], OffsetPairs],
    is_called: Callable[[], bool] = lambda: False,
) -> OffsetPairs | None:
    """Return the answer of the hook. A slow thread may not call it within one `update_offsets`.

    An answer of a hook that was called is returned also if it is None.
    """
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await driver.update_offsets(offsets)) is None and not is_called():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return answer


def _is_committed(worker: ConnectWorker, last: int) -> bool:
    return committed(worker) == {"a": last}


def _values(items: Sequence[Any]) -> list[str]:
    return [item.record.value for item in items]
