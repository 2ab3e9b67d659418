"""Up to where a topic has settled: everything that belongs before is there, as far as one can tell.

A record may come late: its writer's clock is behind, or another append overtook it. Then it belongs
before records of other partitions that have been read already. So only what lies some time behind
the latest record is taken for settled; in the words of stream processing: a watermark with an
allowed lateness. It is the latest record that counts, not a clock.
"""

from collections import deque
from collections.abc import Sequence

from controlplane.core.entry import Batch
from controlplane.core.order import running_max

NEVER_MS = -(2**63)
"""Earlier than every timestamp: nothing has been read."""


class Watermark:
    """Follows one topic, from a cut on whose running maxima are known; `add` all that came since.

    What has settled is a prefix of the one order: `ends`, with its running maxima, `latest`.
    """

    def __init__(self, lateness_ms: int, ends: Sequence[int], latest: Sequence[int]) -> None:
        self.ends = list(ends)
        """By partition, the offset behind the last record that has settled."""
        self.latest = list(latest)
        """By partition, the running maximum of the timestamps up to there."""
        self._lateness_ms = lateness_ms
        self._top_ms = max(latest, default=NEVER_MS)
        self._pending: list[deque[tuple[int, int]]] = [deque() for _ in ends]

    def add(self, batch: Batch) -> None:
        """Take in records of one partition, which follow those before them."""
        pending = self._pending[batch.partition]
        before_ms = pending[-1][0] if pending else self.latest[batch.partition]
        times = running_max(batch.timestamps, before_ms)
        pending.extend(zip(times, batch.offsets, strict=True))
        self._top_ms = max(self._top_ms, times[-1])
        for partition in range(len(self.ends)):
            self._settle(partition)

    def _settle(self, partition: int) -> None:
        pending, settled_ms = self._pending[partition], self._top_ms - self._lateness_ms
        while pending and pending[0][0] <= settled_ms:
            self.latest[partition], offset = pending.popleft()
            self.ends[partition] = offset + 1
