"""Commands whose records the log refuses: each fails with the reason, and is in the trail."""

from collections.abc import Sequence

import pytest

from controlplane.controller import CommandLimits
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    PutConfig,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.entry import Position
from controlplane.core.plan import AnyAction, Reason
from controlplane.logs.log import LogNotUsable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Refusal, Settings
from controlplane.plugins import catalogued
from tests.controller.scene import COMMANDS, plane_on, written_texts
from tests.controller.test_fencing import NotedActions
from tests.rest.served_history import client_of

RECORD_BYTES = 20_000
"""Largest record that the log takes."""

WORDS = "refuses a record larger than its max.message.bytes"
SOURCE = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
SINK = {"connector.class": "FileStreamSink", "file": "f", "topics": "t"}
LARGE = "x" * RECORD_BYTES
INITIAL = (OffsetChange({"filename": "f"}, {"position": 3}),)
GROUP = (OffsetChange({"kafka_topic": LARGE, "kafka_partition": 0}, {"kafka_offset": 3}),)


class SmallRecords(MemoryLog):
    """A log that refuses large records, as brokers do. It refuses all commands while `closed`."""

    closed = False

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append a batch, unless a record is too large."""
        if any(len(record.value or b"") > RECORD_BYTES for record in records) or (
            self.closed and any(record.topic == COMMANDS for record in records)
        ):
            raise LogNotUsable(f"topic t {WORDS}: shorten it, or raise the limit")
        return await super().append(records, epoch)


class SmallConfigs(MemoryLog):
    """A log whose command topic takes larger records than its other topics.

    Its batches are fast, so a command writes each topic in a batch of its own.
    """

    has_fast_batches = True

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append a batch, unless a record is too large for its topic."""
        if any(
            len(record.value or b"") > RECORD_BYTES and record.topic != COMMANDS
            for record in records
        ):
            raise LogNotUsable(f"topic t {WORDS}: shorten it, or raise the limit")
        return await super().append(records, epoch)


class ClosingActions(NotedActions):
    """External systems whose actions are noted. After the first one, the log refuses commands."""

    def __init__(self, log: SmallRecords) -> None:
        super().__init__()
        self._log = log

    async def perform(self, action: AnyAction) -> None:
        """Note the action; after the first one, the log refuses the "finished" record."""
        if not self.performed:
            self._log.closed = True
        await super().perform(action)


COMMANDS_TOO_LARGE = [
    pytest.param(PutConfig("c", SOURCE | {"large": LARGE}), id="one batch"),
    pytest.param(
        CreateConnector("d", SOURCE | {"large": LARGE}, None, INITIAL), id="several batches"
    ),
    pytest.param(AlterOffsets("s", GROUP), id="action"),
]


@pytest.mark.parametrize("command", COMMANDS_TOO_LARGE)
async def test_the_trail_lists_the_command(
    command: AlterOffsets | CreateConnector | PutConfig,
) -> None:
    """The caller and `GET /commands` get the reason; nothing else is written."""
    log = SmallRecords()
    async with plane_on(log, plugins=catalogued()) as plane, client_of(plane.app) as client:
        await plane.execute(CreateConnector("c", SOURCE))
        await plane.execute(CreateConnector("s", SINK))
        await plane.execute(StopConnector("s"))
        before = await written_texts(log, *await log.topics())
        with pytest.raises(Refusal, match=WORDS) as refused:
            await plane.execute(command, key="k")
        assert refused.value.rejected.reason is Reason.FAILED
        after = await written_texts(log, *await log.topics())
        assert len(after) == len(before) + 1
        listed = (await client.get("/commands")).json()["commands"]
        assert [row["id"] for row in listed[3:]] == ["k"]
        assert listed[3]["outcome"] == "refused"
        assert WORDS in listed[3]["reason"]
        assert listed[3]["connector"] == command.connector
        assert not any(trace.unfinished for trace in plane.state.commands.values())
        # The key is free again, as after every refusal.
        await plane.execute(PutConfig("c", SOURCE | {"tasks.max": "2"}), key="k")
        assert plane.state.config.connectors["c"] == {"name": "c", **SOURCE, "tasks.max": "2"}


async def test_a_refused_step_fails_an_accepted_command() -> None:
    """A log may take the "accepted" record, and refuse the step: the command ends as failed."""
    log = SmallConfigs()
    async with plane_on(log, plugins=catalogued()) as plane, client_of(plane.app) as client:
        with pytest.raises(Refusal, match=WORDS):
            await plane.execute(CreateConnector("c", SOURCE | {"large": LARGE}))
        (listed,) = (await client.get("/commands")).json()["commands"]
        assert listed["outcome"] == "failed"
        assert WORDS in listed["reason"]
        assert not any(trace.unfinished for trace in plane.state.commands.values())


async def test_the_caller_gets_the_reason_without_a_trail() -> None:
    """The caller gets the reason although the trail cannot have it."""
    log = SmallRecords()
    async with plane_on(log, plugins=catalogued()) as plane:
        log.closed = True
        with pytest.raises(Refusal, match=WORDS):
            await plane.execute(CreateConnector("c", SOURCE))
        log.closed = False
        await plane.execute(CreateConnector("c", SOURCE))


async def test_a_command_whose_end_is_refused_stays_in_doubt() -> None:
    """The connector's next command first ends it. The same key then runs nothing again."""
    log = SmallRecords()
    actions = ClosingActions(log)
    async with plane_on(log, plugins=catalogued(), outside=actions) as plane:
        await plane.execute(CreateConnector("s", SINK))
        await plane.execute(StopConnector("s"))
        with pytest.raises(LogNotUsable, match=WORDS):
            await plane.execute(ResetOffsets("s"), key="k")
        with pytest.raises(LogNotUsable, match=WORDS):
            await plane.execute(ResumeConnector("s"))
        log.closed = False
        await plane.execute(ResumeConnector("s"))
        assert not plane.state.commands["k"].unfinished
        performed = len(actions.performed)
        await plane.execute(ResetOffsets("s"), key="k")
        assert len(actions.performed) == performed


async def test_refusals_by_the_log_are_limited() -> None:
    """Such commands cannot fill the log: their records count as those of other refusals."""
    log = SmallRecords()
    settings = Settings(limits=CommandLimits(refusals_per_minute=2))
    async with plane_on(log, settings, plugins=catalogued()) as plane:
        for _ in range(5):
            with pytest.raises(Refusal, match=WORDS):
                await plane.execute(CreateConnector("c", SOURCE | {"large": LARGE}))
    assert len(await written_texts(log, COMMANDS)) == 2
