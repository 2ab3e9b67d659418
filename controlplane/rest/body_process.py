"""Bodies are read where they cannot hold up the event loop: larger ones in a thread or a process.

A process ends with its body. It is started with the module path of this one, reads a job from its
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

INLINE_BYTES = 1 << 12
"""Longest body that is read in the event loop, whatever is in it: some 10 ms."""

THREAD_BYTES = 1 << 14
"""Longest body that is read in a thread, whatever is in it: some 50 ms."""

PLAIN_BYTES = 1 << 20
"""Longest body that is read in a thread if it is plain, which is a hundred times as fast."""

PIECE_BYTES = 1 << 18
"""Bytes that are handed to a process at once: the system copies them in the event loop."""

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
        """Read a body: here where that is quick, else in a thread or in a process.

        `reading` and its result can be pickled.

        Raises:
            RestError: the body is refused.
            TooBusy: too many bodies are read just now.
        """
        if body is None or len(body) <= INLINE_BYTES:
            return reading(body or b"")
        if len(body) <= PLAIN_BYTES:
            with suppress(Unread):
                whole = body if len(body) <= THREAD_BYTES else LargeBody(body)
                return await asyncio.to_thread(reading, whole)
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
        assert process.stdin is not None
        assert process.stdout is not None
        await hand_over(process.stdin, pickle.dumps(work))
        done = await process.stdout.read()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    result, refusal = pickle.loads(done)  # noqa: S301 - of our own process
    if refusal is not None:
        raise refusal
    answer: T = result
    return answer


async def hand_over(stdin: asyncio.StreamWriter, job: bytes) -> None:
    """Write a job to a process in pieces, as fast as the process reads it."""
    pieces = memoryview(job)
    with suppress(ConnectionError):  # the process has ended: its empty output tells
        for start in range(0, len(job), PIECE_BYTES):
            stdin.write(pieces[start : start + PIECE_BYTES])
            await stdin.drain()
    stdin.close()


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
