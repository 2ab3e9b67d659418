"""Large bodies, each read in a process of its own: reading one must not hold up the event loop.

The process ends with its body. It is started with the module path of this one, reads a job from its
input and writes the result to its output, both pickled.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from controlplane.rest.bodies.plain import LargeBody, Unread
from controlplane.rest.errors import RestError, TooBusy

T = TypeVar("T")

INLINE_BYTES = 1 << 14
"""Longest body that is read in the event loop, whatever is in it: some 50 ms."""

PLAIN_BYTES = 1 << 20
"""Longest body that is read in the event loop if it is plain, which is a hundred times as fast."""

PROCESSES_MAX = 4
"""Bodies that are read at once; a client with a further one is told to ask again."""

NICENESS = 10
"""Priority of such a process: below that of the process that serves."""

_RUN = "import sys; sys.path[:] = {path!r}; from controlplane.rest.body_process import main; main()"


class BodyProcesses:
    """Starts a process for each large body."""

    def __init__(self) -> None:
        self._running = 0

    async def read(self, reading: Callable[[bytes], T], body: bytes | None) -> T:
        """Read a body: here where that is quick, else in a process.

        `reading` and its result can be pickled.

        Raises:
            RestError: the body is refused.
            TooBusy: too many bodies are read just now.
        """
        if body is None or len(body) <= INLINE_BYTES:
            return reading(body or b"")
        if len(body) <= PLAIN_BYTES:
            with suppress(Unread):
                return reading(LargeBody(body))
        if self._running >= PROCESSES_MAX:
            raise TooBusy(f"{PROCESSES_MAX} large bodies are read just now: ask again")
        self._running += 1
        try:
            return await _in_process(partial(reading, body))
        finally:
            self._running -= 1


async def _in_process(work: Callable[[], T]) -> T:
    """The result of some work that another process does; it is killed if this is cancelled."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _RUN.format(path=sys.path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        done, _ = await process.communicate(pickle.dumps(work))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    result, refusal = pickle.loads(done)  # noqa: S301 - of our own process
    if refusal is not None:
        raise refusal
    answer: T = result
    return answer


def main() -> None:
    """Do the work that comes from the other process, and give it the result."""
    os.nice(NICENESS)
    work = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
    done: tuple[Any, RestError | None]
    try:
        done = work(), None
    except RestError as refusal:
        done = None, refusal
    sys.stdout.buffer.write(pickle.dumps(done))
