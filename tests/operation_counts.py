"""Number of Python operations of a piece of work: its cost, measured without a clock."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Bytecode instructions and calls of built-in functions in this thread.

    A loop inside of a built-in function counts as one call.
    """
    return _counted(work).all


TURN = 200_000
"""Limit for one callback of the event loop: operations that take some 10 ms."""


def longest_turn(work: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Operations of the longest callback of the event loop that runs a coroutine.

    The coroutine runs once before, to warm the caches.
    """
    asyncio.run(work())
    return _counted(lambda: asyncio.run(work())).longest_turn


class _Counts:
    """Operations in all, and in the longest callback of an event loop."""

    def __init__(self) -> None:
        self.all = 0
        self.longest_turn = 0
        self._before = 0

    def begin_turn(self) -> None:
        """Remember the count at the start of a callback."""
        self._before = self.all

    def end_turn(self) -> None:
        """Keep the largest count of one callback."""
        self.longest_turn = max(self.longest_turn, self.all - self._before)


def _counted(work: Callable[[], object]) -> _Counts:
    counts = _Counts()

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts.all += event == "opcode"
        if frame.f_code is _CALLBACK:
            if event == "call":
                counts.begin_turn()
            elif event == "return":
                counts.end_turn()
        return traced

    def profiled(_: FrameType, event: str, __: Any) -> None:
        counts.all += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(profiled)
    try:
        work()
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
    return counts


_CALLBACK = asyncio.Handle._run.__code__
"""Function in which the event loop runs each callback."""


SLACK = 1.25
"""Tolerance when twice the size should take twice the operations: sorting adds a logarithm."""


def assert_linear(prepared: Callable[[int], Callable[[], object]], size: int) -> None:
    """Check that twice the size takes twice the operations. `prepared` makes the work of a size.

    The work runs once before it is counted, to warm the caches.
    """
    prepared(size)()
    once, twice = operations(prepared(size)), operations(prepared(2 * size))
    assert twice < 2 * SLACK * once, f"{size}: {once} operations, {2 * size}: {twice}"
