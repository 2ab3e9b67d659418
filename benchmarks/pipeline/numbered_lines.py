"""Two sources that differ in KIP-910's hook alone: they measure the cost of the hook."""

from collections.abc import Iterator
from typing import Any

from controlplane.connect import Source, SourceRun, key
from controlplane.connect.data import STRING
from controlplane.connect.source import OffsetPairs

BATCH_RECORDS = 1_000
"""Number of records in one poll."""


class NumberedLines(Source):
    """Yields `count` lines of 100 characters, then rests."""

    config = (key("topic"), key("count", "LONG"))

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield batches from the committed number on."""
        partition = {"lines": 0}
        number = int(str((task.offset(partition) or {"number": 0})["number"]))
        most = int(task.config["count"])
        while True:
            last = min(number + BATCH_RECORDS, most)
            for line in range(number, last):
                yield task.record(
                    f"{line:0100d}", partition, {"number": line + 1}, value_schema=STRING
                )
            number = last
            yield task.idle(1.0 if number == most else 0.0)


class NumberedLinesWithOffsets(NumberedLines):
    """`NumberedLines` with `update_offsets`: it adds an offset at every commit (KIP-910)."""

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs:
        """Return the offset of one more source partition: a heartbeat."""
        del task
        return [({"heartbeat": 0}, {"partitions": len(offsets)})]
