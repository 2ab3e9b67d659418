"""What this process has appended, as the batches that a tail would have read."""

from collections.abc import Iterator, Sequence

from controlplane.core.entry import Decoded, Entry, LastValues, batch_of
from controlplane.logs.lazy import LazyBatch
from controlplane.logs.places import Place


class Appended(LazyBatch):
    """Consecutive entries of one partition, at least one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(entries[0].topic, entries[0].partition)
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def end(self) -> int:
        """The offset after the last one."""
        return self._entries[-1].offset + 1

    def entries(self) -> Iterator[Entry]:
        """The records one by one."""
        return iter(self._entries)

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key: what was appended here was not aborted."""
        del aborted
        last.update((entry.key, entry.value) for entry in self._entries)

    def decode(self) -> Decoded:
        """All of them, as columns."""
        return batch_of(self._entries)


class Gap(Exception):
    """Something lies between what was read and what was appended: somebody else's."""


def going_on(commit: Sequence[Entry], at: dict[str, list[int]]) -> list[Appended]:
    """What is new in a commit of this process for a tail that has read its topics up to `at`.

    That is moved on.

    Raises:
        Gap: the tail has to read what lies between; nothing is moved.
    """
    by_place: dict[Place, list[Entry]] = {}
    for entry in commit:
        if entry.topic in at:
            by_place.setdefault((entry.topic, entry.partition), []).append(entry)
    new = []
    for (topic, partition), entries in by_place.items():
        parts = at[topic]
        end = parts[partition] if partition < len(parts) else -1
        if not entries[-1].offset < end:
            new.append(_behind(entries, end))
    for batch in new:
        at[batch.topic][batch.partition] = batch.end
    return new


def _behind(entries: list[Entry], end: int) -> Appended:
    """The entries from `end` on."""
    first, last = entries[0].offset, entries[-1].offset
    without_gap = last - first + 1 == len(entries)  # an import in between may leave one
    if not without_gap or not 0 <= first <= end:
        raise Gap
    return Appended(entries[end - first :])
