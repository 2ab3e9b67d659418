"""Commits of the trail: which records share one, and which a caller waits for."""

import asyncio
from collections.abc import Sequence

import pytest

from controlplane.attached import command_trail as trail_module
from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.core.commands import CommandRequest, PauseConnector
from controlplane.core.entry import Position
from controlplane.core.plan import Outcome, Plan
from controlplane.logs.log import LogNotUsable, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from tests.patience import PATIENCE_S

TOPIC = "commands"


class CommitLog(MemoryLog):
    """Log in memory that keeps the size of each append, and waits or fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []
        self.fails = False
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append as the log does once it is free, or fail."""
        await self.is_free.wait()
        if self.fails:
            raise LogUnavailable("full")
        self.commits.append(len(records))
        return await super().append(records, epoch)


def request(number: int) -> CommandRequest:
    """Request for a pause, with its number as its id."""
    return CommandRequest(
        command=PauseConnector("orders"), command_id=str(number), at_ms=1, principal="alice"
    )


async def opened() -> tuple[Trail, CommitLog]:
    """Trail in an empty log."""
    log = CommitLog()
    trail = await Trail.open(log, TOPIC, ClusterIdentity("id", "configs"), 1)
    log.commits.clear()
    return trail, log


async def test_an_end_shares_the_commit_of_the_next_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record *finished* comes first, and its caller waits for the common commit."""
    monkeypatch.setattr(trail_module, "COMMON_COMMIT_S", PATIENCE_S)
    trail, log = await opened()
    await trail.accepted(request(1), Plan(()), {})
    ending = asyncio.create_task(trail.finished(request(1), 2, Outcome(), {}))
    await asyncio.sleep(0)
    assert log.commits == [1]
    await trail.accepted(request(2), Plan(()), {})
    await ending
    assert log.commits == [1, 2]
    assert not trail.commands["1"].unfinished
    assert [*trail.commands] == ["1", "2"]
    keys = [entry.key async for batch in log.read([TOPIC]) for entry in batch.entries()]
    assert [b"2" in (key or b"") for key in keys] == [False, False, True]


async def test_an_end_without_a_next_command_is_committed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record *finished* waits a while for a command that could share its commit."""
    monkeypatch.setattr(trail_module, "COMMON_COMMIT_S", 0.01)
    trail, log = await opened()
    await trail.accepted(request(1), Plan(()), {})
    async with asyncio.timeout(PATIENCE_S):
        await trail.finished(request(1), 2, Outcome(), {})
    assert log.commits == [1, 1]
    assert not trail.commands["1"].unfinished


async def test_a_failed_commit_fails_all_of_its_records() -> None:
    """Each caller gets the error, and no record of a failed commit counts."""
    trail, log = await opened()
    await trail.accepted(request(1), Plan(()), {})
    log.fails = True
    ending = asyncio.create_task(trail.finished(request(1), 2, Outcome(), {}))
    await asyncio.sleep(0)
    with pytest.raises(LogUnavailable):
        await trail.accepted(request(2), Plan(()), {})
    with pytest.raises(LogUnavailable):
        await ending
    assert trail.commands["1"].unfinished
    assert "2" not in trail.commands
    log.fails = False
    await trail.accepted(request(3), Plan(()), {})
    assert log.commits == [1, 1]


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_cancelled_caller_does_not_cancel_the_commit(
    monkeypatch: pytest.MonkeyPatch, cancelled: int
) -> None:
    """The other caller of the same commit gets its outcome, and both records count."""
    monkeypatch.setattr(trail_module, "COMMON_COMMIT_S", 0.001)
    trail, log = await opened()
    await trail.accepted(request(1), Plan(()), {})
    log.is_free.clear()
    callers = [
        asyncio.create_task(trail.finished(request(1), 2, Outcome(), {})),
        asyncio.create_task(trail.accepted(request(2), Plan(()), {})),
    ]
    await asyncio.sleep(0.01)  # the second caller commits; the first no longer waits for others
    callers[cancelled].cancel()
    await asyncio.sleep(0)
    log.is_free.set()
    async with asyncio.timeout(PATIENCE_S):
        await callers[1 - cancelled]
        with pytest.raises(asyncio.CancelledError):
            await callers[cancelled]
    assert log.commits == [1, 2]
    assert [trace.unfinished for trace in trail.commands.values()] == [False, True]


async def test_a_log_of_connectors_is_no_trail() -> None:
    """Two control planes would end each other's commands; the log stays as it is."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    with pytest.raises(LogNotUsable, match="topic connect-configs"):
        await Trail.open(log, TOPIC, ClusterIdentity("id", "configs"), 1)
    assert [*await log.topics()] == ["connect-configs"]
