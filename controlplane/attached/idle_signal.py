"""Signal of idle moments: work in the background delays no command then."""

import asyncio
from contextlib import suppress

LONGEST_S = 0.01
"""Longest wait in seconds for an idle moment. A longer wait gives other clients more time to change
the connector, and then the records of a command differ from its plan."""


class IdleSignal:
    """Signal that a worker processes a request: until it answers, this process has time.

    A caller that sends commands one after the other sends the next one as soon as it has an answer.
    """

    def __init__(self) -> None:
        self._begun = asyncio.Event()
        """Set and cleared at once: that releases the tasks that wait now, and no later one."""

    def begin(self) -> None:
        """Release the tasks that wait; they run once the caller's task waits itself."""
        self._begun.set()
        self._begun.clear()

    async def wait(self) -> None:
        """Wait for the next idle moment, at most `LONGEST_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                await self._begun.wait()
