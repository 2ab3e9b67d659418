"""Rule of compaction, as in Kafka's log cleaner (`LogCleaner`, `Cleaner`)."""

from collections.abc import Iterable

from controlplane.core.entry import Batch


class CompactionFilter:
    """Classifies the entries of one partition; `sift` takes its batches from newest to oldest.

    The last entry of each key stays. Entries without a key and aborted entries are superseded; an
    aborted entry supersedes no other one. Entries from offset `below` on are ignored, as Kafka's
    cleaner ignores the active segment (None: no entry is ignored).

    `superseded` and `tombstones` are offsets. Superseded entries may be removed in any order.
    Tombstones, the last entries of their keys, may be removed only after all superseded entries.
    Otherwise an older value would become visible again. Kafka keeps tombstones for
    `delete.retention.ms`. Memory grows with the number of keys.
    """

    def __init__(self, below: int | None = None) -> None:
        self.superseded: list[int] = []
        self.tombstones: list[int] = []
        self._below = below
        self._keys_seen: set[bytes] = set()

    def sift(self, newest_first: Iterable[Batch]) -> None:
        """Classify the entries of batches; each batch is older than the previous one."""
        for batch in newest_first:
            self._sift(batch)

    def _sift(self, batch: Batch) -> None:
        keys, below = self._keys_seen, self._below
        for index in range(len(batch) - 1, -1, -1):
            offset, key = batch.offsets[index], batch.keys[index]
            if below is not None and offset >= below:
                continue
            if key is None or key in keys or index in batch.aborted:
                self.superseded.append(offset)
                continue
            keys.add(key)
            if batch.values[index] is None:
                self.tombstones.append(offset)
