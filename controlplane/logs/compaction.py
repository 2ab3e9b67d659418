"""Rule of compaction, as in Kafka's log cleaner (`LogCleaner`, `Cleaner`)."""

from collections.abc import Iterable

from controlplane.core.entry import Batch


class CompactionFilter:
    """Classifies the entries of one partition, given from the newest batch to the oldest.

    The last entry of each key stays. Entries without a key and entries of aborted transactions go;
    an aborted entry does not supersede an older one. Entries from offset `below` on are ignored,
    as the cleaner ignores the active segment (None: no entry is ignored).

    `superseded` and `tombstones` are offsets. Superseded entries may be removed at any time and in
    any order. Tombstones are the last of their key and may be removed only after all superseded
    entries: otherwise an older value of the key would become visible again. Kafka keeps tombstones
    for `delete.retention.ms`. Memory grows with the number of keys.
    """

    def __init__(self, below: int | None = None) -> None:
        self.superseded: list[int] = []
        self.tombstones: list[int] = []
        self._below = below
        self._keys_seen: set[bytes] = set()

    def sift(self, newest_first: Iterable[Batch]) -> None:
        """Classify the entries of batches, each older than the one before."""
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
