"""Connectors that return nonsense are FAILED with a clear message; nothing is committed."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from controlplane.connect import (
    Source,
)
from controlplane.connect.source import Idle, Mark
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import (
    BadSink,
    BadSource,
    calls,
    create_bad,
    delete,
    ended,
    group_offsets,
    plan,
    record,
    released,
    rest_of,
    with_neighbour,
)
from tests.worker.worker_fixture import (
    RecordedNotices,
    offsets,
    task_trace,
    until,
    until_state,
    values_in,
)

pytestmark = pytest.mark.slow

# --- nonsense -------------------------------------------------------------------------------------


class Blocking:
    """Iterable whose iteration blocks until `released`."""

    def __iter__(self) -> Iterator[Any]:
        """Block until the test sets `released`."""
        released.wait(PATIENCE_S)
        ended.append("iteration")
        return iter(())


NO_RECORDS = [
    5,
    "text",
    b"bytes",
    [5],
    [None],
    {"a": 1},
    object(),
    [record(topic="")],
    [record(topic=None)],
    [record(source_partition="p")],
    [record(source_partition={"p": {}})],
    [record(source_partition={1: "p"})],
    [record(source_offset={"at": [1]})],
    [record(source_offset={"at": 2**64})],
    [record(source_offset={"at": object()})],
    [record(kafka_partition=7)],
    [record(kafka_partition=-1)],
    [record(timestamp="now")],
    [record(headers=None)],
    [record(headers=("h",))],
    [record(topic="no such/topic?")],
]


def case(value: object) -> str:
    """Name of a case that is equal in each process: without memory addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize("returned", NO_RECORDS, ids=case)
async def test_nonsense_of_a_poll_fails_the_task(returned: Any) -> None:
    """The task is FAILED; no record and no offset of the batch is in the log."""
    plan.update(where="task.poll", how="return", returned=returned)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}
        assert await values_in(worker.plane.log, "bad") == []
        await delete(worker, "bad")


async def test_a_hanging_result_blocks_only_the_authors_thread() -> None:
    """A hanging result of `poll` blocks only the author's thread, which reads it."""
    plan.update(where="task.poll", how="return", returned=Blocking())
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        async with rest_of(worker) as client:
            assert (await client.get("/connectors/bad/status")).status_code == 200
            assert ended == []
        await delete(worker, "bad")
        assert ended == []


@pytest.mark.parametrize(
    "returned",
    [5, "text", [5], [(5,)], [({"p": 1}, 5)], [({"p": {}}, None)], {"p": {"at": {}}}, [(1, 2, 3)]],
    ids=case,
)
async def test_nonsense_of_update_offsets_fails_the_task(returned: Any) -> None:
    """The task is FAILED, and none of its offsets is committed (KIP-910)."""
    plan.update(where="task.update_offsets", how="return", returned=returned)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}


@pytest.mark.parametrize("returned", [None, 5, "text", [5], [{1: "x"}], [{"x": 1}], [None]])
async def test_task_configs_that_are_nonsense_are_not_published(returned: Any) -> None:
    """No task config is published; the worker asks again, as Kafka's does."""
    notices = RecordedNotices()
    plan.update(where="connector.task_configs", how="return", returned=returned)
    async with with_neighbour(BadSource, notices=notices) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: notices.of("task_configs_not_published"))
        assert (
            "BadSource.task_configs returned"
            in notices.of("task_configs_not_published")[0]["reason"]
        )
        assert worker.plane.state.config.tasks.get("bad", {}) == {}
        plan.clear()
        await until_state(worker, "bad", "RUNNING", "RUNNING")


async def test_task_configs_that_no_worker_could_read_are_reported() -> None:
    """No reader accepts a key of more than 50,000 bytes; the worker asks again."""
    notices = RecordedNotices()
    plan.update(where="connector.task_configs", how="return", returned=[{"k" * 50_001: "x"}])
    async with with_neighbour(BadSource, notices=notices) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: notices.of("task_configs_not_published"))
        assert "has more than 50000 bytes" in notices.of("task_configs_not_published")[0]["reason"]
        assert worker.plane.state.config.tasks.get("bad", {}) == {}
        plan.clear()
        await until_state(worker, "bad", "RUNNING", "RUNNING")


@pytest.mark.parametrize(
    "returned",
    [
        5,
        "text",
        {"t": 1},
        {("t", 0): -1},
        {("t", 0): "1"},
        {("t", 0): None},
        {("t",): 1},
        {("t", 0): 10**30},
        {("other", 0): 1},
        {("t", 0): 3},
    ],
    ids=case,
)
async def test_nonsense_of_a_pre_commit_is_not_committed(returned: Any) -> None:
    """The worker commits no nonsense, no offsets of other partitions or unread records."""
    plan.update(where="sink.pre_commit", how="return", returned=returned)
    async with with_neighbour(BadSink) as worker:
        await create_bad(worker, BadSink)
        await until(lambda: len(calls) > 3)
        assert group_offsets(worker) == {}
        await delete(worker, "bad")
        assert group_offsets(worker) == {}


@pytest.mark.parametrize(
    "where", ["task.start", "task.commit", "task.commit_record", "task.stop", "connector.start"]
)
async def test_results_without_a_meaning_are_ignored(where: str) -> None:
    """The worker ignores the results of some methods."""
    plan.update(where=where, how="return", returned=object())
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await until(lambda: offsets(worker, "bad") == {"{'p': 1}": {"at": 1}})


class BadReader(Source):
    """Yields or returns the nonsense of the plan."""

    def read(self, *_: Any) -> Any:
        """Return a generator or the nonsense of the test."""
        if plan["how"] == "read":
            return plan["returned"]() if callable(plan["returned"]) else plan["returned"]
        return self._items()

    async def _items(self) -> AsyncIterator[Any]:
        yield plan["returned"]
        while True:
            yield Idle(0.01)


async def _coroutine() -> None:
    """Coroutine, and so no generator."""


@pytest.mark.parametrize("returned", [None, 5, [record()], _coroutine], ids=case)
async def test_a_read_that_is_no_generator_fails_the_task(returned: Any) -> None:
    """The task is FAILED with a clear message."""
    plan.update(how="read", returned=returned)
    async with with_neighbour(BadReader) as worker:
        await create_bad(worker, BadReader)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "BadReader.read is no generator" in task_trace(worker, "bad")


@pytest.mark.parametrize(
    "item",
    [
        None,
        5,
        "text",
        {"a": 1},
        [5],
        Idle("x"),  # type: ignore[arg-type]
        Idle(float("nan")),
        Mark(5),  # type: ignore[arg-type]
        Mark((5,)),  # type: ignore[arg-type]
        Mark((({"p": {}}, None),)),  # type: ignore[dict-item]
        record(source_offset={"at": {}}),
        [record(source_partition={"p": b"x", "q": ()})],
    ],
    ids=case,
)
async def test_yielded_nonsense_fails_the_task(item: Any) -> None:
    """The task is FAILED; nothing is committed."""
    plan.update(how="yield", returned=item)
    async with with_neighbour(BadReader) as worker:
        await create_bad(worker, BadReader)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}
