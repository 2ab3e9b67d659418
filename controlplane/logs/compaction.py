"""What compaction removes: the rule of Kafka's log cleaner (`LogCleaner`, `Cleaner`), once."""

from collections.abc import Iterable

from controlplane.core.entry import Batch


class Sieve:
    """Sorts the entries of one partition, shown from the newest batch to the oldest.

    The last entry of each key stays. Entries without a key and those of aborted transactions go,
    and the latter take no place of an older one. Entries from offset `below` on are left out
    altogether, as the cleaner leaves out the active segment (None: everything is looked at).

    `superseded` and `tombstones` are offsets. The first may go at any time and in any order. The
    second are last of their key, and may go only when the first are gone (else an older value
    would come back to life); Kafka keeps them for `delete.retention.ms`. Costs memory per key.
    """

    def __init__(self, below: int | None = None) -> None:
        self.superseded: list[int] = []
        self.tombstones: list[int] = []
        self._below = below
        self._seen: set[bytes] = set()

    def sift(self, newest_first: Iterable[Batch]) -> None:
        """Look at batches, each older than the one before."""
        for batch in newest_first:
            self._sift(batch)

    def _sift(self, batch: Batch) -> None:
        seen, below = self._seen, self._below
        for index in range(len(batch) - 1, -1, -1):
            offset, key = batch.offsets[index], batch.keys[index]
            if below is not None and offset >= below:
                continue
            if key is None or key in seen or index in batch.aborted:
                self.superseded.append(offset)
                continue
            seen.add(key)
            if batch.values[index] is None:
                self.tombstones.append(offset)
