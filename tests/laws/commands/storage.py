"""Storage of the laws' logs, which every process opens anew, and its failures."""

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
from controlplane.logs.log import EmbeddedLog, LogNotUsable, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog

LogOpener = Callable[[], AbstractAsyncContextManager[EmbeddedLog]]
"""Opens the log of a cluster, as every new process does."""


class Outage(NamedTuple):
    """The log is unavailable for a while."""

    behind: int
    """Number of appended batches before the outage."""
    batches: int
    """Number of batches that are not appended."""
    written: bool
    """True if the first write of the outage is stored although it raises an error."""


class FaultInjection:
    """A log that a test makes unavailable to the writer; foreign records are always appended."""

    outage: Outage | None = None
    killed = False
    """True after the writer's process was killed: its clean-up appends nothing."""

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, unless the log is unavailable."""
        if self.killed and epoch is not None:
            raise LogNotUsable("the process was killed")
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


class BreakingMemory(FaultInjection, MemoryLog):
    """Log in memory whose appends can fail."""


class SeparateBatches(BreakingMemory):
    """Log in memory with separate batches for *accepted*, each step and *finished*, as on Kafka."""

    has_fast_batches = True


class BreakingFile(FaultInjection, SqliteLog):
    """Log in a SQLite file without the writer lock: only fencing keeps two writers apart.

    Some network file systems do not support the lock.
    """

    def writer_lock(self) -> AbstractContextManager[None]:
        """Take no lock, so that two writers can open the file."""
        return nullcontext()


def in_memory(kind: type[BreakingMemory] = BreakingMemory) -> LogOpener:
    """Log in memory, which lives as long as its opener."""
    log = kind()

    @asynccontextmanager
    async def opened() -> AsyncIterator[EmbeddedLog]:
        yield log

    return opened


def in_file(path: Path) -> LogOpener:
    """Log in a SQLite file, which is created if it is missing."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[EmbeddedLog]:
        log = await BreakingFile.open(path)
        try:
            yield log
        finally:
            await log.close()

    return opened
