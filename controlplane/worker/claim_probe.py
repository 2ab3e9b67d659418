"""Detection of another process that has claimed the log of a worker."""

import asyncio
from collections.abc import Callable

from controlplane.event_loop import cancel_all
from controlplane.logs.log import Fenced, HasClaimNotice
from controlplane.plane import ControlPlane

PAUSE_S = 0.1
"""Shortest pause between two probes, even if signs of a newer writer are frequent."""


class ClaimProbe:
    """Asks the log whether there is a newer writer: upon a sign of one, and at an interval.

    A log that implements `HasClaimNotice` gives the sign itself. Brokers cannot give one: there,
    the statuses of the newer worker are the first sign.
    """

    def __init__(self, plane: ControlPlane, interval_ms: int, claimed: Callable[[], None]) -> None:
        """`claimed` is called after the plane has learned of the newer writer."""
        self._plane = plane
        self._interval_s = interval_ms / 1_000
        self._claimed = claimed
        self._suspected = asyncio.Event()

    def suspect(self) -> None:
        """Ask the log soon: a record or a refused write may be due to a newer writer."""
        self._suspected.set()

    async def run(self) -> None:
        """Probe until the task is cancelled, except while the plane knows of a newer writer."""
        while True:
            if self._plane.failure is None:
                await self._sign()
                if isinstance(await self._plane.trouble(), Fenced):
                    self._claimed()
            await asyncio.sleep(PAUSE_S)

    async def _sign(self) -> None:
        """Return at a sign of a newer writer, or after the interval."""
        waits = [asyncio.create_task(self._until_suspected(), name="suspected claim")]
        if isinstance(self._plane.log, HasClaimNotice):
            notice = self._plane.log.until_claimed(self._plane.epoch)
            waits.append(asyncio.create_task(notice, name="claim notice"))
        try:
            await asyncio.wait(waits, timeout=self._interval_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(waits)

    async def _until_suspected(self) -> None:
        await self._suspected.wait()
        self._suspected.clear()
