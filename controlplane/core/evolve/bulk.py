"""The fast way through a whole log: the same state as folding its entries in order, sooner.

Most records of a log are offsets, and of an offset only the last value counts. So each partition of
an offsets topic is first reduced to a dict, at the speed of `dict.update`, and only the survivors
are looked at; of the status topic likewise (`survivors`). The config topic is folded record by
record: there every one may count. Where the order between partitions decides about an offset after
all (one key in two partitions, two spellings of one key), those few keys are *contested*: the
caller reads the log once more and settles them.

What is not looked at is not complained about either: a fold that shall report every unreadable
record, or trace offsets, is asked for with `trace` and takes the slow way.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import Any

from controlplane.core.entry import Batch, Entry
from controlplane.core.evolve import Fold
from controlplane.core.evolve.survivors import survivors
from controlplane.core.order import Placed, entries_of, in_order, placed, running_max

Contested = Mapping[str, frozenset[bytes | None]]
"""By offsets topic, the keys that must be folded in order."""

_Part = tuple[str, int]


class Loading:
    """Loads a `Fold`: `add` all batches, `finish`, and `settle` what is contested.

    Batches of one partition come in the order of their offsets; partitions may interleave. What
    the fold knows already comes before all of them in the one order.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._kept: list[Batch] = []
        self._statuses: dict[_Part, list[Batch]] = defaultdict(list)
        self._last: dict[str, dict[int, dict[bytes | None, bytes | None]]] = defaultdict(dict)

    def add(self, batch: Batch) -> None:
        """Take in some records."""
        topics = self._fold.topics
        if batch.topic in (topics.config, topics.commands) or self._fold.trace:
            self._kept.append(batch)
        elif batch.topic == topics.status:
            self._statuses[batch.topic, batch.partition].append(batch)
        else:
            self._fold.advance(batch.topic, batch.partition, batch.end)
            last = self._last[batch.topic].setdefault(batch.partition, {})
            batch.keep_last(last, aborted=self._fold.sees_aborted(batch.topic))

    def finish(self) -> Contested:
        """Fold what was added. Keys that are answered must be settled."""
        self._fold.apply_all(in_order(entries_of(self._kept)))
        ranked = [one for batches in self._statuses.values() for one in self._surviving(batches)]
        self._fold.apply_all(one.entry for one in sorted(ranked, key=lambda one: one[:4]))
        # The last records of a partition may not have counted, but they have been read.
        for (topic, partition), batches in self._statuses.items():
            self._fold.advance(topic, partition, batches[-1].offsets[-1] + 1)
        contested = {}
        for topic, partitions in self._last.items():
            keys = self._fold.offsets_of(topic).take(partitions.values())
            if keys:
                contested[topic] = keys
        return contested

    def _surviving(self, batches: list[Batch]) -> Iterator[Placed]:
        """The records of one status partition that still count, each with its rank."""
        topic, partition = batches[0].topic, batches[0].partition
        columns = _columns(batches)
        if any(batch.aborted for batch in batches) and not self._fold.sees_aborted(topic):
            seen = [index not in batch.aborted for batch in batches for index in range(len(batch))]
            columns = [list(compress(column, seen)) for column in columns]
        offsets, times, keys, values = columns
        for index in survivors(keys, values, self._fold.profile):
            time_ms, offset = times[index], offsets[index]
            entry = Entry(topic, partition, offset, time_ms, keys[index], values[index])
            yield Placed(time_ms, partition, offset, topic, entry)

    def settle(self, batches: Iterable[Batch], contested: Contested) -> None:
        """Fold the records of contested keys in order: `batches` are the same ones once more."""
        entries = entries_of(batch for batch in batches if batch.topic in contested)
        for one in placed(entries):
            entry = one.entry
            if entry.key not in contested[entry.topic]:
                continue
            if not entry.aborted or self._fold.sees_aborted(entry.topic):
                self._fold.offsets_of(entry.topic).apply(entry)


def _columns(batches: list[Batch]) -> list[list[Any]]:
    """Offsets, running maxima of the timestamps, keys and values of one partition."""
    offsets = [offset for batch in batches for offset in batch.offsets]
    times = running_max(time_ms for batch in batches for time_ms in batch.timestamps)
    keys = [key for batch in batches for key in batch.keys]
    return [offsets, times, keys, [value for batch in batches for value in batch.values]]


def load(fold: Fold, batches: Iterable[Batch]) -> None:
    """Load batches in memory into a fold."""
    batches = list(batches)
    loading = Loading(fold)
    for batch in batches:
        loading.add(batch)
    contested = loading.finish()
    if contested:
        loading.settle(batches, contested)
