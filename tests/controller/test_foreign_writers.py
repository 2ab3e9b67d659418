"""Foreign writers during a command, and traces of failed commands."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from controlplane.controller import CommandLimits
from controlplane.core.commands import CreateConnector, OffsetChange, PauseConnector
from controlplane.core.plan import Step
from controlplane.logs.log import Fenced
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Refusal, Settings
from tests.controller.scene import COMMANDS, CONFIG, OFFSETS, configured, plane_on, written_texts
from tests.rest.served_history import client_of

FILE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "f",
    "topic": "t",
}
OFFSETS_WANTED = (OffsetChange({"filename": "f"}, {"position": 7}),)
CREATE = CreateConnector("orders", FILE, initial_offsets=OFFSETS_WANTED)


async def test_a_foreign_config_before_the_decision_stays() -> None:
    """The creation is refused; the foreign config stays, and no offset is written."""
    log = MemoryLog()
    async with plane_on(log) as plane:
        await log.append([configured("orders")])
        with pytest.raises(Refusal, match="Connector orders already exists"):
            await plane.execute(CREATE)
        assert len(await written_texts(log, CONFIG)) == 1
        assert await written_texts(log, OFFSETS) == []


async def test_a_foreign_config_during_the_creation_stays() -> None:
    """The creation fails; the foreign config and the offsets stay: its tasks may have used them."""
    log = MemoryLog()

    async def stepped(_asked: Any, done: Step) -> None:
        if done.name == "write":
            await log.append([configured("orders")])

    async with plane_on(log, stepped=stepped) as plane:
        with pytest.raises(Refusal, match="Connector orders already exists"):
            await plane.execute(CREATE)
        assert len(await written_texts(log, CONFIG)) == 1
        assert await written_texts(log, OFFSETS) == [
            ('["orders",{"filename":"f"}]', '{"position":7}')
        ]
        (trace,) = plane.state.commands.values()
        assert trace.finished is not None
        assert trace.finished.outcome["ended"] == "failed"


class _Lines:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.events.append({"event": event, **facts})

    warning = info


async def test_a_command_that_cannot_be_written_leaves_its_line() -> None:
    """A command that fails to be written still logs one line."""
    log, lines = MemoryLog(), _Lines()
    async with plane_on(log, notices=lines) as plane:
        await plane.execute(CreateConnector("orders", {"connector.class": "lab.Source"}))
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(PauseConnector("orders"))
    done, failed = (line for line in lines.events if line["event"] == "command")
    assert (done["outcome"], failed["outcome"]) == ("done", "unfinished")
    assert failed["command"] == "pause"
    assert failed["reason"]


async def test_refused_commands_cannot_fill_the_log() -> None:
    """The command topic keeps an excerpt of a large refused command."""
    log, most = MemoryLog(), 1_000
    large: list[Mapping[str, str | None]] = [
        {"first": "1", "x": "y" * 100_000, "last": "2"},
        {f"k{number}": "v" for number in range(10_000)},
        {"x" * 100_000: "v", "last": "2"},
        {"e": "\x01" * 240, "f": "\U0001f600" * 240, "first": "1"},
        {"a": None} | {f"{number}\x01" * 40: "é" * 250 for number in range(100)},
    ]
    async with plane_on(log, Settings(limits=CommandLimits(refusal_max_bytes=most))) as plane:
        for config in ({"x": "y" * 10}, *large):
            with pytest.raises(Refusal):
                await plane.execute(CreateConnector("orders", config))
        (_, small), *records = await written_texts(log, COMMANDS)
    assert '"x":"yyyyyyyyyy"' in (small or "")
    assert max(len((value or "").encode()) for _, value in records) <= most
    kept = [msgspec.json.decode(value or "")["command"] for _, value in records]
    assert all(
        (excerpt["command"], excerpt["connector"]) == ("create", "orders") for excerpt in kept
    )
    assert all(excerpt["whole_bytes"] > most for excerpt in kept)
    assert kept[0]["config"] == {"first": "1", "x": "… (100000 characters)", "last": "2"}
    assert list(kept[1]["config"].items())[:2] == [("k0", "v"), ("k1", "v")]
    assert kept[2]["config"] == {"last": "2"}


async def test_the_trail_shows_a_piece_of_a_large_refused_body() -> None:
    """The excerpt identifies the request; its secrets are hidden."""
    log = MemoryLog()
    config = {"topics": "a,b", "db.password": "pearl", "x": "y" * 20_000}
    async with plane_on(log) as plane, client_of(plane.app) as client:
        await client.post("/connectors", json={"name": "orders", "config": config})
        (row,) = (await client.get("/commands?outcome=refused")).json()["commands"]
    assert row["asked"]["config"]["topics"] == "a,b"
    assert row["asked"]["config"]["db.password"] == "[hidden]"
    assert row["asked"]["config"]["x"] == "… (20000 characters)"
    assert row["asked"]["whole_bytes"] > 20_000
