"""Watermark of a topic: the prefix of the order to which nothing is expected to be added.

A record may come late: its writer's clock is behind, or another append overtook it. In the order it
then precedes records that have been read already. So a prefix counts as settled only if it lies
some time before the latest record. In stream processing this is a watermark with an allowed
lateness. The time is that of the latest record, not of a clock.
"""

from collections import deque
from collections.abc import Sequence

from controlplane.core.entry import Batch
from controlplane.core.order import running_max

NEVER_MS = -(2**63)
"""Earlier than every timestamp: nothing has been read."""


class Watermark:
    """Watermark of one topic. It begins at a cut (`ends`, `latest`); `add` all later records.

    The settled records are a prefix of the one order: `ends`, with the running maxima `latest`.
    """

    def __init__(self, lateness_ms: int, ends: Sequence[int], latest: Sequence[int]) -> None:
        self.ends = list(ends)
        """Offset after the last settled record, by partition."""
        self.latest = list(latest)
        """Running maximum of the timestamps up to there, in ms, by partition."""
        self._lateness_ms = lateness_ms
        self._top_ms = max(latest, default=NEVER_MS)
        # (running maximum, offset) of the records that are not settled, by partition.
        self._pending: list[deque[tuple[int, int]]] = [deque() for _ in ends]

    def add(self, batch: Batch) -> None:
        """Add records of one partition, in offset order."""
        pending = self._pending[batch.partition]
        before_ms = pending[-1][0] if pending else self.latest[batch.partition]
        times = running_max(batch.timestamps, before_ms)
        pending.extend(zip(times, batch.offsets, strict=True))
        self._top_ms = max(self._top_ms, times[-1])
        # A later latest record can settle records of every partition.
        for partition in range(len(self.ends)):
            self._settle(partition)

    def _settle(self, partition: int) -> None:
        pending, settled_ms = self._pending[partition], self._top_ms - self._lateness_ms
        while pending and pending[0][0] <= settled_ms:
            self.latest[partition], offset = pending.popleft()
            self.ends[partition] = offset + 1
