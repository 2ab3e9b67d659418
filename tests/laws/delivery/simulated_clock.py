"""An event loop whose clock is simulated: it jumps to the next timer instead of waiting."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StandstillError(AssertionError):
    """Raised when every task waits and no timer is left."""


class JumpingSelector(selectors.SelectSelector):
    """Selector that takes no time: a wait for a timer advances the clock."""

    now = 0.0
    """Simulated time of the loop, in seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return ready events; else advance the clock to the next timer.

        Raises: StandstillError if no timer is left.
        """
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise StandstillError("everything waits, and nothing can happen any more")
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop with a `JumpingSelector`. No task may wait for a thread, whose time is real."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the simulated time, in seconds."""
        return self._jumping.now


def simulated(life: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a simulated clock."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(life)
