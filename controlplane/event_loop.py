"""Work in an event loop: clock and pauses, long work in slices or threads, tasks and signals."""

import asyncio
import signal
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextvars import copy_context
from threading import Event, Thread
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")


def now_ms() -> int:
    """Milliseconds since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


class OwnLoop:
    """The event loop in which an object was made, and in which all its methods must be called."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def check(self) -> None:
        """Check that this is the loop: in another one, a call may fail half done, or never return.

        Raises:
            RuntimeError: another loop runs the caller.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "a control plane belongs to the event loop that opened it: call it there with "
                "asyncio.run_coroutine_threadsafe"
            )


def backoff(first_ms: int, longest_ms: int) -> Iterator[float]:
    """Yield pauses in seconds without end; each is twice the previous one, up to `longest_ms`."""
    pause_ms = first_ms
    while True:
        yield pause_ms / 1_000
        pause_ms = min(2 * pause_ms, longest_ms)


SLICE_S = 0.01
"""Longest time for which sliced work holds the event loop, in seconds."""

SLICE_ITEMS = 1_000
"""Maximum number of items in a slice."""


async def sliced(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate in slices; other tasks run, and a cancellation acts, between two slices.

    A slice ends after `SLICE_S` or `SLICE_ITEMS`. It includes the caller's work on the items. The
    work on a single item must be short.
    """
    slice_ = _Slice()
    for item in items:
        yield item
        await slice_.end_if_over()


async def sliced_parts(parts: AsyncIterable[Iterable[T]]) -> AsyncIterator[T]:
    """Iterate over the items of all parts, in slices (`sliced`) that may span several parts."""
    slice_ = _Slice()
    async for items in parts:
        for item in items:
            yield item
            await slice_.end_if_over()


async def slices(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yield at most `SLICE_ITEMS` at a time, for work of about a microsecond per item.

    Other tasks run between two slices. `sliced` costs half a microsecond more per item.
    """
    for first in range(0, len(items), SLICE_ITEMS):
        if first:
            await asyncio.sleep(0)
        yield items[first : first + SLICE_ITEMS]


class _Slice:
    """Timer of one slice."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._items = 0

    async def end_if_over(self) -> None:
        """Count an item. At the end of the slice let other tasks run, then begin the next slice."""
        self._items += 1
        if self._items >= SLICE_ITEMS or perf_counter() - self._began > SLICE_S:
            await asyncio.sleep(0)
            self._began = perf_counter()
            self._items = 0


LARGE = 300
"""Number of parts above which work moves to a thread; work of this size takes some 20 ms. A part is
one config key with its value, or other work that takes as long."""


async def in_thread_if_large(work: Callable[[], T], parts: int) -> T:
    """Return the result of `work`; run it in a thread if it has more than `LARGE` parts.

    The work must be mostly pure Python: other code may hold the interpreter lock throughout.
    """
    return await asyncio.to_thread(work) if parts > LARGE else work()


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run long work in a thread; return its result.

    `work` receives a function that returns True once the caller has been cancelled. Then it should
    stop early.
    """
    stopped = Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()


async def in_joined_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run long work in a thread as `in_thread` does; return only after the thread has ended.

    So after a cancellation, the caller can close what the work uses.
    """
    stopped = Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stopped.is_set))
    running.add_done_callback(retrieve_exception)
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        stopped.set()
        await run_to_end(_end_of(running))
        raise
    return running.result()


async def _end_of(future: "asyncio.Future[Any]") -> None:
    await asyncio.wait({future})


def in_daemon_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Run work in a daemon thread: the process can exit although the work has not ended.

    A waiter that is cancelled does not cancel the work. A `CancelledError` of the work becomes a
    `RuntimeError`: asyncio would cancel the waiter with it.
    """
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(work())
        except (asyncio.CancelledError, FutureCancelled) as cancellation:
            failure = RuntimeError(f"The {name} raised {cancellation!r}")
            failure.__cause__ = cancellation
            result.set_exception(failure)
        except BaseException as error:  # noqa: BLE001 - the waiter raises it
            result.set_exception(error)

    Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    return result


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until the first ends; cancel the others, and raise the error of the first."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel_all(tasks)


async def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that must not stop half-way; raise a cancellation only after its end.

    An error of the work is raised in place of the cancellation.
    """
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def is_cancelled() -> bool:
    """True if the present asyncio task is being cancelled.

    A `CancelledError` does not show this: a library may raise one by itself.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancel_on_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP cancel the current task, which then closes what it has opened.

    An ignored SIGHUP stays ignored: `nohup` lets a process outlive its terminal. SIGHUP after
    another signal has no effect: a shell that exits sends it twice, and systemd after SIGTERM.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, lambda: task.cancelling() or task.cancel())


def retrieve_exception(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a finished future; a function for `add_done_callback`.

    Without this call, asyncio logs the exception if no caller awaits the future.
    """
    if not future.cancelled():
        future.exception()


async def cancel_all(tasks: Iterable["asyncio.Future[Any]"]) -> None:
    """Cancel tasks and wait for their end; ignore their results and errors."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def cancel(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end; raise its error, unlike `cancel_all`."""
    await cancel_all([task])
    if not task.cancelled():
        task.result()


async def close(iterator: AsyncIterator[Any]) -> None:
    """Close an async iterator now, not when it is garbage collected."""
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
