"""Signal for background work: this process is idle, because it waits for a worker or a client."""

import asyncio
from contextlib import suppress

LONGEST_S = 0.01
"""Longest wait in seconds for an idle moment. A longer wait gives other clients more time to change
the connector. The records of a command would then differ from its plan."""

DELIVERY_S = 0.0003
"""Time in seconds in which an answer usually leaves this process. Work in this time delays it."""


class IdleSignal:
    """Wakes background tasks when a request has been sent to a worker.

    Until the worker answers, this process has no other work. A caller may send one command after
    the other. Background work right after an answer would delay its next command.
    """

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        """Set and cleared in one call, so that it wakes the tasks that wait now, and none that
        waits later."""

    def begin(self) -> None:
        """Wake the tasks that wait; they run once the calling task awaits something."""
        self._begun.set()
        self._begun.clear()

    async def wait(self) -> None:
        """Wait for the next idle moment, at most `LONGEST_S`."""
        await self._wait(LONGEST_S)

    async def delivered(self) -> None:
        """Wait until an answer has probably left, or an idle moment begins."""
        await self._wait(DELIVERY_S)

    async def _wait(self, longest_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._begun.wait()
