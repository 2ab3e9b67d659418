"""Slices of long work in the event loop: between two of them other tasks get their turn."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.01
"""Longest time for which such work holds the event loop."""


async def sliced(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate in slices of `SLICE_S`. Cancelling the caller ends the work between two slices.

    Making one item must not take long; the caller's own work on an item counts as well.
    """
    began = perf_counter()
    for item in items:
        yield item
        if perf_counter() - began > SLICE_S:
            await asyncio.sleep(0)
            began = perf_counter()
