"""Waits for brokers or a log that are away."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from controlplane.event_loop import backoff
from controlplane.logs.log import LogUnavailable

T = TypeVar("T")

RETRY_MS = 50, 2_000
"""First and longest pause between two attempts."""


async def until_available(
    attempt: Callable[[], Awaitable[T]],
    pauses_ms: tuple[int, int] = RETRY_MS,
    patience_ms: float = inf,
) -> T:
    """Return the result of an attempt, repeated while the brokers or the log are unavailable.

    The limit of this call is `patience_ms`. A caller with a deadline of its own cancels the call.

    Raises:
        LogUnavailable: the outage lasts longer than `patience_ms`.
        LogError: the brokers or the log refuse.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + patience_ms / 1_000
    pauses = backoff(*pauses_ms)
    while True:
        try:
            return await attempt()
        except LogUnavailable:
            pause = next(pauses)
            if now() + pause > deadline:
                raise
            await asyncio.sleep(pause)
