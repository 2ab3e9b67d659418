"""Write probe: a transaction without effect, which tests that the file is writable.

Health checks call it often, so all calls within a second share one transaction.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from controlplane.logs.log import LogUnavailable
from controlplane.logs.offset_rules import check_epoch
from controlplane.logs.sqlite.ledger import Ledger

ROOM_BYTES = 2**20
"""Free space, in bytes, below which a disk counts as full: one config may be that large."""

LASTS_S = 1.0
"""Lifetime of a result, in seconds."""


class WriteProbe:
    """Probe that tests a write and caches the result for `LASTS_S`."""

    def __init__(
        self, path: Path, submit: Callable[[Callable[[Ledger], int]], Awaitable[int]]
    ) -> None:
        self._path, self._file = path, path.absolute()
        self._submit = submit
        self._trial: asyncio.Task[int] | None = None
        self._valid_until = 0.0
        self._closed = False

    async def check(self, epoch: int | None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now."""
        if self._closed:
            raise LogUnavailable(f"The log {self._path} is closed: open it again")
        loop = asyncio.get_running_loop()
        trial = self._trial
        if trial is None or (trial.done() and loop.time() >= self._valid_until):
            trial = self._trial = asyncio.create_task(self._try_write(), name="write probe")
            trial.add_done_callback(self._trial_done)
        check_epoch(epoch, await asyncio.shield(trial))

    async def close(self) -> None:
        """Refuse further checks, and wait for the trial transaction that is running, if any."""
        self._closed = True
        if self._trial is not None:
            await asyncio.gather(self._trial, return_exceptions=True)

    async def _try_write(self) -> int:
        newest = await self._submit(_touch)
        free = os.statvfs(self._file)
        if free.f_bavail * free.f_frsize < ROOM_BYTES:
            raise LogUnavailable(
                f"The log {self._path} cannot grow, because the disk is full: make room"
            )
        return newest

    def _trial_done(self, trial: "asyncio.Task[int]") -> None:
        self._valid_until = trial.get_loop().time() + LASTS_S
        if not trial.cancelled():
            trial.exception()  # marks the error as retrieved; each caller of `check` gets it


def _touch(ledger: Ledger) -> int:
    """Insert a row and delete it, so that the commit has a page to write; return the epoch."""
    ledger.connection.execute("INSERT INTO fence VALUES (0)")
    ledger.connection.execute("DELETE FROM fence WHERE rowid = last_insert_rowid()")
    return ledger.epoch
