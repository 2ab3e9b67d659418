"""Operations that Python carries out for a piece of work: what it costs, without a clock."""

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
"""Most operations for which something may hold the event loop at a time: some 10 ms."""


def longest_turn(work: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Operations of the longest callback of the event loop in which a coroutine is run.

    The coroutine is run once before, so that caches are warm.
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
"""The event loop runs each callback in this function."""


SLACK = 1.25
"""Above twice the operations for twice the size: sorting costs a logarithm more."""


def assert_linear(prepared: Callable[[int], Callable[[], object]], size: int) -> None:
    """Twice the size takes twice the operations. `prepared` makes the work of a size.

    The work is done once before it is counted, so that caches are warm.
    """
    prepared(size)()
    once, twice = operations(prepared(size)), operations(prepared(2 * size))
    assert twice < 2 * SLACK * once, f"{size}: {once} operations, {2 * size}: {twice}"
