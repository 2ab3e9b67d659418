"""Work in the event loop: long work in slices, and tasks that end together."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable
from threading import Event
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

SLICE_S = 0.01
"""Longest time for which such work holds the event loop."""


async def sliced(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate in slices of `SLICE_S`. Cancelling the caller ends the work between two slices.

    Making one item must not take long; the caller's own work on an item counts as well.
    """
    slice_ = _Slice()
    for item in items:
        yield item
        await slice_.end_if_over()


async def sliced_parts(parts: AsyncIterable[Iterable[T]]) -> AsyncIterator[T]:
    """Iterate in such slices over the items of several parts, however short the parts are."""
    slice_ = _Slice()
    async for items in parts:
        for item in items:
            yield item
            await slice_.end_if_over()


class _Slice:
    """Work that holds the event loop."""

    def __init__(self) -> None:
        self._began = perf_counter()

    async def end_if_over(self) -> None:
        """Let others use the loop if the slice has lasted long enough, and begin the next one."""
        if perf_counter() - self._began > SLICE_S:
            await asyncio.sleep(0)
            self._began = perf_counter()


LARGE = 300
"""Number of parts above which work moves to a thread (some 20 ms)."""


async def in_thread_if_large(work: Callable[[], T], parts: int) -> T:
    """Result of work on some number of parts; above `LARGE` parts, it runs in a thread.

    The work must be mostly pure Python: other code may hold the interpreter lock throughout.
    """
    return await asyncio.to_thread(work) if parts > LARGE else work()


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """The result of long work in a thread. The work gets a function to ask whether to stop early.

    The function answers True once the caller has been cancelled.
    """
    stopped = Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    finally:
        stopped.set()


async def first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until the first ends; the others are cancelled. Its error is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await ended(tasks)


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that must not stop half-way: a cancellation is raised when the work has ended."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def ended(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Cancel tasks and wait until they are gone."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def close(iterator: AsyncIterator[Any]) -> None:
    """End an iterator now, not when it is collected as garbage."""
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
