"""Progress of a tail over offsets without records."""

from collections.abc import Iterator

from controlplane.core.entry import ColumnBatch, Entry, LastValues
from controlplane.core.order import Ends
from controlplane.logs.lazy_batch import LazyBatch


class ReadProgress(LazyBatch):
    """A batch without records: everything before `end` has been read.

    Transaction markers and compacted records take offsets, but no reader sees them.
    """

    def __init__(self, topic: str, partition: int, end: int) -> None:
        super().__init__(topic, partition)
        self.end = end

    def __len__(self) -> int:
        return 0

    def entries(self) -> Iterator[Entry]:
        """Iterate over nothing."""
        return iter(())

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Leave the values as they are."""

    def decode(self) -> ColumnBatch:
        """Return empty columns."""
        return ColumnBatch(self.topic, self.partition, (), (), (), ())


def read_offsets(start: Ends, ends: Ends) -> dict[str, list[int]]:
    """Offsets at which a read begins, one for each partition; missing ones are 0."""
    return {
        topic: [*start.get(topic, ()), *[0] * (len(parts) - len(start.get(topic, ())))]
        for topic, parts in ends.items()
    }


def progress_to(ends: Ends, read: Ends) -> Iterator[ReadProgress]:
    """Progress of each partition in which no record lies just before the end.

    `read` holds the offsets behind the last records that the reader has got.
    """
    for topic, parts in ends.items():
        for partition, end in enumerate(parts):
            if end > read[topic][partition]:
                yield ReadProgress(topic, partition, end)
