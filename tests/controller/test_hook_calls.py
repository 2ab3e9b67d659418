"""Connectors' own `alter_offsets` that hang, raise, or hold up the end of a process."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest

from controlplane.controller import CommandLimits
from controlplane.controller import hook_calls as calls
from controlplane.controller.controller import Closed
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    ResumeConnector,
)
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plan import Offsets
from controlplane.core.records import Target
from controlplane.logs.log import LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.plugins import catalogued, described
from tests.controller.scene import plane_on
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import RecordedNotices, entries_in

CHANGE = (OffsetChange({"table": "t"}, {"row": 1}),)
SOON = Settings(limits=CommandLimits(hook_timeout_ms=50))

entered = threading.Event()
"""Set when a hook begins to hang."""

released = threading.Event()
"""Set at the end of a test: hanging hooks return."""


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    entered.clear()
    released.clear()
    yield
    released.set()


class Behaving:
    """A connector whose hook behaves as its config says."""

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version: ClassVar[str] = "1"
    config: ClassVar[Sequence[ConfigKey]] = ()

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Hang, raise or accept."""
        del offsets
        if config["alter"] == "hang":
            entered.set()
            released.wait()
        if config["alter"] == "raise":
            return bool(config["missing"])
        return True


async def create(plane: ControlPlane, name: str, alter: str) -> None:
    """Create a stopped connector."""
    config = {"connector.class": f"{__name__}.Behaving", "name": name, "alter": alter}
    await plane.execute(CreateConnector(name, config, Target.STOPPED))


PLUGINS = catalogued(more=[described(Behaving)])


async def test_a_hook_that_hangs_fails_its_command_only() -> None:
    """No offset is changed; the connector obeys its next command."""
    log = MemoryLog()
    async with asyncio.timeout(PATIENCE_S), plane_on(log, SOON, plugins=PLUGINS) as plane:
        await create(plane, "orders", "hang")
        before = await entries_in(log, "connect-offsets")
        with pytest.raises(Refusal, match=r"^alter_offsets of connector orders has not ret"):
            await plane.execute(AlterOffsets("orders", CHANGE))
        assert await entries_in(log, "connect-offsets") == before
        await plane.execute(ResumeConnector("orders"))


async def test_hanging_hooks_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hooks wait for a place, and run once a hanging one has returned."""
    monkeypatch.setattr(calls, "CALLS_AT_ONCE", 1)
    async with asyncio.timeout(PATIENCE_S), plane_on(MemoryLog(), SOON, plugins=PLUGINS) as plane:
        await create(plane, "hanging", "hang")
        await create(plane, "good", "accept")
        for name in ("hanging", "good"):
            with pytest.raises(Refusal, match="has not returned"):
                await plane.execute(AlterOffsets(name, CHANGE))
        released.set()
        while True:
            try:
                await plane.execute(AlterOffsets("good", CHANGE))
                break
            except Refusal:
                await asyncio.sleep(0.01)


async def test_a_hook_without_a_thread_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once threads can be started again, hooks run again."""

    def no_thread(*_: Any) -> Any:
        raise RuntimeError("can't start new thread")

    async with asyncio.timeout(PATIENCE_S), plane_on(MemoryLog(), plugins=PLUGINS) as plane:
        await create(plane, "orders", "accept")
        with monkeypatch.context() as patch:
            patch.setattr(calls, "in_daemon_thread", no_thread)
            for _ in range(calls.CALLS_AT_ONCE):
                with pytest.raises(Exception, match="can't start new thread"):
                    await plane.execute(AlterOffsets("orders", CHANGE))
        await plane.execute(AlterOffsets("orders", CHANGE))


async def test_a_closing_plane_does_not_wait_for_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that waits for the hook fails, and has written nothing."""
    monkeypatch.setattr(calls, "CLOSE_S", 0.01)
    log = MemoryLog()
    async with asyncio.timeout(PATIENCE_S), plane_on(log, plugins=PLUGINS) as plane:
        await create(plane, "orders", "hang")
        before = await entries_in(log, "connect-offsets")
        altering = asyncio.create_task(plane.execute(AlterOffsets("orders", CHANGE)))
        await asyncio.to_thread(entered.wait)
    with pytest.raises(LogUnavailable, match="Worker is shutting down"):
        await altering
    assert await entries_in(log, "connect-offsets") == before


async def test_a_closing_plane_refuses_a_dry_run_that_waits_for_a_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dry run ends with the error of a closed plane; its task was not cancelled."""
    monkeypatch.setattr(calls, "CLOSE_S", 0.01)
    async with asyncio.timeout(PATIENCE_S):
        async with plane_on(MemoryLog(), plugins=PLUGINS) as plane:
            await create(plane, "orders", "hang")
            planning = asyncio.create_task(plane.plan(AlterOffsets("orders", CHANGE)))
            await asyncio.to_thread(entered.wait)
        with pytest.raises(Closed, match="Worker is shutting down"):
            await planning


async def test_a_cancelled_dry_run_stays_cancelled() -> None:
    """A caller that leaves a dry run is cancelled, also while the plane closes."""
    async with asyncio.timeout(PATIENCE_S):
        async with plane_on(MemoryLog(), plugins=PLUGINS) as plane:
            await create(plane, "orders", "hang")
            planning = asyncio.create_task(plane.plan(AlterOffsets("orders", CHANGE)))
            await asyncio.to_thread(entered.wait)
        planning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await planning


ENDING = """
import asyncio
from controlplane.controller import hook_calls
from controlplane.logs.memory import MemoryLog
from tests.controller import test_hook_calls as tests

async def main():
    hook_calls.CLOSE_S = 0.01
    async with tests.plane_on(MemoryLog(), plugins=tests.PLUGINS) as plane:
        await tests.create(plane, "orders", "hang")
        altering = asyncio.ensure_future(
            plane.execute(tests.AlterOffsets("orders", tests.CHANGE))
        )
        await asyncio.to_thread(tests.entered.wait)
    await asyncio.gather(altering, return_exceptions=True)

asyncio.run(main())
print("ended")
"""


def test_a_process_ends_although_a_hook_hangs() -> None:
    """The thread of the hook does not keep the process alive."""
    process = subprocess.run(
        [sys.executable, "-c", ENDING],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (process.returncode, process.stdout) == (0, "ended\n"), process.stderr


async def test_the_cause_of_a_failed_hook_is_logged() -> None:
    """The client gets Kafka's message; the log has the exception and its line."""
    notices = RecordedNotices()
    async with plane_on(MemoryLog(), plugins=PLUGINS, notices=notices) as plane:
        await create(plane, "orders", "raise")
        with pytest.raises(Refusal) as refusal:
            await plane.execute(AlterOffsets("orders", CHANGE))
    message = "Failed to modify offsets for source connector orders"
    assert refusal.value.rejected.text == message
    reason = notices.of("command")[-1]["reason"]
    assert reason.startswith(f"{message}: KeyError('missing') at {__file__}:")
