"""Bounded rate of records, for connectors that invent them."""

import asyncio
from time import monotonic


class Throttle:
    """Keeps an average rate (Kafka: `ThroughputThrottler`)."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._started = monotonic()

    async def wait(self, amount: int) -> None:
        """Wait until `amount` records since the start fit the rate.

        With a negative rate return at once; with a rate of 0 wait without end.
        """
        if self._per_second < 0:
            return
        if self._per_second == 0:
            await asyncio.Event().wait()
        ahead_s = amount / self._per_second - (monotonic() - self._started)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
