"""Foreign hands write while a command is under way; and what is left of commands that failed."""

from typing import Any

import pytest

from controlplane.controller import Limits
from controlplane.core.commands import CreateConnector, OffsetChange, PauseConnector
from controlplane.core.plan import Step
from controlplane.logs.log import Fenced
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Refusal, Settings
from tests.controller.scene import COMMANDS, CONFIG, OFFSETS, configured, plane_on, written

FILE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "f",
    "topic": "t",
}
OFFSETS_WANTED = (OffsetChange({"filename": "f"}, {"position": 7}),)
CREATE = CreateConnector("orders", FILE, initial_offsets=OFFSETS_WANTED)


async def test_created_by_others_before_it_is_decided() -> None:
    """N2: the config of the other stays, and so do its offsets (commands.md §4, step 2a)."""
    log = MemoryLog()
    async with plane_on(log) as plane:
        await log.append([configured("orders")])
        with pytest.raises(Refusal, match="Connector orders already exists"):
            await plane.execute(CREATE)
        assert len(await written(log, CONFIG)) == 1
        assert await written(log, OFFSETS) == []


async def test_created_by_others_when_the_offsets_are_written() -> None:
    """The other's config is not overwritten, and the offsets, which may be its own now, stay."""
    log = MemoryLog()

    async def stepped(_asked: Any, done: Step) -> None:
        if done.name == "write":
            await log.append([configured("orders")])

    async with plane_on(log, stepped=stepped) as plane:
        with pytest.raises(Refusal, match="Connector orders already exists"):
            await plane.execute(CREATE)
        assert len(await written(log, CONFIG)) == 1
        assert await written(log, OFFSETS) == [('["orders",{"filename":"f"}]', '{"position":7}')]
        (trace,) = plane.state.commands.values()
        assert trace.finished is not None
        assert trace.finished.outcome["ended"] == "failed"


class _Lines:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.told.append({"event": event, **facts})

    warning = info


async def test_a_command_that_cannot_be_written_leaves_its_line() -> None:
    """One line per command, whatever becomes of it."""
    log, lines = MemoryLog(), _Lines()
    async with plane_on(log, notices=lines) as plane:
        await plane.execute(CreateConnector("orders", {"connector.class": "lab.Source"}))
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(PauseConnector("orders"))
    done, failed = (one for one in lines.told if one["event"] == "command")
    assert (done["outcome"], failed["outcome"]) == ("done", "unfinished")
    assert failed["command"] == "pause"
    assert failed["reason"]


async def test_who_is_refused_cannot_fill_the_log() -> None:
    """Of a large command only what and whom it concerned is kept."""
    log = MemoryLog()
    settings = Settings(limits=Limits(refusal_max_bytes=1_000))
    async with plane_on(log, settings) as plane:
        for size in (10, 100_000):
            with pytest.raises(Refusal):
                await plane.execute(CreateConnector("orders", {"x": "y" * size}))
        (_, small), (_, large) = await written(log, COMMANDS)
    assert '"x":"yyyyyyyyyy"' in (small or "")
    assert len(large or "") <= 1_000
    assert '"command":{"command":"create","connector":"orders"}' in (large or "")
