"""Whose turn it is: the commands of one connector run one after the other, in order.

Commands of different connectors run side by side. So that a flood cannot take all memory, only so
many may wait; whoever comes then is told at once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooMany(Exception):
    """More commands wait than may; the asker should come back later."""


class Turns:
    """Locks by name, which exist as long as somebody has or wants one."""

    def __init__(self, waiting: int) -> None:
        self._room = waiting
        """For how many more there is room."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for one's turn, first come, first served.

        Raises:
            TooMany: there is no room to wait in.
        """
        if not self._room:
            waiting = self._wanted.total()
            raise TooMany(f"{waiting} commands are waiting already: try again later")
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._room -= 1
        self._wanted[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._room += 1
            self._wanted[name] -= 1
            if not self._wanted[name]:
                del self._wanted[name], self._locks[name]
