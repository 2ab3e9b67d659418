"""Bad requests and bad logs: exact errors, and nothing half done."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controlplane.controller import NotWritten
from controlplane.core import views
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PatchConfig,
    PauseConnector,
    PublishTasks,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.plan import Reason, Step
from controlplane.core.records import Target
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.log import Fenced, Log, LogError, ReadableLog
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.plugins import catalogued
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    OFFSETS,
    STATUS,
    configured,
    connector,
    plane_on,
    raw,
    written_texts,
)
from tests.patience import NEVER_RETRIED

PLUGINS = catalogued(b'[{"class":"lab.Source","type":"source"}]')
SOURCE = {"connector.class": "lab.Source"}
CONNECTS_TOPICS = (CONFIG, OFFSETS, STATUS)


def unfinished(plane: ControlPlane) -> list[str]:
    """Keys of the commands that have not finished."""
    return [key for key, trace in plane.state.commands.items() if trace.unfinished]


async def refused(plane: ControlPlane, log: ReadableLog, command: AnyCommand) -> str:
    """Error of a refused command, which writes to the command topic only."""
    before = await written_texts(log, *CONNECTS_TOPICS)
    kept = len(await written_texts(log, COMMANDS))
    with pytest.raises(Refusal) as caught:
        await plane.execute(command)
    assert caught.value.rejected.reason is Reason.INVALID
    assert await written_texts(log, *CONNECTS_TOPICS) == before
    assert len(await written_texts(log, COMMANDS)) == kept + 1
    assert unfinished(plane) == []
    return str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        CreateConnector(b"orders", SOURCE),  # type: ignore[arg-type]
        CreateConnector("orders", SOURCE | {"file": b"x"}),  # type: ignore[dict-item]
        PatchConfig("orders", {b"file": "x"}),  # type: ignore[dict-item]
        PublishTasks("orders", ({"file": bytearray(b"x")},)),  # type: ignore[dict-item]
    ],
    ids=repr,
)
async def test_bytes_are_no_text(command: AnyCommand) -> None:
    """Bytes are refused instead of stored in base64."""
    log = MemoryLog()
    async with plane_on(log) as plane:
        for call in (plane.plan, plane.execute):
            with pytest.raises(TypeError, match=r"cannot hold this: .*bytes"):
                await call(command)
        assert not await written_texts(log, CONFIG)


async def test_bytes_in_an_offset_are_stored_as_by_connects_converter() -> None:
    """The converter of offsets writes bytes in base64."""
    change = OffsetChange({"id": b"x"}, {"position": 1})
    async with plane_on(MemoryLog(), plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", SOURCE, initial_offsets=(change,)))
        [stored] = views.source_offsets(plane.state, "orders")
    assert stored.partition == {"id": "eA=="}


# --- names ------------------------------------------------------------------------------------

ODD = [
    "a/b",
    "../a",
    "a%b",
    "a%2Fb",
    "a{b}",
    "a}b",
    "a;b",
    "a+b",
    "a b",
    "a\u2028b",
    "é",
    "a" * 999,
]
"""Names that Connect accepts, but that are hard to write in a URL."""


@pytest.mark.parametrize("name", ODD, ids=lambda name: repr(name[:9]))
async def test_commands_accept_odd_names(name: str) -> None:
    """Every command finds its connector; after the deletion no view shows it."""
    log = MemoryLog()
    async with plane_on(log, plugins=PLUGINS) as plane:
        await plane.execute(connector(name))
        await plane.execute(StopConnector(name))
        await plane.execute(AlterOffsets(name, (OffsetChange({"p": 1}, {"row": 1}),)))
        assert views.connectors(plane.state) == [name]
        assert views.target(plane.state, name) is Target.STOPPED
        assert [
            source_offset.offset for source_offset in views.source_offsets(plane.state, name)
        ] == [{"row": 1}]
        await plane.execute(ResetOffsets(name))
        await plane.execute(DeleteConnector(name))
        assert views.connectors(plane.state) == []
        assert views.source_offsets(plane.state, name) == []
    keys = {key for key, _ in await written_texts(log, CONFIG)}
    assert keys == {f"connector-{name}", f"commit-{name}", f"target-state-{name}"}


CONTROL = (
    "Invalid value {} for configuration name: String may not contain control sequences "
    "but had the following ASCII chars: {}"
)
EMPTY = "Invalid value  for configuration name: String may not be empty"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\nb", CONTROL.format("a\nb", "10")),
        ("a\x01b\x02c", CONTROL.format("a\x01b\x02c", "1, 2")),
        ("a\x00b", CONTROL.format("a\x00b", "0")),
        ("a\x7fb", CONTROL.format("a\x7fb", "127")),
        ("a\x85b", CONTROL.format("a\x85b", "133")),
        ("", EMPTY),
        (" ", EMPTY),
    ],
    ids=repr,
)
async def test_invalid_names_are_refused(name: str, why: str) -> None:
    """Invalid names are refused with the validator's message."""
    log = MemoryLog()
    async with plane_on(log, plugins=PLUGINS) as plane:
        message = await refused(plane, log, connector(name))
    assert message == (
        f"Connector configuration is invalid and contains the following 1 error(s):\n{why}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


# --- many connectors, large configs -----------------------------------------------------------


@pytest.mark.slow
async def test_a_command_changes_one_of_ten_thousand_connectors() -> None:
    """A log of other programs with 10,000 connectors: a command changes only its own connector."""
    log = MemoryLog()
    await log.create_topic(CONFIG, 1)
    await log.append([configured(f"c-{number:04}") for number in range(10_000)])
    async with plane_on(log, plugins=PLUGINS) as plane:
        names = [f"c-{number:04}" for number in range(0, 10_000, 100)]
        await asyncio.gather(*(plane.execute(StopConnector(name)) for name in names))
        await plane.execute(connector("new"))
        await plane.execute(DeleteConnector("c-9999"))
        all_names = views.connectors(plane.state)
        assert len(all_names) == 10_000
        assert ("new" in all_names, "c-9999" in all_names) == (True, False)
        stopped = [name for name in all_names if views.target(plane.state, name) is Target.STOPPED]
        assert sorted(stopped) == names
        assert unfinished(plane) == []


async def test_a_config_of_a_mebibyte_survives_a_restart(tmp_path: Path) -> None:
    """A large config survives a patch and a restart unchanged."""
    long = "é" * (1 << 19)
    where = str(tmp_path / "state.db")
    async with plane_on(where, plugins=PLUGINS) as plane:
        await plane.execute(connector("orders", long=long))
        await plane.execute(PatchConfig("orders", {"more": "1"}))
        await plane.execute(PauseConnector("orders"))
    async with plane_on(where, plugins=PLUGINS) as plane:
        expected_config = {**SOURCE, "long": long, "name": "orders", "more": "1"}
        assert plane.state.config.connectors["orders"] == expected_config
        assert views.target(plane.state, "orders") is Target.PAUSED


# --- offsets ----------------------------------------------------------------------------------

NOT_PRIMITIVE = "Offsets may only contain primitive types as values, but field {} contains {}"
COMPOUND: list[tuple[Mapping[str, Any], Mapping[str, Any] | None, str]] = [
    ({"p": {"q": 1}}, {"row": 1}, NOT_PRIMITIVE.format("p", "MAP")),
    ({"p": [1]}, None, NOT_PRIMITIVE.format("p", "ARRAY")),
    ({"p": 1}, {"row": [1]}, NOT_PRIMITIVE.format("row", "ARRAY")),
    ({"p": 1}, {"row": {}}, NOT_PRIMITIVE.format("row", "MAP")),
    ({"p": 2**63}, {"row": 1}, NOT_PRIMITIVE.format("p", "class java.math.BigInteger")),
]


@pytest.mark.parametrize(("partition", "offset", "why"), COMPOUND)
async def test_offsets_that_are_not_primitive_are_refused(
    partition: Mapping[str, Any], offset: Mapping[str, Any] | None, why: str
) -> None:
    """A creation and an alteration refuse such offsets as a whole, also after a valid one."""
    log = MemoryLog()
    changes = (OffsetChange({"p": 0}, {"row": 0}), OffsetChange(partition, offset))
    async with plane_on(log, plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", SOURCE, Target.STOPPED))
        assert await refused(plane, log, AlterOffsets("orders", changes)) == why
        created = CreateConnector("users", SOURCE, initial_offsets=changes)
        start = "Failed to validate the initial offsets of connector users: "
        assert await refused(plane, log, created) == start + why


async def test_offsets_keep_the_key_of_the_log() -> None:
    """Alter and reset use the key that the log has, not the one that a Java map would give."""
    key = '["orders",{"zone":"z","at":1,"b":2}]'
    log = MemoryLog()
    await log.create_topic(OFFSETS, 5)
    await log.append([raw(OFFSETS, key, '{"row":1}', partition_of(key.encode(), 5))])
    async with plane_on(log, plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", SOURCE, Target.STOPPED))
        moved = OffsetChange({"b": 2, "at": 1, "zone": "z"}, {"row": 2})
        await plane.execute(AlterOffsets("orders", (moved,)))
        assert [
            source_offset.offset for source_offset in views.source_offsets(plane.state, "orders")
        ] == [{"row": 2}]
        await plane.execute(ResetOffsets("orders"))
        assert views.source_offsets(plane.state, "orders") == []
    assert await written_texts(log, OFFSETS) == [
        (key, '{"row":1}'),
        (key, '{"row":2}'),
        (key, None),
    ]


# --- the log ----------------------------------------------------------------------------------

IMPATIENT = Settings(limits=NEVER_RETRIED)
LARGE = {**SOURCE, "large": "x" * 500_000}


class Disk:
    """The disk below a log, which a test can fill."""

    def __init__(self, log: SqliteLog) -> None:
        assert log._writer
        self._connection = log._writer._ledger.connection

    def fill(self) -> None:
        """Keep the file from growing."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        self._connection.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        """Remove the limit on the size of the database."""
        self._connection.execute("PRAGMA max_page_count = 1000000")


async def test_a_full_disk_accepts_no_command(tmp_path: Path) -> None:
    """A command that cannot be accepted leaves no record and is not retried."""
    log = await SqliteLog.open(tmp_path / "state.db")
    async with plane_on(log, IMPATIENT, plugins=PLUGINS) as plane:
        await plane.execute(connector("users"))
        before = await written_texts(log, *CONNECTS_TOPICS, COMMANDS)
        disk = Disk(log)
        disk.fill()
        with pytest.raises(NotWritten) as caught:
            await plane.execute(CreateConnector("orders", LARGE))
        assert str(caught.value).startswith("Error writing connector configuration to Kafka: ")
        assert "disk is full" in str(caught.value)
        disk.free()
        assert await written_texts(log, *CONNECTS_TOPICS, COMMANDS) == before
        await plane.execute(PauseConnector("users"))
        assert views.connectors(plane.state) == ["users"]
        assert unfinished(plane) == []
    await log.close()


async def test_a_creation_on_a_full_disk_is_undone_later(tmp_path: Path) -> None:
    """A failed creation is undone once there is space again (KIP-995)."""
    log = await SqliteLog.open(tmp_path / "state.db")

    async def stepped(request: CommandRequest, _step: Step) -> None:
        if isinstance(request.command, CreateConnector) and request.command.initial_offsets:
            Disk(log).fill()

    async with plane_on(log, IMPATIENT, plugins=PLUGINS, stepped=stepped) as plane:
        await plane.execute(connector("users"))
        first = (OffsetChange({"p": 1}, {"row": 1}),)
        with pytest.raises(NotWritten) as caught:
            await plane.execute(CreateConnector("orders", LARGE, initial_offsets=first))
        assert str(caught.value).startswith("Error writing connector configuration to Kafka: ")
        assert "disk is full" in str(caught.value)
        assert await written_texts(log, OFFSETS) == [('["orders",{"p":1}]', '{"row":1}')]
        Disk(log).free()
        with pytest.raises(Refusal, match="Unknown connector orders"):
            await plane.execute(StopConnector("orders"))
        assert unfinished(plane) == []
        assert views.connectors(plane.state) == ["users"]
        assert views.source_offsets(plane.state, "orders") == []
    async with plane_on(log, plugins=PLUGINS) as plane:
        assert views.connectors(plane.state) == ["users"]
        assert unfinished(plane) == []
    await log.close()


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A log of each kind that has a writer."""
    made: Log = (
        MemoryLog() if request.param == "memory" else await SqliteLog.open(tmp_path / "state.db")
    )
    yield made
    await made.close()


async def test_the_next_writer_completes_a_fenced_plan(log: Log) -> None:
    """The fenced writer stops at once; the next one completes the command under the same key."""

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == "tasks":
            await log.claim()

    async with plane_on(log, plugins=PLUGINS, stepped=stepped) as first:
        await first.execute(connector("orders"))
        with pytest.raises(Fenced):
            await first.execute(StopConnector("orders"), key="k")
        before = await written_texts(log, *CONNECTS_TOPICS, COMMANDS)
        with pytest.raises(Fenced):
            await first.execute(ResumeConnector("orders"))
    assert await written_texts(log, *CONNECTS_TOPICS, COMMANDS) == before
    assert "target-state-orders" not in dict(before)
    async with plane_on(log, plugins=PLUGINS) as second:
        assert unfinished(second) == []
        assert views.target(second.state, "orders") is Target.STOPPED
        ended = await written_texts(log, *CONNECTS_TOPICS, COMMANDS)
        await second.execute(StopConnector("orders"), key="k")
        assert await written_texts(log, *CONNECTS_TOPICS, COMMANDS) == ended


async def test_a_plan_ends_when_its_file_returns(tmp_path: Path) -> None:
    """The caller gets an error after the write patience; the command ends when the file returns."""
    path, elsewhere = tmp_path / "state.db", tmp_path / "elsewhere.db"
    log = await SqliteLog.open(path)

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == "tasks":
            path.rename(elsewhere)

    async with plane_on(log, IMPATIENT, plugins=PLUGINS, stepped=stepped) as plane:
        await plane.execute(connector("orders"))
        for command in (StopConnector("orders"), ResumeConnector("orders")):
            with pytest.raises(LogError, match="deleted or replaced: open it again"):
                await plane.execute(command)
    await log.close()
    elsewhere.rename(path)
    async with plane_on(str(path), plugins=PLUGINS) as plane:
        assert unfinished(plane) == []
        assert views.target(plane.state, "orders") is Target.STOPPED
