"""When to try again, and after which pause."""

import asyncio

from controlplane.logs.kafka.limits import Limits
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable


class Retry:
    """Waits out what passes by itself; pauses grow until there is progress again.

    What cannot be reached is tried again for `patience_ms` (None: for ever). A refusal counts at
    once, unless there has been progress before: then it is believed only after
    `Limits.refusal_patience_ms`. Damaged bytes are never read again.
    """

    def __init__(self, limits: Limits, patience_ms: int | None) -> None:
        self._limits = limits
        self._patience_ms = patience_ms
        self._progress = 0
        self._since = 0.0
        self._pause_ms = 0

    async def after(self, failure: LogError, progress: int) -> None:
        """Wait before the next try, or raise `failure`. `progress` is any number that grows."""
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
