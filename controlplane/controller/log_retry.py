"""Trying again while the log is away, for a bounded time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.controller.admission import CommandLimits
from controlplane.logs.log import LogUnavailable

T = TypeVar("T")


async def retried(attempt: Callable[[], Awaitable[T]], limits: CommandLimits) -> T:
    """The result of an attempt, made again as long as the log is unavailable.

    Raises:
        LogUnavailable: it was for longer than `limits.write_patience_ms`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.write_patience_ms / 1_000
    pause_ms = limits.retry_first_ms
    while True:
        try:
            return await attempt()
        except LogUnavailable:
            if loop.time() + pause_ms / 1_000 > deadline:
                raise
        await asyncio.sleep(pause_ms / 1_000)
        pause_ms = min(2 * pause_ms, limits.retry_last_ms)
