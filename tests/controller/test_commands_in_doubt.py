"""Retries of commands in doubt, when the command queue is full or the log fails again."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest

from controlplane.controller import CommandLimits
from controlplane.controller.admission import QueueLocks, TooMany
from controlplane.controller.commands_in_doubt import CommandsInDoubt
from controlplane.core.codec.command_log import request_of
from controlplane.core.commands import CommandRequest
from controlplane.core.decide.recovery import ReportedFailure
from controlplane.core.records import CommandTrace
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane
from tests.controller.scene import plane_on
from tests.controller.test_delayed_rollback import LATER, UnreachableKafka, around, fails
from tests.outages import until
from tests.worker.worker_fixture import RecordedNotices

FAILURE = ReportedFailure("Kafka is away", "set-offsets")
AT_ONCE = CommandLimits(retry_first_ms=1, retry_last_ms=1)


class CountingLocks(QueueLocks):
    """Locks that count the refused callers."""

    refusals = 0

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of a queue, or count the refusal."""
        try:
            async with super().turn(name):
                yield
        except TooMany:
            self.refusals += 1
            raise


class Endings:
    """Ends commands: records the failure of each, and raises while the log is `away`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.away = False
        self.failures: list[ReportedFailure | None] = []
        self.commands: Mapping[str, CommandTrace] | None = None
        """Commands of the log; None: those of the plane."""

    async def state(self) -> ClusterState:
        """Return the state of the plane."""
        if self.commands is None:
            return self._plane.state
        return msgspec.structs.replace(self._plane.state, commands=self.commands)

    async def end(
        self, _: CommandRequest, __: CommandTrace, failure: ReportedFailure | None
    ) -> None:
        """Record the failure that the caller of the command got."""
        self.failures.append(failure)
        if self.away:
            raise LogUnavailable("the log is away")


def in_doubt(
    endings: Endings, locks: QueueLocks, notices: RecordedNotices | None = None
) -> CommandsInDoubt:
    """Return commands in doubt that `endings` ends."""
    return CommandsInDoubt(
        locks,
        AT_ONCE,
        notices or RecordedNotices(),
        read_to_end=endings.state,
        end=endings.end,
        fenced=lambda _: None,
    )


async def test_a_full_queue_does_not_end_the_retries() -> None:
    """A retry that finds no room among the waiting commands is followed by another one."""
    async with plane_on(MemoryLog(), LATER, **around(UnreachableKafka())) as plane:
        await fails(plane)
        endings, locks = Endings(plane), CountingLocks(1)
        commands = in_doubt(endings, locks)
        request = request_of(plane.state.commands["k"])
        assert request is not None
        async with locks.turn("another connector"):
            commands.add(request, FAILURE)
            await until(lambda: locks.refusals > 1)
        await until(lambda: not commands.by_queue)
        assert endings.failures == [FAILURE]


async def test_a_failed_claim_keeps_the_reported_failures() -> None:
    """After a failed claim, the next claim still ends the command with its caller's failure."""
    async with plane_on(MemoryLog(), LATER, **around(UnreachableKafka())) as plane:
        await fails(plane)
        endings = Endings(plane)
        commands = in_doubt(endings, QueueLocks(1))
        request = request_of(plane.state.commands["k"])
        assert request is not None
        commands.add(request, FAILURE)
        commands.stop_retrying()
        endings.away = True
        with pytest.raises(LogUnavailable):
            await commands.end_all()
        endings.away = False
        await commands.end_all()
        assert endings.failures == [FAILURE, FAILURE]
        assert not commands.by_queue


async def test_an_unreadable_command_is_reported_once() -> None:
    """Each attempt meets the record of a newer version; only the first one reports it."""
    async with plane_on(MemoryLog(), LATER, **around(UnreachableKafka())) as plane:
        await fails(plane)
        trace = plane.state.commands["k"]
        assert trace.accepted is not None
        accepted = msgspec.structs.replace(trace.accepted, command={"type": "of-tomorrow"})
        unreadable = msgspec.structs.replace(trace, accepted=accepted)
        endings, notices = Endings(plane), RecordedNotices()
        endings.commands = {"k": unreadable}
        commands = in_doubt(endings, QueueLocks(1), notices)
        for _ in range(3):
            await commands.end_all()
        assert notices.warnings == ["command_record_unreadable"]
        assert notices.lines[0][1]["command_id"] == "k"
        assert not endings.failures
