"""Regression tests: failures between two steps, callers that share a key or disconnect."""

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from controlplane.controller import CommandLimits, NoExternalSystems, TimedOut
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    PatchConfig,
    PauseConnector,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.order import Ends
from controlplane.core.plan import AnyAction, HookOutcome, HookSuccess
from controlplane.core.plugins import Plugin
from controlplane.core.records import Target
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.plugins import catalogued
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    configured,
    plane_on,
    raw,
    two_connectors,
    written_texts,
)
from tests.patience import NEVER_RETRIED, PATIENCE_S

SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "t"}
STOP = StopConnector("orders")


@pytest.fixture
async def log() -> MemoryLog:
    """A log in which `orders` and `users` are configured."""
    return await two_connectors()


class UnreachableGroups(NoExternalSystems):
    """Surroundings with unreachable consumer groups."""

    def __init__(self) -> None:
        self.attempts = 0

    async def perform(self, action: AnyAction) -> None:
        """Count the attempt and raise TimeoutError, as a socket does."""
        del action
        self.attempts += 1
        raise TimeoutError


async def test_any_exception_of_an_action_fails_the_command() -> None:
    """Any exception of an outside action fails the command for good."""
    log, world = MemoryLog(), UnreachableGroups()
    alter = AlterOffsets(
        "sink", (OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 3}),)
    )
    async with plane_on(log, outside=world, plugins=None) as plane:
        await plane.execute(CreateConnector("sink", SINK))
        await plane.execute(StopConnector("sink"))
        with pytest.raises(Refusal, match="TimeoutError"):
            await plane.execute(alter, key="k")
        assert plane.state.commands["k"].finished is not None
    async with plane_on(log, outside=world, plugins=None) as plane:
        assert world.attempts == 1


class ForgottenReturn(NoExternalSystems):
    """Actions whose author has forgotten to return the offsets of a group."""

    async def group_offsets(self, group: str, admin: Any = None) -> Any:
        """Return None."""


async def test_missing_group_offsets_fail_the_command() -> None:
    """The command is refused; the decision does not ask for the offsets without end."""
    async with plane_on(MemoryLog(), outside=ForgottenReturn(), plugins=None) as plane:
        await plane.execute(CreateConnector("sink", SINK))
        await plane.execute(StopConnector("sink"))
        with pytest.raises(Refusal, match="group_offsets returned None"):
            await plane.execute(ResetOffsets("sink"))


async def test_a_step_that_can_never_succeed_fails_its_command(tmp_path: Path) -> None:
    """A step that can never succeed fails its command; the plane goes on, and opens again."""
    config = '{"properties":{"connector.class":"FileStreamSource","topic":"t","file":"f",'
    config += '"offsets.storage.topic":"no topic","name":"odd"}}'
    log = await SqliteLog.open(tmp_path / "state.db")
    change = OffsetChange({"filename": "f"}, {"position": 1})
    async with plane_on(log, plugins=None) as plane:
        changes = plane.watch()
        coming = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await log.append([raw(CONFIG, "connector-odd", config)])
        await coming
        await plane.execute(StopConnector("odd"))
        with pytest.raises(Refusal):
            await plane.execute(AlterOffsets("odd", (change,)), key="k")
        await plane.execute(PauseConnector("odd"))
    async with plane_on(log, plugins=None) as plane:
        assert not [command for command in plane.state.commands.values() if command.unfinished]
    await log.close()


async def test_callers_that_share_a_key_get_one_outcome(log: MemoryLog) -> None:
    """One of several callers with the same key may leave; the others get the outcome."""
    go_on = asyncio.Event()

    async def stepped(*_: object) -> None:
        await go_on.wait()

    async with plane_on(log, stepped=stepped) as plane:
        first = asyncio.create_task(plane.execute(STOP))
        await asyncio.sleep(0.01)
        ask = [asyncio.create_task(plane.execute(ResumeConnector("orders"), key="k")) for _ in "ab"]
        await asyncio.sleep(0.01)
        ask[0].cancel()
        go_on.set()
        await asyncio.gather(first, ask[1])
        assert plane.state.commands["k"].finished is not None


async def test_close_ends_waiting_callers_and_watchers(log: MemoryLog) -> None:
    """`close` ends waiting callers, later callers and watchers."""
    go_on = asyncio.Event()

    async def stepped(*_: object) -> None:
        await go_on.wait()

    async def count_changes(plane: ControlPlane) -> int:
        return len([change async for change in plane.watch()])

    async with plane_on(log, stepped=stepped) as plane:
        watcher = asyncio.create_task(count_changes(plane))
        first = asyncio.create_task(plane.execute(STOP))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(plane.execute(ResumeConnector("orders")))
        await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.01, go_on.set)
    await first
    for late in (second, plane.execute(STOP)):
        with pytest.raises(LogUnavailable, match="Worker is shutting down"):
            await late
    assert await watcher == 1


async def test_every_change_is_seen(log: MemoryLog) -> None:
    """A slow watcher also gets every change."""
    async with plane_on(log) as plane:
        states_seen: list[Any] = []

        async def watch() -> None:
            async for change in plane.watch():
                states_seen.append(change.after)
                await asyncio.sleep(0.001)

        watcher = asyncio.create_task(watch())
        await asyncio.sleep(0)
        for _ in range(10):
            await plane.execute(PauseConnector("orders"))
            await plane.execute(ResumeConnector("orders"))
    await watcher
    assert states_seen == ["PAUSED", "STARTED"] * 10


async def test_slow_hooks_block_no_other_connector(log: MemoryLog) -> None:
    """Hooks that never return block neither other connectors nor the closing of the plane."""
    held = threading.Event()

    def hook(config: Mapping[str, Any], offsets: Any) -> HookOutcome:
        del config, offsets
        held.wait(60)
        return HookSuccess(definite=True)

    slow = Plugin(class_name="lab.Source", type="source", version="1", hook=hook)
    limits = CommandLimits(request_timeout_ms=1_000)
    names = [f"slow-{number}" for number in range(20)]
    await log.append([configured(name) for name in names])
    settings, plugins = Settings(limits=limits), catalogued(more=[slow])
    try:
        async with asyncio.timeout(PATIENCE_S), plane_on(log, settings, plugins=plugins) as plane:
            await asyncio.gather(*(plane.execute(StopConnector(name)) for name in names))
            waiting = [plane.execute(ResetOffsets(name)) for name in names]
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {TimedOut}
            await plane.execute(PauseConnector("users"))
    finally:
        held.set()


class UnreadableLog(MemoryLog):
    """A log that refuses some reads."""

    refusals = 0
    """Number of reads that the log still refuses."""

    async def topics(self) -> Mapping[str, int]:
        """Topics and their numbers of partitions, once the log is back."""
        self._refuse()
        return await super().topics()

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Ends of the partitions, once the log is back."""
        self._refuse()
        return await super().ends(topics)

    def _refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise LogUnavailable("it is away")


@pytest.mark.parametrize("patched", [False, True], ids=["writes", "reads-first"])
async def test_a_command_waits_for_a_log_that_cannot_be_read(*, patched: bool) -> None:
    """A command waits for an unreadable log, as it does for failing writes."""
    log = UnreadableLog()
    command = PatchConfig("orders", {"topic": "t"}) if patched else STOP
    for topic, partitions in ((CONFIG, 1), ("connect-offsets", 5), ("connect-status", 5)):
        await log.create_topic(topic, partitions)
    await log.append([configured("orders")])
    async with plane_on(log, Settings(limits=CommandLimits(retry_first_ms=1))) as plane:
        log.refusals = 2
        await plane.execute(command)
        assert not log.refusals


class RecreatedTopics(MemoryLog):
    """A log that reports many partitions of the offsets topic, until it is recreated."""

    recreated = True

    async def topics(self) -> Mapping[str, int]:
        """Topics and their numbers of partitions, as they were before."""
        topics = await super().topics()
        return topics if self.recreated else {**topics, "connect-offsets": 10_000}


async def test_the_partitions_of_a_recreated_topic_are_counted_anew() -> None:
    """After the log has refused a record, the writer counts the partitions again."""
    log = RecreatedTopics()
    alter = AlterOffsets("orders", (OffsetChange({"filename": "f"}, {"position": 1}),))
    source = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    async with plane_on(log) as plane:
        log.recreated = False
        config = {**source, "file": "f", "topic": "t"}
        create = CreateConnector("orders", config, initial_state=Target.STOPPED)
        await plane.execute(create)
        log.recreated = True
        with pytest.raises(Refusal, match="connect-offsets' has 25 partitions"):
            await plane.execute(alter)
        await plane.execute(alter)
        assert len(await written_texts(log, "connect-offsets")) == 1


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
async def test_writes_to_a_lost_file_are_not_acknowledged(
    tmp_path: Path, *, replaced: bool
) -> None:
    """Writes to a deleted or replaced file are not acknowledged."""
    path = tmp_path / "state.db"
    log = await SqliteLog.open(path)
    async with plane_on(log, Settings(limits=NEVER_RETRIED)) as plane:
        await plane.execute(CreateConnector("orders", {"connector.class": "lab.Source"}))
        before = await written_texts(log, CONFIG)
        for moved in ("-wal", ""):
            (tmp_path / f"state.db{moved}").rename(tmp_path / f"elsewhere.db{moved}")
        if replaced:
            path.write_bytes(b"")
        with pytest.raises(LogError, match="deleted or replaced: open it again"):
            await plane.execute(STOP)
    await log.close()
    elsewhere = await SqliteLog.open(tmp_path / "elsewhere.db")
    assert await written_texts(elsewhere, CONFIG) == before
    await elsewhere.close()


def nested(levels: int) -> list[Any]:
    """Return `levels` lists, each within the next."""
    whole: list[Any] = []
    for _ in range(levels):
        whole = [whole]
    return whole


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("stop", "'stop' is no command: make one of those in controlplane.commands"),
        (StopConnector, "StopConnector'> is no command: make one"),
        (StopConnector(5), "StopConnector cannot hold this: Expected `str`, got `int`"),  # type: ignore[arg-type]
        (
            CreateConnector("a", {"k": object()}),  # type: ignore[dict-item]
            "CreateConnector cannot hold this: a value of type object cannot be stored as JSON",
        ),
        (
            AlterOffsets("orders", (OffsetChange({"p": nested(100_000)}),)),
            "AlterOffsets cannot hold this: maximum recursion depth",
        ),
    ],
)
async def test_arguments_that_are_no_command_raise_type_error(
    log: MemoryLog, odd: Any, message: str
) -> None:
    """An argument that is no command is refused before the log is read or written."""
    async with plane_on(log) as plane:
        for ask in (plane.execute, plane.plan):
            with pytest.raises(TypeError, match=re.escape(message)):
                await ask(odd)


async def test_a_tuple_is_a_list(log: MemoryLog) -> None:
    """A tuple counts as a list: the plane refuses both within a partition."""
    plugins = catalogued(b'[{"class":"lab.Source","type":"source"}]')
    async with plane_on(log, plugins=plugins) as plane:
        await plane.execute(CreateConnector("one", {"connector.class": "lab.Source"}))
        await plane.execute(StopConnector("one"))
        for many in ([1], (1,)):
            with pytest.raises(Refusal, match="but field p contains ARRAY"):
                await plane.execute(AlterOffsets("one", (OffsetChange({"p": many}, {"row": 1}),)))


async def test_principal_and_key_are_text(log: MemoryLog) -> None:
    """An empty key is refused: all callers without a key would share it."""
    async with plane_on(log) as plane:
        before = await written_texts(log, CONFIG, COMMANDS)
        with pytest.raises(TypeError, match="a key must be text, not 5"):
            await plane.execute(STOP, key=5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a principal must be text, not None"):
            await plane.execute(STOP, principal=None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="an idempotency key must not be empty"):
            await plane.execute(STOP, key="")
        assert await written_texts(log, CONFIG, COMMANDS) == before
