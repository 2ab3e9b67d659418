"""Target state of a running task. The task obeys between two calls of the author's code."""

import asyncio
from collections.abc import Callable


class TaskControl:
    """Run, pause or stop: the last call wins, and a stop is final."""

    def __init__(self, *, paused: bool) -> None:
        self.paused = paused
        self.stopping = False
        self._callbacks: list[Callable[[], None]] = []
        self._when_abandoned: list[Callable[[], None]] = []
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()

    def pause(self) -> None:
        """Pause after the present call of the author's code."""
        self.paused = True
        self._wake()

    def resume(self) -> None:
        """End a pause, and wake the task."""
        self.paused = False
        self._wake()

    def stop(self) -> None:
        """Stop after the present call; a call that can be cancelled is cancelled."""
        self.stopping = True
        for callback in self._callbacks:
            callback()
        self._stopped.set()
        self._wake()

    def when_stopped(self, callback: Callable[[], None]) -> None:
        """Register a function that `stop` calls: it ends a wait in the task's thread."""
        self._callbacks.append(callback)

    def abandon(self) -> None:
        """Call the functions of `when_abandoned`: the task is left behind."""
        for callback in self._when_abandoned:
            callback()

    def when_abandoned(self, callback: Callable[[], None]) -> None:
        """Register a function that `abandon` calls: the task's code may hang."""
        self._when_abandoned.append(callback)

    async def until_stopped(self) -> None:
        """Wait until the task shall stop."""
        await self._stopped.wait()

    async def while_paused(self) -> None:
        """Wait until the task shall go on or stop."""
        while self.paused and not self.stopping:
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()  # wakes the present waits, and no later one
        self._changed.clear()
