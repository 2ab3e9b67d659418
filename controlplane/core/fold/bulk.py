"""Loads a whole log fast, to the same state as folding its entries in order.

Most records of a log are offsets, and only the last value of an offset counts. So each partition of
an offsets topic is reduced to a dict, at the speed of `dict.update`. The status topic is reduced
likewise (`live_records`). The config topic is folded record by record, as every record may count.

The order between partitions decides about a key that is in two partitions, or that has two
spellings. Such keys are *contested*. The caller reads the log once more and settles them.

Skipped records are not checked, so unreadable ones among them are not reported. A fold with `trace`
reports all of them and traces offsets: it folds every record.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from controlplane.core.entry import Batch, Entry, TopicPartition, batch_of, by_partition
from controlplane.core.fold import Fold
from controlplane.core.fold.live_statuses import live_records
from controlplane.core.order import RankedEntry, entries_of, in_order, rank_entries, running_max

ContestedKeys = Mapping[str, frozenset[bytes | None]]
"""Keys per offsets topic whose records must be folded in order."""


class BulkLoader:
    """Loads a `Fold`: `add` all batches, `finish`, then `settle` the contested keys.

    Batches of one partition come in offset order; partitions may interleave. Records that the fold
    read earlier must precede all records of the batches. This refers to the total order of all
    partitions' records (*the one order*, `core.order`).
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._whole_batches: list[Batch] = []  # to be folded record by record
        self._statuses: dict[TopicPartition, list[Batch]] = defaultdict(list)
        # Topic → partition → key → last value.
        self._last_values: dict[str, dict[int, dict[bytes | None, bytes | None]]] = defaultdict(
            dict
        )

    def add(self, batch: Batch) -> None:
        """Add the records of a batch: keep them, or only the last value of each key."""
        topics = self._fold.topics
        if batch.topic in (topics.config, topics.commands) or self._fold.trace:
            self._whole_batches.append(batch)
        elif batch.topic == topics.status:
            self._statuses[batch.topic, batch.partition].append(batch)
        else:
            self._fold.advance(batch.topic, batch.partition, batch.end)
            last = self._last_values[batch.topic].setdefault(batch.partition, {})
            batch.keep_last(last, aborted=self._fold.sees_aborted(batch.topic))

    def finish(self) -> ContestedKeys:
        """Fold the added records, and return the keys to settle."""
        self._fold.apply_all(in_order(entries_of(self._whole_batches)))
        parts = map(self._surviving, self._statuses.values())
        ranked = sorted(chain.from_iterable(parts), key=lambda entry: entry[:4])  # the rank
        self._fold.apply_all(ranked_entry.entry for ranked_entry in ranked)
        # The last records of a partition may be skipped, but they have been read.
        for (topic, partition), batches in self._statuses.items():
            self._fold.advance(topic, partition, batches[-1].end)
        contested = {}
        for topic, partitions in self._last_values.items():
            keys = self._fold.offsets_of(topic).take(partitions.values())
            if keys:
                contested[topic] = keys
        return contested

    def _surviving(self, batches: list[Batch]) -> Iterator[RankedEntry]:
        """Records of one status partition that still count, with their rank."""
        topic, partition = batches[0].topic, batches[0].partition
        offsets, times, keys, values = _columns(batches)
        for index in live_records(keys, values, self._fold.profile):
            time_ms, offset = times[index], offsets[index]
            # The timestamp is the running maximum; a fold does not read it.
            entry = Entry(topic, partition, offset, time_ms, keys[index], values[index])
            yield RankedEntry(time_ms, partition, offset, topic, entry)

    def settle(self, batches: Iterable[Batch], contested: ContestedKeys) -> None:
        """Fold the records of contested keys in order; `batches` are the same as before."""
        entries = entries_of(batch for batch in batches if batch.topic in contested)
        for ranked in rank_entries(entries):
            entry = ranked.entry
            if entry.key not in contested[entry.topic]:
                continue
            if not entry.aborted or self._fold.sees_aborted(entry.topic):
                self._fold.offsets_of(entry.topic).apply(entry)


def _columns(batches: list[Batch]) -> list[list[Any]]:
    """Columns of one partition: offsets, running maxima of timestamps, keys, values."""
    offsets = [offset for batch in batches for offset in batch.offsets]
    times = running_max(time_ms for batch in batches for time_ms in batch.timestamps)
    keys = [key for batch in batches for key in batch.keys]
    return [offsets, times, keys, [value for batch in batches for value in batch.values]]


def load_entries(fold: Fold, entries: Iterable[Entry]) -> None:
    """Load entries that are in memory into a fold; offsets ascend within each partition."""
    load(fold, map(batch_of, by_partition(entries).values()))


def load(fold: Fold, batches: Iterable[Batch]) -> None:
    """Load batches that are in memory into a fold."""
    batches = list(batches)
    loader = BulkLoader(fold)
    for batch in batches:
        loader.add(batch)
    contested = loader.finish()
    if contested:
        loader.settle(batches, contested)
