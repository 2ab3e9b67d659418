"""Connectors that raise, hang, block, return nonsense or change what they were handed.

Such a connector is FAILED or refused. Its neighbour goes on, REST answers, nothing is committed by
half, and the connector can be deleted.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from controlplane.connect import (
    Sink,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SinkTaskContext,
    Source,
    SourceConnector,
    SourceTask,
    key,
)
from controlplane.connect.records import SourceRecord
from controlplane.connect.source import Idle, Mark, SourceRun
from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    config_of,
    connector_status,
    offsets,
    produce,
    running,
    task_states,
    task_trace,
    until,
    until_state,
    values_in,
)

SHORT = msgspec.structs.replace(
    QUICK, task_shutdown_graceful_timeout_ms=100, connector_stop_timeout_ms=100
)
"""Hanging connectors are abandoned soon."""

released = threading.Event()
"""Set at the end of a test: then everything that hangs goes on."""

calls: list[str] = []
"""Places that misbehaved."""

plan: dict[str, Any] = {}
"""Place and kind of the misbehaviour: `where`, `how`, `returned`."""


class Odd(BaseException):
    """Exception that no `except Exception` catches."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    plan.clear()
    calls.clear()
    released.clear()
    yield
    released.set()


def act(place: str, otherwise: Any = None) -> Any:
    """Misbehave, if the plan names this place; else return a sane value."""
    if plan.get("where") != place:
        return otherwise
    calls.append(place)
    match plan["how"]:
        case "raise":
            raise ValueError(f"bad {place}")
        case "exit":
            sys.exit(f"bad {place}")
        case "cancel":
            raise asyncio.CancelledError(f"bad {place}")
        case "odd":
            raise Odd(f"bad {place}")
        case "hang":
            released.wait(PATIENCE_S)
        case "spin":
            while not released.is_set():
                pass
        case "block":
            return _blocking()
        case "return":
            return plan["returned"]
    return otherwise


async def _blocking() -> None:
    """Block the event loop that this runs in."""
    released.wait(PATIENCE_S)


RECORD = SourceRecord(topic="bad", value="v", source_partition={"p": 1}, source_offset={"at": 1})


class BadTask(SourceTask):
    """Misbehaves in the method of the plan; else it returns the same record again and again."""

    def __init__(self) -> None:
        act("task.init")

    def start(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("task.start")

    def poll(self) -> Any:
        """Misbehave or not."""
        threading.Event().wait(0.005)
        return act("task.poll", [RECORD])

    def commit(self) -> Any:
        """Misbehave or not."""
        return act("task.commit")

    def commit_record(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("task.commit_record")

    def update_offsets(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("task.update_offsets")

    def stop(self) -> Any:
        """Misbehave or not."""
        return act("task.stop")


class BadSource(SourceConnector):
    """Misbehaves in the method of the plan."""

    task = BadTask

    def __init__(self) -> None:
        act("connector.init")

    def start(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("connector.start")

    def task_configs(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("connector.task_configs", [{}])

    def stop(self) -> Any:
        """Misbehave or not."""
        return act("connector.stop")


class BadSinkTask(SinkTask):
    """Misbehaves in the method of the plan."""

    def __init__(self) -> None:
        act("sink.init")

    def start(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("sink.start")

    def open(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("sink.open")

    def put(self, records: Any) -> Any:
        """Misbehave or not."""
        return act("sink.put") if records else None

    def flush(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("sink.flush")

    def pre_commit(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("sink.pre_commit")

    def close(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("sink.close")

    def stop(self) -> Any:
        """Misbehave or not."""
        return act("sink.stop")


class BadSink(SinkConnector):
    """Sink with such a task."""

    task = BadSinkTask

    def task_configs(self, limit: int) -> Any:
        """Return one config for each task."""
        return [{}] * limit


class Good(Source):
    """Counts without end."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield numbers."""
        at = 0
        while True:
            at += 1
            yield task.record(str(at), {"good": 1}, {"at": at}, topic="good")
            yield task.idle(0.005)


@asynccontextmanager
async def with_neighbour(
    *classes: type[Any], notices: RecordedNotices | None = None
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with a good neighbour; check at the end that it has not noticed anything."""
    async with running(Good, *classes, runtime=SHORT, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("good", config_of(Good)))
        await until_state(worker, "good", "RUNNING", "RUNNING")
        try:
            yield worker
            before = counted(worker)
            await until(lambda: counted(worker) > before)
            assert task_states(worker, "good") == ["RUNNING"]
        finally:
            released.set()


def counted(worker: ConnectWorker) -> int:
    """Committed number of the neighbour."""
    return int(offsets(worker, "good").get("{'good': 1}", {"at": 0})["at"])


async def delete(worker: ConnectWorker, name: str) -> None:
    """Delete a connector; nothing of it is left."""
    await worker.plane.execute(DeleteConnector(name))
    await until(lambda: connector_status(worker, name) is None and not task_states(worker, name))


@asynccontextmanager
async def rest_of(worker: ConnectWorker) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of the worker's REST API."""
    transport = httpx.ASGITransport(worker.plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
        yield client


def kafka_group(worker: ConnectWorker) -> dict[tuple[str, int], int]:
    """Committed offsets of the bad sink."""
    return dict(worker.groups.committed("connect-bad"))


async def create_bad(worker: ConnectWorker, connector: type[Any], **config: str) -> None:
    """Create the bad connector; a sink gets two records."""
    if issubclass(connector, SinkConnector | Sink):
        await produce(worker.plane.log, "t", "a", "b")
        config["topics"] = "t"
    await worker.plane.execute(CreateConnector("bad", config_of(connector, **config)))


# --- raising --------------------------------------------------------------------------------------

RAISING = ["raise", "exit", "cancel", "odd"]

FAILS_CONNECTOR = ["connector.init", "connector.start"]
FAILS_TASK = ["task.init", "task.start", "task.poll", "task.update_offsets"]
FAILS_SINK = ["sink.init", "sink.start", "sink.open", "sink.put"]


@pytest.mark.parametrize("how", RAISING)
@pytest.mark.parametrize("where", FAILS_CONNECTOR)
async def test_a_connector_that_raises(where: str, how: str) -> None:
    """The connector is FAILED with the author's line; its restart fails, too."""
    plan.update(where=where, how=how)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "FAILED")
        status = connector_status(worker, "bad")
        trace = str(status and status.trace)
        assert f"bad {where}" in trace
        assert "in act" in trace
        async with rest_of(worker) as client:
            answer = await client.post("/connectors/bad/restart")
            assert answer.status_code == 500
        plan.clear()
        await worker.plane.execute(RestartConnector("bad"))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


@pytest.mark.parametrize("how", RAISING)
@pytest.mark.parametrize("where", [*FAILS_TASK, *FAILS_SINK])
async def test_a_task_that_raises(where: str, how: str) -> None:
    """The task is FAILED with the author's line, and runs again after a restart."""
    plan.update(where=where, how=how)
    connector = BadSink if where in FAILS_SINK else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert f"bad {where}" in task_trace(worker, "bad")
        assert "in act" in task_trace(worker, "bad")
        assert offsets(worker, "bad") == {}
        assert kafka_group(worker) == {}
        plan.clear()
        await worker.plane.execute(RestartTask("bad", 0))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


@pytest.mark.parametrize("how", RAISING)
@pytest.mark.parametrize(
    ("where", "event"),
    [
        ("task.commit", "commit_hook_failed"),
        ("task.commit_record", "acked_hook_failed"),
        ("connector.task_configs", "task_configs_not_published"),
        ("sink.flush", "sink_not_flushed"),
        ("sink.pre_commit", "sink_not_flushed"),
    ],
)
async def test_what_kafka_only_logs(where: str, event: str, how: str) -> None:
    """Kafka logs these failures; the task goes on, and a sink's offsets stay uncommitted."""
    plan.update(where=where, how=how)
    notices = RecordedNotices()
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink, notices=notices) as worker:
        await create_bad(worker, connector)
        await until(lambda: notices.of(event))
        assert f"bad {where}" in notices.of(event)[0]["reason"]
        assert kafka_group(worker) == {}
        status = connector_status(worker, "bad")
        assert status is not None
        assert status.state.value == "RUNNING"
        assert "FAILED" not in task_states(worker, "bad")
        if where.startswith("task."):
            await until(lambda: offsets(worker, "bad") == {"{'p': 1}": {"at": 1}})
        await delete(worker, "bad")


@pytest.mark.parametrize("how", RAISING)
@pytest.mark.parametrize("where", ["connector.stop", "task.stop", "sink.close", "sink.stop"])
async def test_an_end_that_raises(where: str, how: str) -> None:
    """A stop counts whatever the author's code raises in it."""
    plan.update(where=where, how=how)
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        await until(lambda: calls == [where])
        await worker.plane.execute(ResumeConnector("bad"))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


# --- hanging --------------------------------------------------------------------------------------

HANGING = [
    *FAILS_CONNECTOR,
    "connector.task_configs",
    "connector.stop",
    *FAILS_TASK,
    "task.commit",
    "task.commit_record",
    "task.stop",
    *FAILS_SINK,
    "sink.flush",
    "sink.pre_commit",
    "sink.close",
    "sink.stop",
]


@pytest.mark.parametrize(
    ("where", "how"),
    [
        (where, how)
        for where in HANGING
        for how in ("hang", "block")
        if how == "hang" or not where.endswith("init")  # a constructor is no coroutine
    ],
)
async def test_a_method_that_hangs(where: str, how: str) -> None:
    """REST answers meanwhile; the connector can be stopped and deleted; its thread ends later."""
    plan.update(where=where, how=how)
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        if where.endswith(("stop", "close")):
            await until_state(worker, "bad", "RUNNING", "RUNNING")
            await worker.plane.execute(StopConnector("bad"))
        await until(lambda: calls)
        async with rest_of(worker) as client:
            for path in ("/", "/connectors/bad/status", "/connectors/good/status"):
                assert (await client.get(path)).status_code in {200, 404}
            assert (await client.get("/connectors/good/tasks/0/status")).json()["state"] == (
                "RUNNING"
            )
        await delete(worker, "bad")
        released.set()
        await until(lambda: not threads_of("bad"))


def threads_of(name: str) -> list[str]:
    """Threads of the author's code of a connector."""
    return [thread.name for thread in threading.enumerate() if f" {name}" in thread.name]


async def test_a_busy_loop() -> None:
    """Code that never lets go of the interpreter by itself holds up nobody for long."""
    plan.update(where="task.poll", how="spin")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        async with rest_of(worker) as client:
            assert (await client.get("/connectors/good/status")).status_code == 200
        await delete(worker, "bad")


async def test_a_hanging_task_commits_nothing_after_its_end() -> None:
    """Records that an abandoned poll returns in the end are neither sent nor committed."""
    plan.update(where="task.poll", how="hang")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        plan.clear()
        released.set()
        await until(lambda: not threads_of("task bad"))
        assert await values_in(worker.plane.log, "bad") == []
        assert offsets(worker, "bad") == {}


# --- nonsense -------------------------------------------------------------------------------------


def record(**fields: Any) -> SourceRecord:
    """Record with other values in some fields."""
    return msgspec.structs.replace(RECORD, **fields)


class Blocking:
    """Iterable whose iteration hangs."""

    def __iter__(self) -> Iterator[Any]:
        """Hang."""
        released.wait(PATIENCE_S)
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


@pytest.mark.parametrize("returned", NO_RECORDS, ids=repr)
async def test_a_poll_that_returns_nonsense(returned: Any) -> None:
    """The task is FAILED; no record and no offset of the batch is in the log."""
    plan.update(where="task.poll", how="return", returned=returned)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}
        assert await values_in(worker.plane.log, "bad") == []
        await delete(worker, "bad")


async def test_a_result_that_hangs_when_it_is_read() -> None:
    """The result of `poll` is read in the author's thread."""
    plan.update(where="task.poll", how="return", returned=Blocking())
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        async with rest_of(worker) as client:
            assert (await client.get("/connectors/bad/status")).status_code == 200
        await delete(worker, "bad")


@pytest.mark.parametrize(
    "returned",
    [5, "text", [5], [(5,)], [({"p": 1}, 5)], [({"p": {}}, None)], {"p": {"at": {}}}, [(1, 2, 3)]],
    ids=repr,
)
async def test_update_offsets_that_returns_nonsense(returned: Any) -> None:
    """The task is FAILED, and nothing of it is committed (KIP-910)."""
    plan.update(where="task.update_offsets", how="return", returned=returned)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}


@pytest.mark.parametrize("returned", [None, 5, "text", [5], [{1: "x"}], [{"x": 1}], [None]])
async def test_task_configs_that_are_nonsense(returned: Any) -> None:
    """None is published; the worker asks again, as Kafka's does."""
    notices = RecordedNotices()
    plan.update(where="connector.task_configs", how="return", returned=returned)
    async with with_neighbour(BadSource, notices=notices) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: notices.of("task_configs_not_published"))
        assert "BadSource returned" in notices.of("task_configs_not_published")[0]["reason"]
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
    ids=repr,
)
async def test_a_pre_commit_that_returns_nonsense(returned: Any) -> None:
    """Nothing is committed: neither nonsense, nor offsets of others, nor unread records."""
    plan.update(where="sink.pre_commit", how="return", returned=returned)
    async with with_neighbour(BadSink) as worker:
        await create_bad(worker, BadSink)
        await until(lambda: len(calls) > 3)
        assert kafka_group(worker) == {}
        await delete(worker, "bad")
        assert kafka_group(worker) == {}


@pytest.mark.parametrize(
    "where", ["task.start", "task.commit", "task.commit_record", "task.stop", "connector.start"]
)
async def test_results_without_a_meaning(where: str) -> None:
    """What these methods return is ignored."""
    plan.update(where=where, how="return", returned=object())
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await until(lambda: offsets(worker, "bad") == {"{'p': 1}": {"at": 1}})


class BadReader(Source):
    """Yields or returns what the plan says."""

    def read(self, *_: Any) -> Any:
        """Return a generator, or nonsense."""
        if plan["how"] == "read":
            return plan["returned"]() if callable(plan["returned"]) else plan["returned"]
        return self._items()

    async def _items(self) -> AsyncIterator[Any]:
        yield plan["returned"]
        while True:
            yield Idle(0.01)


async def _coroutine() -> None:
    """Be no generator."""


@pytest.mark.parametrize("returned", [None, 5, [RECORD], _coroutine], ids=str)
async def test_a_read_that_is_no_generator(returned: Any) -> None:
    """The task is FAILED in clear words."""
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
    ids=repr,
)
async def test_a_read_that_yields_nonsense(item: Any) -> None:
    """The task is FAILED; nothing is committed."""
    plan.update(how="yield", returned=item)
    async with with_neighbour(BadReader) as worker:
        await create_bad(worker, BadReader)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert offsets(worker, "bad") == {}


# --- changing what is not theirs ------------------------------------------------------------------


class Mutating(Source):
    """Changes everything that it was handed, and everything that it has handed out."""

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


async def test_a_source_that_changes_everything() -> None:
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
    """Empties and changes everything that it was handed."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Empty the list."""
        calls.extend(str(record.value) for record in records)
        records.clear()  # type: ignore[attr-defined]
        task.config.clear()  # type: ignore[attr-defined]

    def flush(self, task: SinkTaskContext, offsets: Any) -> None:
        """Change the offsets."""
        del task
        offsets[("t", 0)] = 1_000
        offsets[("other", 0)] = 5

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> None:
        """Change the offsets, and let `flush` decide."""
        del task
        offsets.clear()


async def test_a_sink_that_changes_everything() -> None:
    """The committed offset is the one behind the last record."""
    async with with_neighbour(MutatingSink) as worker:
        await create_bad(worker, MutatingSink)
        await until(lambda: kafka_group(worker) == {("t", 0): 2})
        await produce(worker.plane.log, "t", "c")
        await until(lambda: kafka_group(worker) == {("t", 0): 3})
        assert calls == ["a", "b", "c"]


# --- sizes ----------------------------------------------------------------------------------------


class Wide(Source):
    """Yields a record for each of many source partitions, in one list."""

    config = (key("count", "INT"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the list."""
        yield [
            task.record("x", {"p": number}, {"at": 1}, topic="bad")
            for number in range(int(task.config["count"]))
        ]
        while True:
            yield task.idle(0.05)


async def test_a_hundred_thousand_partitions() -> None:
    """Each gets its offset; the neighbour and REST go on."""
    async with with_neighbour(Wide) as worker:
        await create_bad(worker, Wide, count="100000")
        async with rest_of(worker) as client:
            while len(await values_in(worker.plane.log, "bad")) < 100_000:
                assert (await client.get("/connectors/good/status")).status_code == 200
                await asyncio.sleep(0.05)
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        assert len(offsets(worker, "bad")) == 100_000


class Sized(Good):
    """Tells the size of its config."""

    config = (key("large", default=""),)

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Keep the size."""
        calls.append(str(len(config["large"])))
        return super().split(config, limit)


async def test_a_config_of_a_mebibyte() -> None:
    """It runs, and its task config has it, too; the listing of connectors answers."""
    async with with_neighbour(Sized) as worker:
        await create_bad(worker, Sized, large="x" * 2**20)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        assert calls == [str(2**20)]
        assert len(worker.plane.state.config.tasks["bad"][0]["large"] or "") == 2**20
        async with rest_of(worker) as client:
            assert (await client.get("/connectors?expand=info&expand=status")).status_code == 200
        await delete(worker, "bad")


class Many(Good):
    """Wants many more tasks than it may have."""

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return 50,000 configs."""
        del limit
        return [config] * 50_000


async def test_too_many_tasks() -> None:
    """The connector is FAILED in Kafka's words; no task is published."""
    async with with_neighbour(Many) as worker:
        await create_bad(worker, Many)
        await until_state(worker, "bad", "FAILED")
        status = connector_status(worker, "bad")
        assert "has generated 50000 tasks, which is greater than 1" in str(status and status.trace)
        assert worker.plane.state.config.tasks.get("bad", {}) == {}


class Printing(Good):
    """Prints."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Print before each item."""
        async for item in super().read(task):
            print("printed by a connector")  # noqa: T201 - that is the case
            yield item


async def test_a_connector_that_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Its text goes to stdout, and into no record, status or answer."""
    async with with_neighbour(Printing) as worker:
        await create_bad(worker, Printing)
        await until(lambda: "{'good': 1}" in offsets(worker, "bad"))
        async with rest_of(worker) as client:
            assert "printed" not in (await client.get("/connectors/bad/status")).text
        assert b"printed by a connector" not in await values_in(worker.plane.log, "good")
    assert "printed by a connector" in capsys.readouterr().out


class Watching(Good):
    """Raises in `watch`."""

    def watch(self, *_: Any) -> Any:
        """Misbehave or not."""
        return act("watch")


@pytest.mark.parametrize("how", RAISING)
async def test_a_watch_that_raises(how: str) -> None:
    """The connector is FAILED; its tasks go on, as Kafka's do after `raiseError`."""
    plan.update(where="watch", how=how)
    async with with_neighbour(Watching) as worker:
        await create_bad(worker, Watching)
        await until(lambda: _state(worker) == "FAILED")
        await delete(worker, "bad")


def _state(worker: ConnectWorker) -> str:
    status = connector_status(worker, "bad")
    return "" if status is None else status.state.value


class AsyncWatching(Good):
    """Watches in a coroutine that cleans up."""

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


class Background(Good):
    """Starts a task of its own that exits the process."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Start it, then count."""

        async def exit_soon() -> None:
            sys.exit(3)

        self.exiting = asyncio.create_task(exit_soon())
        async for item in super().read(task):
            yield item
            if self.exiting.done():
                self.exiting.exception()


async def test_a_background_task_that_exits() -> None:
    """Neither the process nor the task's thread ends."""
    async with with_neighbour(Background) as worker:
        await create_bad(worker, Background)
        await until(lambda: offsets(worker, "bad").get("{'good': 1}", {"at": 0})["at"] > 3)
        assert task_states(worker, "bad") == ["RUNNING"]
