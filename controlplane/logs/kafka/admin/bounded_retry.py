"""Retries of admin requests, bounded in time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from controlplane.event_loop import backoff
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogUnavailable

T = TypeVar("T")


async def retried(attempt: Callable[[], Awaitable[T]], limits: ReadLimits) -> T:
    """Return the result of an attempt, repeated while the cluster is unavailable.

    A running attempt is cancelled after `admin_patience_ms`. A broker may accept connections and
    not answer. It must not delay the caller for longer than a broker that is down.

    Raises:
        LogUnavailable: `admin_patience_ms` has passed. The error is that of the last attempt.
    """
    trouble = LogUnavailable(
        f"the cluster does not answer within {limits.admin_patience_ms} ms: check the address, or "
        "raise reader.admin.patience.ms"
    )
    pauses = backoff(limits.retry_backoff_ms, limits.retry_backoff_max_ms)
    try:
        async with asyncio.timeout(limits.admin_patience_ms / 1_000):
            while True:
                try:
                    return await attempt()
                except LogUnavailable as failure:
                    trouble = failure
                await asyncio.sleep(next(pauses))
    except TimeoutError:
        raise trouble from None
