"""Waits for brokers or a log that are away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.clock import backoff
from controlplane.logs.log import LogUnavailable

T = TypeVar("T")

RETRY_FIRST_MS, RETRY_LAST_MS = 50, 2_000
"""Pauses between two attempts."""


async def until_available(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an attempt, repeated without end while the brokers are unavailable.

    A caller with a deadline cancels it.

    Raises:
        LogError: the brokers refuse.
    """
    pauses = backoff(RETRY_FIRST_MS, RETRY_LAST_MS)
    while True:
        try:
            return await attempt()
        except LogUnavailable:
            await asyncio.sleep(next(pauses))
