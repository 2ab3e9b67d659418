"""Answers before the end of a command is recorded, on a log with fast batches."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from controlplane.controller import CommandLimits, NotWritten
from controlplane.core import views
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    CreateConnector,
    OffsetChange,
    PauseConnector,
    ResetOffsets,
    ResetTopics,
    RestartConnector,
    RestoreConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.decide.recovery import may_end_later
from controlplane.core.entry import Position
from controlplane.core.plan import DeleteGroup, Outcome, Plan, Step
from controlplane.core.records import Target
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from tests.controller.scene import COMMANDS, configured, plane_on
from tests.outages import until
from tests.patience import NEVER_RETRIED
from tests.rest.served_history import client_of
from tests.worker.worker_fixture import RecordedNotices

HELD = Settings(limits=CommandLimits(end_delay_ms=3_600_000, retry_first_ms=1, retry_last_ms=1))
"""Settings under which only the next command writes a waiting end: no test reaches the delay."""
AT_ONCE = Settings(limits=CommandLimits(end_delay_ms=1))
PAUSE_A, PAUSE_B = PauseConnector("a"), PauseConnector("b")


class BatchLog(MemoryLog):
    """Log with fast batches. It keeps the names of the records of each batch, and may fail."""

    has_fast_batches = True

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.failures: list[Exception | None] = []
        """Failures of the next appends, in order; None: that append succeeds."""
        self.open = asyncio.Event()
        """Appends wait for it."""
        self.open.set()
        self.appending = 0
        """Number of appends under way."""

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append a batch, unless a failure is due."""
        self.appending += 1
        try:
            await self.open.wait()
        finally:
            self.appending -= 1
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        positions = await super().append(records, epoch)
        self.batches.append([_name(record) for record in records])
        return positions


def _name(record: Record) -> str:
    """Key of a record; in the command topic the type, and the key, which is the command's id."""
    key = (record.key or b"").decode()
    if record.topic == COMMANDS:
        return f"{msgspec.json.decode(record.value or b'')['type']} {key}"
    return key


@pytest.fixture
async def log() -> BatchLog:
    """Log with the connectors `a` and `b`, and no batches so far."""
    log = BatchLog()
    async with plane_on(log):  # creates the topics
        await log.append([configured("a"), configured("b")])
    log.batches.clear()
    return log


def is_finished(plane: ControlPlane, number: int) -> bool:
    """True if the state has the end of the n-th command."""
    trace = plane.state.commands.get(f"command-{number}")
    return trace is not None and trace.finished is not None


async def test_an_end_shares_the_batch_of_the_next_command(log: BatchLog) -> None:
    """A command is answered before its end is written; the next one's first batch includes it."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A)
        assert log.batches == [["accepted command-1"], ["target-state-a"]]
        await plane.execute(PAUSE_B)
        assert log.batches[2:] == [
            ["finished command-1", "accepted command-2"],
            ["target-state-b"],
        ]
        assert is_finished(plane, 1)
    assert log.batches[4:] == [["finished command-2"]]


async def test_ends_precede_the_steps_of_the_same_connector(log: BatchLog) -> None:
    """The end of a command is in the log before the next step about its connector.

    Otherwise, a crash would let recovery repeat the earlier command after the later one.
    """
    async with plane_on(log, HELD) as plane:
        for command in (PAUSE_A, ResumeConnector("a"), PAUSE_A):
            await plane.execute(command)
    names = [name for batch in log.batches for name in batch]
    ends = [names.index(f"finished command-{number}") for number in (1, 2)]
    steps = [index for index, name in enumerate(names) if name == "target-state-a"]
    assert steps[0] < ends[0] < steps[1] < ends[1] < steps[2]


async def test_an_end_without_a_next_command_is_written_soon(log: BatchLog) -> None:
    """After `end_delay_ms`, the end is a batch of its own."""
    async with plane_on(log, AT_ONCE) as plane:
        await plane.execute(PAUSE_A)
        await until(lambda: is_finished(plane, 1))
        assert log.batches == [["accepted command-1"], ["target-state-a"], ["finished command-1"]]


async def test_a_reader_that_leaves_spoils_no_command(log: BatchLog) -> None:
    """A cancelled reader of the trail leaves a command alone whose append it awaited."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A)
        log.open.clear()
        command = asyncio.create_task(plane.execute(PAUSE_B))
        await until(lambda: log.appending > 0)
        readers = [asyncio.create_task(plane.write_ends()) for _ in range(2)]
        await asyncio.sleep(0)  # both wait now
        readers[0].cancel()
        await asyncio.wait(readers[:1])
        log.open.set()
        await asyncio.gather(command, readers[1])
        assert log.batches[2:] == [["finished command-1", "accepted command-2"], ["target-state-b"]]
        assert is_finished(plane, 1)


async def test_a_reader_that_leaves_loses_no_end(log: BatchLog) -> None:
    """The ends that a cancelled reader has begun to write precede the next steps."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A)
        log.open.clear()
        reader = asyncio.create_task(plane.write_ends())
        await until(lambda: log.appending > 0)
        reader.cancel()
        await asyncio.wait([reader])
        log.open.set()
        await plane.execute(ResumeConnector("a"))
        names = [name for batch in log.batches for name in batch]
        assert names.index("finished command-1") < names.index("accepted command-2")


async def test_the_trail_shows_the_ends_of_answered_commands(log: BatchLog) -> None:
    """`GET /commands` writes the waiting ends first."""
    async with plane_on(log, HELD) as plane, client_of(plane.app) as client:
        await plane.execute(PAUSE_A)
        (row,) = (await client.get("/commands")).json()["commands"]
        assert row["outcome"] == "done"


async def test_an_idempotency_key_keeps_the_answer_in_the_log(log: BatchLog) -> None:
    """A command with a key is answered after its end: a later process must repeat the answer."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A, key="k")
        assert log.batches == [["accepted k"], ["target-state-a"], ["finished k"]]


RECORDS = Plan((Step("set", ()),), Outcome())
WITH_ACTION = Plan((Step("delete", action=DeleteGroup("a", "connect-a")),), Outcome())


@pytest.mark.parametrize(
    ("command", "plan", "expected"),
    [
        (PAUSE_A, RECORDS, True),
        (StopConnector("a"), RECORDS, True),
        (CreateConnector("a", {"connector.class": "lab.Source"}), RECORDS, True),
        (AlterOffsets("a", (OffsetChange({"p": 1}, {"o": 1}),)), RECORDS, True),
        (ResetOffsets("a"), WITH_ACTION, False),
        (ResetTopics("a"), RECORDS, False),
        (RestartConnector("a"), RECORDS, False),
        (RestoreConnector("a", {"connector.class": "lab.Source"}), RECORDS, False),
    ],
)
def test_ends_wait_only_if_recovery_would_change_nothing(
    command: AnyCommand, plan: Plan, *, expected: bool
) -> None:
    """Restarts are never repeated; workers change active topics; groups lie outside of the log.

    Tasks that an undo has resumed commit newer offsets, so it must not run again.
    """
    request = CommandRequest(command=command, command_id="c", at_ms=0, keyed=False)
    assert may_end_later(request, plan) is expected


async def test_an_outage_delays_only_the_end(log: BatchLog) -> None:
    """If the end cannot be written in time, the command is in doubt until a retry ends it."""
    limits = msgspec.structs.replace(NEVER_RETRIED, end_delay_ms=1)
    notices = RecordedNotices()
    async with plane_on(log, Settings(limits=limits), notices=notices) as plane:
        log.failures = [None, None, LogUnavailable("away"), LogUnavailable("away")]
        await plane.execute(PAUSE_A)
        await until(lambda: is_finished(plane, 1))
        assert not log.failures
        assert plane.failure is None


async def test_the_next_command_of_a_connector_waits_for_the_retried_end(log: BatchLog) -> None:
    """Otherwise, a crash would let recovery repeat the earlier command after the later one."""
    limits = CommandLimits(end_delay_ms=1, retry_first_ms=50, retry_last_ms=50)
    async with plane_on(log, Settings(limits=limits)) as plane:
        log.failures = [None, None, LogUnavailable("away")]
        await plane.execute(PAUSE_A)
        await until(lambda: not log.failures)
        await plane.execute(ResumeConnector("a"))
    assert log.batches[2:4] == [["finished command-1"], ["accepted command-2"]]


async def test_no_command_begins_after_an_end_that_failed(log: BatchLog) -> None:
    """A command that waits for an end is refused if the end fails; its repetition succeeds."""
    limits = msgspec.structs.replace(NEVER_RETRIED, end_delay_ms=1, retry_last_ms=60_000)
    async with plane_on(log, Settings(limits=limits)) as plane:
        await plane.execute(PAUSE_A)
        log.open.clear()
        await until(lambda: log.appending > 0)  # the end of the first command
        second = asyncio.create_task(plane.execute(ResumeConnector("a")))
        for _ in range(100):  # far more turns than it needs until it waits
            await asyncio.sleep(0)
        log.failures = [LogUnavailable("away")]
        log.open.set()
        with pytest.raises(NotWritten, match="the end of an earlier command is not written yet"):
            await second
        await plane.execute(ResumeConnector("a"))
        names = [name for batch in log.batches for name in batch]
        assert names.index("finished command-1") < names.index("accepted command-3")
        assert "accepted command-2" not in names


async def test_a_refused_neighbour_does_not_touch_an_end(log: BatchLog) -> None:
    """If the log refuses the shared batch, the end is written alone, and first."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A)
        refusal = LogNotUsable("a record is too large")
        log.failures = [refusal, None, refusal]
        with pytest.raises(Refusal, match="a record is too large"):
            await plane.execute(PAUSE_B)
        assert log.batches[2:] == [["finished command-1"], ["refused command-2"]]
        assert is_finished(plane, 1)


async def test_another_writer_ends_the_command(log: BatchLog) -> None:
    """The next writer records the end, and nothing else changes; the fenced plane steps down."""
    async with plane_on(log, HELD) as plane:
        await plane.execute(PAUSE_A)
        async with plane_on(log, HELD) as other:
            trace = other.state.commands["command-1"]
            assert trace.finished is not None
            assert trace.finished.outcome["ended"] == "done"
            assert views.target(other.state, "a") is Target.PAUSED
            await plane.write_ends()
            assert isinstance(plane.failure, Fenced)
    assert log.batches[2:] == [["target-state-a"], ["finished command-1"]]
