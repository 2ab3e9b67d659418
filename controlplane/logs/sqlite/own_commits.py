"""Commits of this process, as the batches that a tail would read from the file."""

from collections.abc import Iterator, Sequence

from controlplane.core.entry import ColumnBatch, Entry, LastValues, TopicPartition, batch_of
from controlplane.logs.lazy_batch import LazyBatch


class AppendedBatch(LazyBatch):
    """Consecutive entries of one partition, at least one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(entries[0].topic, entries[0].partition)
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def end(self) -> int:
        """Offset after the last entry."""
        return self._entries[-1].offset + 1

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries."""
        return iter(self._entries)

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key. No entry appended here is aborted."""
        del aborted
        last.update((entry.key, entry.value) for entry in self._entries)

    def decode(self) -> ColumnBatch:
        """Return all entries as columns."""
        return batch_of(self._entries)


class CommitGap(Exception):
    """Entries of another process lie between the position of a tail and a commit."""


def going_on(commit: Sequence[Entry], at: dict[str, list[int]]) -> list[AppendedBatch]:
    """Return the new batches in a commit of this process for a tail that has read up to `at`.

    `at` moves to the ends of these batches.

    Raises:
        CommitGap: the tail has to read the entries in between from the file; `at` is unchanged.
    """
    by_place: dict[TopicPartition, list[Entry]] = {}
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


def _behind(entries: list[Entry], end: int) -> AppendedBatch:
    """Return the entries from `end` on."""
    first, last = entries[0].offset, entries[-1].offset
    without_gap = last - first + 1 == len(entries)  # an import may leave a gap within a commit
    if not without_gap or not 0 <= first <= end:
        raise CommitGap
    return AppendedBatch(entries[end - first :])
