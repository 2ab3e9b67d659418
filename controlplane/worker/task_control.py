"""Target state of a running task. The task obeys between two calls of the author's code."""

import asyncio


class TaskControl:
    """Run, pause or stop: the last call wins, and a stop is final."""

    def __init__(self, *, paused: bool) -> None:
        self.paused = paused
        self.stopping = False
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()

    def pause(self) -> None:
        """Pause after the present call."""
        self.paused = True
        self._wake()

    def resume(self) -> None:
        """Go on."""
        self.paused = False
        self._wake()

    def stop(self) -> None:
        """Stop after the present call; a call that can be cancelled is cancelled."""
        self.stopping = True
        self._stopped.set()
        self._wake()

    async def until_stopped(self) -> None:
        """Wait until the task shall stop."""
        await self._stopped.wait()

    async def while_paused(self) -> None:
        """Wait until the task shall go on or stop."""
        while self.paused and not self.stopping:
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()
