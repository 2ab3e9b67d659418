"""Reading of large bodies outside the event loop, in a thread or a process.

A process reads one body and ends. It imports from the module path of the serving process. It reads
a pickled job from its input and writes the pickled result to its output.
"""

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from controlplane.rest.bodies.fast_json import LargeBody, LargeBodyNotPlain
from controlplane.rest.errors import RestError, TooBusy

T = TypeVar("T")

INLINE_BYTES = 1 << 12
"""Longest body that is read in the event loop: some 10 ms in the worst case."""

THREAD_BYTES = 1 << 14
"""Longest body that is read in a thread: some 50 ms in the worst case."""

PLAIN_BYTES = 1 << 20
"""Longest plain body that is read in a thread; plain bodies are read a hundred times as fast."""

PIECE_BYTES = 1 << 18
"""Bytes that are written to a process at once. The event loop waits while the system copies
them."""

PROCESSES_MAX = 4
"""Maximum processes that read bodies concurrently; further bodies are refused until one ends."""

NICENESS = 10
"""Niceness of a reading process: its priority is below the serving process's."""

_RUN = (
    "import sys; sys.path[:] = {path!r}; "
    "from controlplane.rest.bodies.body_processes import main; main()"
)


class BodyProcesses:
    """Starts a process for each large body."""

    def __init__(self) -> None:
        self._running = 0

    async def read(self, reading: Callable[[bytes], T], body: bytes | None) -> T:
        """Read a body: at once if that is quick, else in a thread or a process.

        `reading` and its result must be picklable.

        Raises:
            RestError: the body is refused.
            TooBusy: too many bodies are being read, or their process has failed.
        """
        if body is None or len(body) <= INLINE_BYTES:
            return reading(body or b"")
        if len(body) <= PLAIN_BYTES:
            # A large body that is not plain raises `LargeBodyNotPlain`; a process then reads it.
            with suppress(LargeBodyNotPlain):
                whole = body if len(body) <= THREAD_BYTES else LargeBody(body)
                return await asyncio.to_thread(reading, whole)
        if self._running >= PROCESSES_MAX:
            raise TooBusy(f"{PROCESSES_MAX} large bodies are read just now: try again")
        self._running += 1
        try:
            return await _in_process(partial(reading, body))
        finally:
            self._running -= 1


async def _in_process(work: Callable[[], T]) -> T:
    """Run a job in another process and return its result; cancellation kills the process.

    Raises:
        RestError: the job has refused its body.
        TooBusy: the process cannot be started, was killed, or failed. Memory may be short.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _RUN.format(path=sys.path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as failure:  # out of files, processes or memory
        raise TooBusy(f"No process can be started for the body ({failure}): try again") from None
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        # The process reads its whole job before it writes anything, so neither side blocks.
        await hand_over(process.stdin, pickle.dumps(work))
        output = await process.stdout.read()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        code = process.returncode
        end = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
        raise TooBusy(f"The reader of the body {end}: try again")
    result, refusal = pickle.loads(output)  # noqa: S301 - of our own process
    if refusal is not None:
        raise refusal
    answer: T = result
    return answer


async def hand_over(stdin: asyncio.StreamWriter, job: bytes) -> None:
    """Write a job to a process in pieces, as fast as the process reads it."""
    pieces = memoryview(job)
    with suppress(ConnectionError):  # the process has ended: the reader sees its empty output
        for start in range(0, len(job), PIECE_BYTES):
            stdin.write(pieces[start : start + PIECE_BYTES])
            await stdin.drain()
    stdin.close()


def main() -> None:
    """Run the job from the parent process, and write the result."""
    os.nice(NICENESS)
    work = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own process
    outcome: tuple[Any, RestError | None]
    try:
        outcome = work(), None
    except RestError as refusal:
        outcome = None, refusal
    sys.stdout.buffer.write(pickle.dumps(outcome))
