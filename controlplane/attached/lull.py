"""Lulls in which work that nobody waits for disturbs no command."""

import asyncio
from contextlib import suppress

LONGEST_S = 0.01
"""Longest wait in seconds for a lull. Each further millisecond is one in which somebody else may
change the connector, and make a command look different from its plan."""


class Lull:
    """Signal that a request is under way: until its answer comes, this process has time.

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
        """Wait for the next lull, at most `LONGEST_S`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                await self._begun.wait()
