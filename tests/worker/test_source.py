"""Running sources: records, offsets, statuses, and commands about them."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import count
from typing import Any, ClassVar

import msgspec
import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PauseConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.context import DecisionSettings
from controlplane.plane import Refusal, Settings
from tests.worker.faulty_log import FaultyLog
from tests.worker.numbered_records import CountingSource, counted
from tests.worker.worker_fixture import (
    ABANDONING,
    QUICK,
    RecordedNotices,
    config_of,
    connector_status,
    offsets,
    running,
    task_states,
    until,
    until_state,
    until_values,
    values_in,
)


class PlainCountingSource(CountingSource):
    """A CountingSource whose `read` is a plain generator."""

    def read(self, task: SourceRun) -> Iterator[Any]:  # type: ignore[override]
        """Yield the numbers behind the committed offset, as text."""
        yield from counted(task)


@pytest.mark.parametrize("source", [CountingSource, PlainCountingSource])
async def test_records_and_offsets_arrive(source: type[Source]) -> None:
    """The log has records and offsets of a created source; its statuses are RUNNING."""
    async with running(source) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("n", config_of(source, topic="numbers")))
        await until_values(plane.log, "numbers", [b"1", b"2", b"3"])
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await until(lambda: offsets(worker, "n") == {"{'source': 'numbers'}": {"at": 3}})
        assert [*plane.state.status.active_topics["n"]] == ["numbers"]
    assert await values_in(plane.log, "numbers") == [b"1", b"2", b"3"]


async def test_a_second_life_continues_where_the_first_ended() -> None:
    """A restarted worker reads the committed offsets: no record is doubled."""
    async with running(CountingSource) as worker:
        log = worker.plane.log
        await worker.plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await until_values(log, "t", [b"1", b"2", b"3"])
    async with running(CountingSource, log=log) as worker:
        await until_state(worker, "n", "RUNNING", "RUNNING")
        config = config_of(CountingSource, topic="t", count="5")
        await worker.plane.execute(PutConfig("n", config))
        await until_values(log, "t", [b"1", b"2", b"3", b"4", b"5"])


async def test_a_connector_continues_from_altered_offsets() -> None:
    """A paused task idles; a stopped one ends; with altered offsets it continues from there."""
    async with running(CountingSource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await plane.execute(PauseConnector("n"))
        await until_state(worker, "n", "PAUSED", "PAUSED")
        await plane.execute(ResumeConnector("n"))
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await until_values(plane.log, "t", [b"1", b"2", b"3"])
        await plane.execute(StopConnector("n"))
        await until_state(worker, "n", "STOPPED")
        change = OffsetChange({"source": "numbers"}, {"at": 1})
        await plane.execute(AlterOffsets("n", (change,)))
        await plane.execute(ResumeConnector("n"))
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await until_values(plane.log, "t", [b"1", b"2", b"3", b"2", b"3"])


async def test_a_deleted_connector_leaves_only_its_offsets() -> None:
    """After a deletion no status and no active topic is left; the offsets stay."""
    async with running(CountingSource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await until(lambda: offsets(worker, "n"))
        await plane.execute(DeleteConnector("n"))
        await until(
            lambda: (
                not (
                    plane.state.status.connectors
                    or plane.state.status.tasks.get("n")
                    or plane.state.status.active_topics.get("n")
                )
            )
        )
        assert offsets(worker, "n")
        await plane.execute(CreateConnector("n", config_of(CountingSource, topic="t", count="4")))
        await until_values(plane.log, "t", [b"1", b"2", b"3", b"4"])


class RestartedSource(CountingSource):
    """A CountingSource that records the calls at the start of a connector and of a task."""

    calls: ClassVar[list[str]] = []

    def split(self, config: Any, limit: int) -> Any:
        """Note the call: the connector has started."""
        self.calls.append("split")
        return super().split(config, limit)

    def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Note the call: the task has started."""
        self.calls.append("read")
        return super().read(task)


async def test_a_restart_starts_exactly_its_instances() -> None:
    """A connector and a task can be restarted; exactly those of the command start again."""
    calls = RestartedSource.calls
    async with running(RestartedSource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("n", config_of(RestartedSource, topic="t")))
        await until_state(worker, "n", "RUNNING", "RUNNING")
        for command, expected in (
            (RestartConnector("n"), {"split"}),
            (RestartTask("n", 0), {"read"}),
            (RestartConnector("n", include_tasks=True), {"split", "read"}),
        ):
            calls.clear()
            await plane.execute(command)
            await until(partial(expected.issubset, calls))
            await asyncio.sleep(0.05)
            assert {*calls} == expected
            await until_state(worker, "n", "RUNNING", "RUNNING")


class RestlessSource(Source):
    """Source whose methods wait in an `await`; it records the methods that overlap."""

    config = (key("topic", default="t"),)
    began: ClassVar[list[str]] = []
    overlaps: ClassVar[list[tuple[str, ...]]] = []
    running: ClassVar[list[str]] = []

    async def rest(self, method: str) -> None:
        """Wait, and record the methods that run at the same time."""
        self.began.append(method)
        self.running.append(method)
        try:
            await asyncio.sleep(0.01)
        finally:
            if len(self.running) > 1:
                self.overlaps.append(tuple(self.running))
            self.running.remove(method)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield records, and wait after each."""
        for number in count(1):
            yield task.record(str(number), {"p": 1}, {"at": number})
            await self.rest("read")

    async def acked(self, task: SourceRun, record: Any, metadata: Any) -> None:
        """Note the call and rest."""
        del task, record, metadata
        await self.rest("acked")

    async def committed(self, task: SourceRun) -> None:
        """Note the call and rest."""
        del task
        await self.rest("committed")

    async def update_offsets(self, task: SourceRun, offsets: Any) -> None:  # type: ignore[override]
        """Note the call and rest."""
        del task, offsets
        await self.rest("hook")


async def test_methods_run_one_after_another() -> None:
    """No method of a source is called while another one waits in an `await`.

    Only `update_offsets` may run while `read` waits.
    """
    methods = {"read", "acked", "committed", "hook"}
    async with running(RestlessSource, settings=Settings(profile="kip")) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(RestlessSource)))
        await until(lambda: methods <= {*RestlessSource.began[40:]})
    assert {*RestlessSource.overlaps} <= {("read", "hook"), ("hook", "read")}


class FailingHooks(Source):
    """Source whose `acked` and `committed` raise, and whose `read` waits for the test."""

    config = (key("topic"),)
    released: ClassVar[threading.Event] = threading.Event()

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a record, wait in an `await` until the test continues, then rest."""
        yield task.record("1", {"p": 1}, {"at": 1})
        while not self.released.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.002)
        while True:
            yield task.idle(0.01)

    def acked(self, task: SourceRun, record: Any, metadata: Any) -> None:
        """Raise an error."""
        del task, record, metadata
        raise ValueError("acked")

    async def committed(self, task: SourceRun) -> None:
        """Raise an error."""
        del task
        raise ValueError("committed")


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_failures_of_delayed_hooks_are_logged(*, exactly_once: bool) -> None:
    """The worker logs failures of hooks that are called later, because `read` is in an `await`."""
    FailingHooks.released.clear()
    notices, once = RecordedNotices(), DecisionSettings(exactly_once_source=exactly_once)
    async with running(
        FailingHooks,
        runtime=msgspec.structs.replace(QUICK, exactly_once=exactly_once),
        settings=Settings(exactly_once=exactly_once, worker=once),
        notices=notices,
    ) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(FailingHooks, topic="t")))
        await until(lambda: offsets(worker, "s") == {"{'p': 1}": {"at": 1}})
        assert not notices.warnings
        FailingHooks.released.set()
        await until(lambda: {"acked_hook_failed", "commit_hook_failed"} <= {*notices.warnings})
        await until_state(worker, "s", "RUNNING", "RUNNING")
    assert notices.of("acked_hook_failed") == [{"reason": "ValueError('acked')"}]
    assert notices.of("commit_hook_failed")[0] == {"reason": "ValueError('committed')"}


class AwaitingSource(Source):
    """Source that yields a list of one record, and then waits in an `await` until it is stopped."""

    config = (key("topic"),)
    exactly_once = True

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the list, and wait."""
        yield [task.record("1", {"p": 1}, {"at": 1}, key="k")]
        await asyncio.Event().wait()

    def update_offsets(self, task: SourceRun, offsets: Any) -> None:
        """Add no offsets."""


async def test_offsets_are_committed_during_an_await_after_a_list() -> None:
    """The hook sees the offset of an acknowledged record, so that it is committed."""
    async with running(AwaitingSource, settings=Settings(profile="kip")) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(AwaitingSource, topic="t")))
        await until(lambda: offsets(worker, "s") == {"{'p': 1}": {"at": 1}})


async def test_an_interval_ends_during_an_await_after_a_list() -> None:
    """A transaction with the boundary `interval` does not wait for the next item of `read`."""
    once = DecisionSettings(exactly_once_source=True)
    async with running(
        AwaitingSource,
        runtime=msgspec.structs.replace(QUICK, exactly_once=True),
        settings=Settings(exactly_once=True, worker=once),
    ) as worker:
        boundary = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "100"}
        config = config_of(AwaitingSource, topic="t") | boundary
        await worker.plane.execute(CreateConnector("s", config))
        await until_values(worker.plane.log, "t", [b"1"])


async def test_a_refused_record_fails_a_task_during_an_await() -> None:
    """The task is FAILED although `read` yields nothing after the refusal."""
    log = FaultyLog()
    async with running(AwaitingSource, log=log) as worker:
        log.held.add("t")
        await worker.plane.execute(CreateConnector("s", config_of(AwaitingSource, topic="t")))
        await until(lambda: "t" in log.waiting)
        await asyncio.sleep(0.05)  # the next poll begins
        log.refused_keys.add(b"k")
        log.release("t")
        await until_state(worker, "s", "RUNNING", "FAILED")


class FailingSource(Source):
    """Source that fails in the method its config names."""

    config = (key("topic"), key("at", default="read"))
    splits: ClassVar[list[str]] = []
    """The value `at` of each call of `split`."""

    def split(self, config: Any, limit: int) -> Any:
        """Raise, return nonsense, or return one config, as `at` says."""
        del limit
        self.splits.append(config["at"])
        if config["at"] == "split":
            raise ValueError("no split")
        return {"nonsense": 1} if config["at"] == "nonsense" else [config]

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Fail in one of many ways."""
        match task.config["at"]:
            case "read":
                raise ValueError("the author's line")
            case "exit":
                raise SystemExit(3)
            case "item":
                yield 42
            case "offset":
                nested: Any = {"a": [1]}
                yield task.record("x", nested, {"b": 1})
            case "topic":
                yield task.record("x", topic="")
        yield task.idle(0.01)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("read", "the author's line"),
        ("exit", "SystemExit(3)"),
        ("item", "yielded int"),
        ("offset", "Offsets may only contain primitive types as values, but field a"),
        ("topic", "for the topic ''"),
    ],
)
async def test_a_failing_task_is_reported(at: str, words: str) -> None:
    """The status has the trace with the author's line; the connector and other tasks run on."""
    async with running(FailingSource, CountingSource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await plane.execute(CreateConnector("bad", config_of(FailingSource, topic="b", at=at)))
        await until_state(worker, "bad", "RUNNING", "FAILED")
        trace = plane.state.status.tasks["bad"][0].trace
        assert trace is not None
        assert words in trace
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")


class BreakingSource(Source):
    """Source that yields two records, and then fails or yields an invalid item."""

    config = (key("topic"), key("item", default=""))
    exactly_once = True
    at = 0

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield numbers from the committed one on; break at the third."""
        part = {"p": 1}
        first = int(str((task.offset(part) or {"at": 0})["at"])) + 1
        for number in range(first, 3):
            self.at = number
            yield task.record(str(number), part, {"at": number})
        self.at = 3
        if task.config["item"]:
            yield task.config["item"]
        raise ValueError("bad line")

    def update_offsets(self, *_: Any) -> Any:
        """Return the position of `read`, once there is one."""
        return [({"p": 1}, {"at": self.at})] if self.at else []


@pytest.mark.parametrize("item", ["", "invalid"])
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_records_before_a_failure_of_read_are_sent(*, exactly_once: bool, item: str) -> None:
    """The log has each record once, with its offset; a restart fails at the same place.

    The hook `update_offsets` adds no offset of the place that has failed.
    """
    once = DecisionSettings(exactly_once_source=exactly_once)
    async with running(
        BreakingSource,
        runtime=msgspec.structs.replace(QUICK, exactly_once=exactly_once),
        settings=Settings(exactly_once=exactly_once, worker=once, profile="kip"),
    ) as worker:
        config = config_of(BreakingSource, topic="t", item=item)
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert await values_in(worker.plane.log, "t") == [b"1", b"2"]
        assert offsets(worker, "s") == {"{'p': 1}": {"at": 2}}
        await worker.plane.execute(RestartTask("s", 0))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert await values_in(worker.plane.log, "t") == [b"1", b"2"]


async def test_task_configs_are_requested_again() -> None:
    """A connector whose `split` raises stays RUNNING without tasks, and is asked again."""
    async with running(FailingSource) as worker:
        plane = worker.plane
        for at in ("split", "nonsense"):
            await plane.execute(CreateConnector(at, config_of(FailingSource, topic="b", at=at)))
            await until(lambda at=at: FailingSource.splits.count(at) >= 3)  # type: ignore[misc]
            await until_state(worker, at, "RUNNING")
            await plane.execute(StopConnector(at))
            await until_state(worker, at, "STOPPED")


class Hanging(Source):
    """Blocks its thread for longer than any test."""

    config = (key("topic"),)

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Block the thread for a minute."""
        time.sleep(60)
        yield task.idle()


async def test_a_hanging_task_is_abandoned() -> None:
    """A stop returns; the hanging task is abandoned, and a notice names it; others run on."""
    notices = RecordedNotices()
    async with running(Hanging, CountingSource, runtime=ABANDONING, notices=notices) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("h", config_of(Hanging, topic="h")))
        await until_state(worker, "h", "RUNNING", "RUNNING")
        await plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await until_values(plane.log, "t", [b"1", b"2", b"3"])
        await plane.execute(StopConnector("h"))
        await until(lambda: _state_of(worker, "h") == "STOPPED")
        left_behind = await until(lambda: notices.of("task_left_behind"))
        assert left_behind == [{"connector": "h", "task": 0}]
        assert task_states(worker, "n") == ["RUNNING"]


def _state_of(worker: Any, name: str) -> str:
    status = connector_status(worker, name)
    return "" if status is None else status.state.value


async def test_a_start_that_throws_answers_the_restart() -> None:
    """The restart of a connector that cannot be made is refused with its reason."""
    async with running(Unmade) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("u", config_of(Unmade, topic="t")))
        await until_state(worker, "u", "FAILED")
        with pytest.raises(Refusal, match="Failed to start connector: u"):
            await plane.execute(RestartConnector("u"))


class Unmade(CountingSource):
    """Source whose instance cannot be created."""

    def __init__(self) -> None:
        raise RuntimeError("no instance")


async def test_topics_are_created_with_the_wanted_partitions() -> None:
    """`topic.creation.*` on a log of our own: the first group that matches counts (KIP-158)."""
    groups = {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "wide",
        "topic.creation.wide.include": "w.*",
        "topic.creation.wide.partitions": "4",
    }
    async with running(CountingSource) as worker:
        for topic in ("wide", "plain"):
            config = config_of(CountingSource, topic=topic) | groups
            await worker.plane.execute(CreateConnector(topic, config))
            await until(partial(offsets, worker, topic))
        partitions = await worker.plane.log.topics()
    assert (partitions["wide"], partitions["plain"]) == (4, 2)


async def test_settings_of_a_producer_without_effect_are_named() -> None:
    """A log of our own has no producer with settings: one warning per task names them."""
    notices = RecordedNotices()
    config = config_of(CountingSource, topic="t") | {"producer.override.linger.ms": "5"}
    async with running(CountingSource, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    warned = notices.of("client_settings_without_effect")
    assert warned == [{"task": "s-0", "settings": "producer.override.linger.ms"}]
