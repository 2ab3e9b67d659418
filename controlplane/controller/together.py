"""Asking once for many: those who come while an answer is under way share the next one."""

import asyncio
from collections.abc import Awaitable, Callable


class Together:
    """Does something on behalf of all who want it done after they have come.

    What began before somebody came is no use to him, and so he waits for the next time; all who
    wait by then share it. Who goes away does not end it for the others.
    """

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._now: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Return when it has been done once more. Raises whatever it raises then."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now))
            self._next.add_done_callback(_heard)
        await asyncio.shield(self._next)

    async def _after(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        self._now, self._next = self._next, None
        await self._act()


def _heard(task: asyncio.Task[None]) -> None:
    """All who wanted it may have gone away: then nobody is left to hear how it failed."""
    if not task.cancelled():
        task.exception()
