"""Where the logs of these laws lie, each opened anew by every process; and how they break."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from pathlib import Path
from typing import NamedTuple

from controlplane.core.entry import Position
from controlplane.logs.log import Log, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog

Place = Callable[[], AbstractAsyncContextManager[Log]]
"""Opens the log of a cluster, as every new process does."""


class Outage(NamedTuple):
    """The log is away for a while."""

    behind: int
    """So many batches are appended before."""
    batches: int
    """So many are not."""
    written: bool
    """Whether the first of those is there all the same, and only nobody was told."""


class Breaking:
    """A log, mixed with what may go wrong with its writer's batches."""

    outage: Outage | None = None

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, unless the log is away."""
        away = self.outage
        if epoch is None or away is None:
            return await super().append(records, epoch)  # type: ignore[misc,no-any-return]
        if away.behind:
            self.outage = away._replace(behind=away.behind - 1)
            return await super().append(records, epoch)  # type: ignore[misc,no-any-return]
        if away.written:
            await super().append(records, epoch)  # type: ignore[misc]
        self.outage = Outage(0, away.batches - 1, written=False) if away.batches > 1 else None
        raise LogUnavailable("it is away")


class BreakingMemory(Breaking, MemoryLog):
    """In memory."""


class BreakingFile(Breaking, SqliteLog):
    """In a SQLite file, without the writer lock: fencing alone keeps two writers apart.

    That is so where the lock does not reach, on some network file systems.
    """

    def writer_lock(self) -> AbstractContextManager[None]:
        """Lock nothing."""
        return nullcontext()


def in_memory() -> Place:
    """A new log, which is there as long as somebody remembers it."""
    log = BreakingMemory()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Log]:
        yield log

    return opened


def in_file(path: Path) -> Place:
    """A new log in a SQLite file."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Log]:
        log = await BreakingFile.open(path)
        try:
            yield log
        finally:
            await log.close()

    return opened
