"""An event loop whose clock is simulated: it jumps to the next timer instead of waiting."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StandstillError(AssertionError):
    """Every task waits, and no timer is left: nothing can happen any more."""


class JumpingSelector(selectors.SelectSelector):
    """Takes no time: a wait for a timer moves the clock."""

    now = 0.0
    """Simulated time of the loop, in seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; else move the clock to the next timer.

        Raises:
            StandstillError: there is none.
        """
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise StandstillError("everything waits, and nothing can happen any more")
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Loop with such a selector. No thread may be waited for: its time is real."""

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
