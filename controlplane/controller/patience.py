"""Deadlines that next to nobody reaches, all of them looked at together a few times a second.

Each command has some: its asker's, and one for each record until it is read back. A timer for each,
set and taken away again, would cost the event loop as much as deciding the command.
"""

import asyncio
from types import TracebackType
from typing import Any, Self

LOOK_MS = 250
"""How late one may be told: hardly anything beside the shortest patience there is."""


class Patience:
    """All who wait in one event loop: `with patience.within(30_000): …`."""

    def __init__(self) -> None:
        self._waiting: set[Within] = set()
        self._timer: asyncio.TimerHandle | None = None

    def within(self, limit_ms: float) -> "Within":
        """Raise `TimeoutError` out of a block that takes longer, as `asyncio.timeout` does."""
        return Within(self, limit_ms / 1_000)

    def begin(self, one: "Within") -> None:
        """Look after one more."""
        self._waiting.add(one)
        self._look_again()

    def end(self, one: "Within") -> None:
        """Look after him no more."""
        self._waiting.discard(one)

    def _look_again(self) -> None:
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            soonest = min(one.limit_s for one in self._waiting)
            self._timer = loop.call_later(min(soonest, LOOK_MS / 1_000), self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for one in [one for one in self._waiting if one.ends_s <= now]:
            one.expire()
        self._look_again()


class Within:
    """One who waits."""

    def __init__(self, patience: Patience, limit_s: float) -> None:
        self.limit_s = limit_s
        self.ends_s = 0.0
        self._patience = patience
        self._expired = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None  # only tasks wait
        self._task, self._cancelling = task, task.cancelling()
        self.ends_s = asyncio.get_running_loop().time() + self.limit_s
        self._patience.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patience.end(self)
        assert self._task is not None  # set on the way in
        ours = self._expired and self._task.uncancel() <= self._cancelling
        if ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    def expire(self) -> None:
        """It has taken too long: end what it waits for."""
        if not self._expired and self._task is not None:
            self._expired = True
            self._task.cancel()
