"""Retry with back-off for reads from a cluster."""

import asyncio

from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable


class Retry:
    """Retry policy for transient failures; pauses grow until there is progress again.

    An unavailable log is retried for `patience_ms` (None: forever). A refusal is raised at once,
    unless there was progress before: then it is retried for
    `ReadLimits.refusal_patience_ms`. Damaged bytes are never read again.
    """

    def __init__(self, limits: ReadLimits, patience_ms: int | None) -> None:
        self._limits = limits
        self._patience_ms = patience_ms
        self._progress = 0
        self._since = 0.0
        self._pause_ms = 0

    async def after(self, failure: LogError, progress: int) -> None:
        """Wait before the next attempt, or raise `failure`. `progress` is a growing counter."""
        now = asyncio.get_running_loop().time()
        if self._pause_ms == 0 or progress > self._progress:
            self._progress, self._since = progress, now
            self._pause_ms = self._limits.retry_backoff_ms
        patience_ms = self._patience(failure)
        if patience_ms is not None and (now - self._since) * 1000 >= patience_ms:
            raise failure
        await asyncio.sleep(self._pause_ms / 1000)
        self._pause_ms = min(2 * self._pause_ms, self._limits.retry_backoff_max_ms)

    def _patience(self, failure: LogError) -> int | None:
        if isinstance(failure, LogUnavailable):
            return self._patience_ms
        if isinstance(failure, LogNotUsable) and self._progress:
            return self._limits.refusal_patience_ms
        return 0
