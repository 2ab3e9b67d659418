"""Idempotency keys: a command runs once, whatever happens in between."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from controlplane.controller import NotWritten
from controlplane.core import views
from controlplane.core.codec import encode_command
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PatchConfig,
    PublishTasks,
    PutConfig,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.plan import Outcome, Step
from controlplane.core.plugins import parse_catalogue
from controlplane.core.records import CommandAccepted, CommandFinished, Target
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.plane import Refusal, Settings
from tests.controller.scene import COMMANDS, CONFIG, configured, plane_on, written_texts
from tests.laws.commands.execution import IMPATIENT
from tests.laws.commands.storage import BreakingMemory, Outage, SeparateBatches
from tests.patience import NEVER_RETRIED

PLUGINS = parse_catalogue(b'[{"class":"lab.Source","type":"source"}]')
SOURCE = {"connector.class": "lab.Source"}
RESERVED: dict[str, str | None] = {"offsets.storage.topic": "connect-status"}
CREATE = CreateConnector("orders", SOURCE, Target.STOPPED, (OffsetChange({"page": 1}, {"row": 1}),))


async def test_a_later_process_knows_the_keys() -> None:
    """A later process knows the keys, also of commands with tuples, which JSON stores as lists."""
    log = MemoryLog()
    commands: dict[str, AnyCommand] = {
        "one": CREATE,
        "two": AlterOffsets("orders", (OffsetChange({"page": 2}, None),)),
        "three": PublishTasks("orders", ()),
    }
    async with plane_on(log, plugins=PLUGINS) as plane:
        outcomes = {key: await plane.execute(command, key=key) for key, command in commands.items()}
    records = await written_texts(log, CONFIG, COMMANDS, "connect-offsets")
    async with plane_on(log, plugins=PLUGINS) as plane:
        again = {key: await plane.execute(command, key=key) for key, command in commands.items()}
    assert again == outcomes
    assert await written_texts(log, CONFIG, COMMANDS, "connect-offsets") == records


async def test_a_retry_in_doubt_runs_no_second_time(tmp_path: Path) -> None:
    """A retry after a failed write does not perform the command a second time."""
    path = tmp_path / "state.db"
    log = await SqliteLog.open(path, settings=SqliteSettings(write_wait_ms=10))
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    times = iter(["the first time"])

    async def stepped(_asked: CommandRequest, step: Step) -> None:
        if step.name == "tasks" and next(times, None):
            blocker.execute("BEGIN IMMEDIATE")

    limits = msgspec.structs.replace(NEVER_RETRIED, retry_last_ms=60_000)
    with closing(blocker):
        async with plane_on(log, Settings(limits=limits), stepped=stepped) as plane:
            await plane.execute(CreateConnector("orders", SOURCE))
            with pytest.raises(NotWritten):
                await plane.execute(StopConnector("orders"), key="k")
            blocker.execute("ROLLBACK")
            await plane.execute(StopConnector("orders"), key="k")
            keys = [key for key, _ in await written_texts(log, CONFIG)]
            assert keys.count("target-state-orders") == 1
        await log.close()


async def test_a_deletion_in_doubt_is_completed_under_its_key() -> None:
    """A repeated key completes a deletion in doubt.

    A later completion would delete the next connector of that name.
    """
    log = BreakingMemory()
    settings = Settings(profile="3.9", limits=IMPATIENT)
    async with plane_on(log, settings, plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", SOURCE))
        log.outage = Outage(behind=1, batches=1, written=False)
        with pytest.raises(NotWritten):
            await plane.execute(DeleteConnector("orders"), key="k")
        await plane.execute(DeleteConnector("orders"), key="k")
        await plane.execute(CreateConnector("orders", SOURCE))
    async with plane_on(log, settings, plugins=PLUGINS) as plane:
        assert views.connectors(plane.state) == ["orders"]


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("2.8", PutConfig("orders", SOURCE | {"k": None})),
        ("3.9", PutConfig("orders", SOURCE | {"name": "orders", **RESERVED})),
        ("3.9", PatchConfig("orders", RESERVED)),
    ],
)
async def test_a_config_of_another_release_is_not_given_up_once_it_is_in_effect(
    release: str, command: PutConfig | PatchConfig, written: bool
) -> None:
    """The profile `kip` refuses the config; a repeated key still gets the first command's end."""
    log, profile = SeparateBatches(), Profile.of(release)
    async with plane_on(log, Settings(limits=IMPATIENT)) as plane:
        await log.append([configured("orders")])
        log.outage = Outage(behind=1 + written, batches=1, written=False)
        with pytest.raises(NotWritten):
            await plane.carry_out(command, key="k", profile=profile)
        answer = await plane.carry_out(command, key="k", profile=profile)
        assert isinstance(answer, Outcome) is written
        config = dict(plane.state.config.connectors["orders"])
        assert (config != {**SOURCE, "name": "orders"}) is written


async def test_a_key_is_of_one_command_of_equal_python_values() -> None:
    """A key is refused for `true` in place of `1`, while the first command runs and afterwards."""
    altered, other = (
        AlterOffsets("orders", (OffsetChange({"page": page}, {"row": 1}),)) for page in (1, True)
    )
    async with plane_on(MemoryLog(), plugins=PLUGINS) as plane:
        await plane.execute(CREATE)
        running = asyncio.create_task(plane.execute(altered, key="k"))
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(Refusal, match="belongs to another command"):
                await plane.execute(other, key="k")
            assert await running == await plane.execute(altered, key="k")


async def test_an_unusable_result_runs_no_second_time() -> None:
    """The key of a command whose result a newer version wrote gets a failure, and runs nothing."""
    log, command = MemoryLog(), StopConnector("orders")
    async with plane_on(log, plugins=PLUGINS) as plane:
        await plane.execute(CREATE)
        ended = {"ended": "failed", "reason": "of a newer version"}
        for record in (
            CommandAccepted("k", 1, "ana", msgspec.to_builtins(command)),
            CommandFinished("k", 2, ended),
        ):
            await log.append([Record(COMMANDS, 0, 1, *encode_command(record))])
        records = await written_texts(log, CONFIG, COMMANDS)
    async with plane_on(log, plugins=PLUGINS) as plane:
        with pytest.raises(Refusal, match="The command k has ended"):
            await plane.execute(command, key="k")
    assert await written_texts(log, CONFIG, COMMANDS) == records


async def test_a_cancelled_call_can_be_repeated_at_once() -> None:
    """A retry does not join the waiting command that the cancelled call has just cancelled."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def stepped(request: CommandRequest, _step: Step) -> None:
        if isinstance(request.command, StopConnector):
            reached.set()
            await go_on.wait()

    async with plane_on(MemoryLog(), plugins=PLUGINS, stepped=stepped) as plane:
        await plane.execute(CreateConnector("orders", SOURCE))
        stopping = asyncio.create_task(plane.execute(StopConnector("orders")))
        await reached.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await plane.execute(ResumeConnector("orders"), key="k")
        asyncio.get_running_loop().call_soon(go_on.set)
        await plane.execute(ResumeConnector("orders"), key="k")
        await stopping
        assert plane.state.commands["k"].finished is not None
