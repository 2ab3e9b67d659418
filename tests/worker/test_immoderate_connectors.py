"""Connectors that change the worker's objects, are huge, print, or exit the process."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import (
    Sink,
    SinkRecord,
    SinkTaskContext,
    Source,
    key,
)
from controlplane.connect.records import SourceRecord
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    PauseConnector,
    StopConnector,
)
from controlplane.logs.log import Log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from tests.conftest import PROVE
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import (
    RAISING,
    CountingOn,
    act,
    calls,
    counted,
    create_bad,
    delete,
    ended,
    group_offsets,
    plan,
    released,
    rest_of,
    with_neighbour,
)
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    offsets,
    produce,
    task_states,
    until,
    until_state,
    values_in,
)

# --- changing what is not theirs ------------------------------------------------------------------


class Mutating(Source):
    """Changes all objects that it gets from the worker or has returned to it."""

    config = (key("topic"),)

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Empty the config, and change the task configs afterwards."""
        del limit
        made = dict(config)
        config.clear()
        return [made]

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield records with the same dicts, which change from one to the next."""
        partition, offset = {"p": 1}, {"at": 0}
        for number in range(1, 4):
            offset["at"] = number
            yield task.record(str(number), partition, offset)
        offset["at"] = 99
        partition["p"] = 99
        task.config.clear()  # type: ignore[attr-defined]
        while True:
            yield task.idle(0.01)

    def update_offsets(self, task: SourceRun, offsets: Any) -> None:
        """Change the offsets that are about to be committed."""
        del task
        for partition, offset in offsets:
            partition["p"] = 98
            offset["at"] = 98
        offsets.clear()

    def acked(self, task: SourceRun, record: SourceRecord, metadata: Any) -> None:
        """Change the record that was sent."""
        del task, metadata
        record.source_partition["p"] = 97  # type: ignore[index]
        record.source_offset["at"] = 97  # type: ignore[index]


async def test_a_source_that_changes_everything_commits_the_last_offset() -> None:
    """The committed offset is that of the last record."""
    async with with_neighbour(Mutating) as worker:
        await create_bad(worker, Mutating, topic="bad")
        await until(lambda: offsets(worker, "bad") == {"{'p': 1}": {"at": 3}})
        assert await values_in(worker.plane.log, "bad") == [b"1", b"2", b"3"]
        await worker.plane.execute(PauseConnector("bad"))
        await until_state(worker, "bad", "PAUSED", "PAUSED")
        assert offsets(worker, "bad") == {"{'p': 1}": {"at": 3}}
        config = worker.plane.state.config.connectors["bad"]
        assert config == {"name": "bad", **config_of(Mutating, topic="bad")}


class MutatingSink(Sink):
    """Empties and changes all objects that it gets from the worker."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values, then clear records and config."""
        calls.extend(str(record.value) for record in records)
        records.clear()  # type: ignore[attr-defined]
        task.config.clear()  # type: ignore[attr-defined]

    def flush(self, task: SinkTaskContext, offsets: Any) -> None:
        """Add and change offsets of the worker's map."""
        del task
        offsets[("t", 0)] = 1_000
        offsets[("other", 0)] = 5

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> None:
        """Change the offsets, and let `flush` decide."""
        del task
        offsets.clear()


async def test_a_sink_that_changes_everything_commits_the_last_offset() -> None:
    """The committed offset is the one behind the last record."""
    async with with_neighbour(MutatingSink) as worker:
        await create_bad(worker, MutatingSink)
        await until(lambda: group_offsets(worker) == {("t", 0): 2})
        await produce(worker.plane.log, "t", "c")
        await until(lambda: group_offsets(worker) == {("t", 0): 3})
        assert calls == ["a", "b", "c"]


# --- sizes ----------------------------------------------------------------------------------------


class Wide(Source):
    """Yields a record for each of many source partitions, in one list."""

    config = (key("count", "INT"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a list with a record for each partition."""
        yield [
            task.record("x", {"p": number}, {"at": 1}, topic="bad")
            for number in range(int(task.config["count"]))
        ]
        while True:
            yield task.idle(0.05)


PARTITIONS = 1_000_000 if PROVE else 5_000
"""Number of source partitions of one task."""

ANSWERS = 10
"""Least number of REST answers while the offsets of all partitions are written."""


@pytest.mark.slow
async def test_very_many_partitions_get_their_offsets() -> None:
    """Each partition gets its offset; neighbour and REST continue, with many answers meanwhile."""
    answers = 0
    async with with_neighbour(Wide) as worker:
        await create_bad(worker, Wide, count=str(PARTITIONS))
        async with rest_of(worker) as client:
            topic = worker.plane.state.topics.offsets
            while sum((await worker.plane.log.ends([topic]))[topic]) < PARTITIONS:
                assert (await client.get("/connectors/good/status")).status_code == 200
                answers += 1
                await asyncio.sleep(0.001)
        assert answers >= ANSWERS
        assert len(await values_in(worker.plane.log, "bad")) == PARTITIONS
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        assert len(offsets(worker, "bad")) == PARTITIONS


class Sized(CountingOn):
    """Keeps the size of its config, and hangs until `released`."""

    config = (key("large", default=""),)

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Keep the size of the config value `large`, and hang."""
        calls.append(str(len(config["large"])))
        released.wait(PATIENCE_S)
        ended.append("split")
        return super().split(config, limit)


async def test_a_config_of_a_mebibyte_reaches_its_task() -> None:
    """The list of connectors answers while the connector hangs; its task config has the value."""
    await _check_a_mebibyte(MemoryLog())


async def test_a_config_of_a_mebibyte_reaches_its_task_on_sqlite(tmp_path: Path) -> None:
    """A log in a file has the same effect."""
    log = await SqliteLog.open(tmp_path / "log.db")
    try:
        await _check_a_mebibyte(log)
    finally:
        await log.close()


async def _check_a_mebibyte(log: Log) -> None:
    async with with_neighbour(Sized, log=log) as worker:
        await create_bad(worker, Sized, large="x" * 2**20)
        await until(lambda: calls == [str(2**20)])
        async with rest_of(worker) as client:
            assert (await client.get("/connectors?expand=info&expand=status")).status_code == 200
        assert ended == []
        released.set()
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        assert len(worker.plane.state.config.tasks["bad"][0]["large"] or "") == 2**20
        async with rest_of(worker) as client:
            assert (await client.get("/connectors?expand=info&expand=status")).status_code == 200
        await delete(worker, "bad")


class Many(CountingOn):
    """Requests many more tasks than `tasks.max`."""

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return 50,000 task configs."""
        del limit
        return [config] * 50_000


async def test_too_many_tasks_fail_the_connector() -> None:
    """The connector is FAILED with Kafka's message; no task is published."""
    async with with_neighbour(Many) as worker:
        await create_bad(worker, Many)
        await until_state(worker, "bad", "FAILED")
        status = connector_status(worker, "bad")
        assert "has generated 50000 tasks, which is greater than 1" in str(status and status.trace)
        assert worker.plane.state.config.tasks.get("bad", {}) == {}


class Printing(CountingOn):
    """Source that prints before each record."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Print a line before each item."""
        async for item in super().read(task):
            print("printed by a connector")  # noqa: T201 - the test is about printing
            yield item


async def test_printed_text_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed text goes to stdout, and into no record, status or response."""
    async with with_neighbour(Printing) as worker:
        await create_bad(worker, Printing)
        await until(lambda: "{'good': 1}" in offsets(worker, "bad"))
        async with rest_of(worker) as client:
            assert "printed" not in (await client.get("/connectors/bad/status")).text
        assert b"printed by a connector" not in await values_in(worker.plane.log, "good")
    assert "printed by a connector" in capsys.readouterr().out


class Watching(CountingOn):
    """Source that misbehaves in `watch`, when the test sets `plan["begin"]`."""

    def watch(self, *_: Any) -> Any:
        """Misbehave if the plan names `watch`."""
        plan["begin"].wait(PATIENCE_S)
        return act("watch")


@pytest.mark.parametrize("how", RAISING)
async def test_a_watch_that_raises_fails_only_the_connector(how: str) -> None:
    """The connector is FAILED, and its task continues, as in Kafka after `raiseError`.

    The connector can be deleted.
    """
    plan.update(where="watch", how=how, begin=threading.Event())
    async with with_neighbour(Watching) as worker:
        await create_bad(worker, Watching)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        plan["begin"].set()
        await until_state(worker, "bad", "FAILED", "RUNNING")
        # A stopping task would commit only the few records that it has already read.
        before = counted(worker, "bad")
        await until(lambda: counted(worker, "bad") > before + 10)
        assert task_states(worker, "bad") == ["RUNNING"]
        await delete(worker, "bad")


class AsyncWatching(CountingOn):
    """Watches in a coroutine with a `finally`."""

    async def watch(self, *_: Any) -> None:
        """Wait, and keep how it ended."""
        calls.append("watching")
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            calls.append("cleaned up")


async def test_a_watch_is_cancelled() -> None:
    """The `finally` of a coroutine runs when the connector stops."""
    async with with_neighbour(AsyncWatching) as worker:
        await create_bad(worker, AsyncWatching)
        await until(lambda: calls == ["watching"])
        await worker.plane.execute(StopConnector("bad"))
        await until(lambda: calls == ["watching", "cleaned up"])


class Background(CountingOn):
    """Starts an own asyncio task that exits the process."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Start a background task that exits, then count."""

        async def exit_soon() -> None:
            sys.exit(3)

        self.exiting = asyncio.create_task(exit_soon())
        async for item in super().read(task):
            yield item
            if self.exiting.done():
                self.exiting.exception()


async def test_an_exit_in_a_background_task_ends_no_process() -> None:
    """An exit in a background task ends neither process nor task thread."""
    async with with_neighbour(Background) as worker:
        await create_bad(worker, Background)
        await until(lambda: offsets(worker, "bad").get("{'good': 1}", {"at": 0})["at"] > 3)
        assert task_states(worker, "bad") == ["RUNNING"]
