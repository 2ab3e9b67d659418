"""Operations that Python carries out for a piece of work: what it costs, without a clock."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Bytecode instructions and calls of built-in functions in this thread.

    A loop inside of a built-in function counts as one call.
    """
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    def profiled(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event == "c_call"

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(profiled)
    try:
        work()
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
    return count


SLACK = 1.25
"""Above twice the operations for twice the size: sorting costs a logarithm more."""


def assert_linear(prepared: Callable[[int], Callable[[], object]], size: int) -> None:
    """Twice the size takes twice the operations. `prepared` makes the work of a size.

    The work is done once before it is counted, so that caches are warm.
    """
    prepared(size)()
    once, twice = operations(prepared(size)), operations(prepared(2 * size))
    assert twice < 2 * SLACK * once, f"{size}: {once} operations, {2 * size}: {twice}"
