"""Reader of the output of `kafka-console-consumer`: columns chosen by `print.*` properties.

From 2.7 on the order is

    CreateTime:1795…  Partition:0  Offset:5  Delivery:1  Epoch:3  name:value,…  key  value

with a tab (`key.separator`) between the requested columns; `NO_HEADERS` means a record without
headers. Before 2.7 the order was time, key, value, and from 2.4 on the partition number at the end.
Bytes are printed unchanged, unless a deserializer is set. Source: `DefaultMessageFormatter`.

The topic is never printed. If the partition is not printed, all records get one partition. If the
offset is not printed, the reader counts offsets from 0 in each partition.
A value with a line break makes two lines. The reader reports the second one as a line without a
record. But if no column has a label, a second line with a tab counts as a record.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from controlplane.core.entry import Entry
from controlplane.logs.dumps.console_columns import (
    NO_HEADERS,
    TAB,
    ConsoleRow,
    is_labelled,
    layout_of,
)
from controlplane.logs.dumps.dump import DumpLine, DumpLineError, Problem
from controlplane.logs.dumps.fields import PARTITIONS_MAX

_UNKNOWN_TIME = -1


class ConsoleReader:
    """Reader of the output of the console consumer.

    Args:
        sample: the first lines of the file; the first record among them shows the columns.
        topic: topic of the records.
        partition: partition of the records, if the lines do not contain it.
        null: text printed for a null key or value (`null.literal`). A value equal to this text
            counts as null.
    """

    format: ClassVar[str] = "console"
    is_exact: ClassVar[bool] = False

    def __init__(self, sample: Sequence[bytes], topic: str, partition: int, null: str) -> None:
        self._topic = topic
        self._partition = partition
        self._null = null.encode()
        tabbed = [line for line in sample if TAB in line]
        first = next(filter(is_labelled, sample), next(iter(tabbed), sample[0]))
        self._layout = layout_of(first, self._null)
        self._counted: Counter[int] = Counter()
        self._first_line = 0
        self.about: dict[str, Any] = {"topic": topic, "columns": list(self._layout.names)}

    @staticmethod
    def recognises(line: bytes) -> bool:
        """Return True if a line has the form of the console consumer."""
        return is_labelled(line)

    def entry(self, line: DumpLine) -> Entry:
        """Parse the record in a line; raise `DumpLineError` if it holds none."""
        if not line.whole:
            raise DumpLineError("may be half a record (end it with a line break if it is whole)")
        row = self._layout.row(line.text)
        partition = self._partition if row.partition is None else row.partition
        if not 0 <= partition < PARTITIONS_MAX:
            raise DumpLineError(f"has partition {partition}, which no topic has")
        self._first_line = self._first_line or line.number
        return Entry(
            self._topic,
            partition,
            self._offset(row, partition),
            _UNKNOWN_TIME if row.timestamp is None else row.timestamp,
            self._content(row.key),
            self._content(row.value),
            tuple(self._headers(row.headers)),
        )

    def _offset(self, row: ConsoleRow, partition: int) -> int:
        if row.offset is not None:
            return row.offset
        self._counted[partition] += 1
        return self._counted[partition] - 1

    def _content(self, cell: bytes) -> bytes | None:
        return None if cell == self._null else cell

    def _headers(self, cell: bytes) -> Iterator[tuple[str, bytes | None]]:
        if cell == NO_HEADERS:
            return
        for header in cell.split(b","):
            name, colon, value = header.partition(b":")
            if not colon:
                raise DumpLineError("has headers that cannot be told apart (a comma in a value?)")
            yield name.decode("utf-8", "replace"), self._content(value)

    def doubts(self) -> Iterator[Problem]:
        """Report one assumption for each fact that the columns do not contain."""
        for column, assumption in (
            ("partition", f"all records were assigned to partition {self._partition}"),
            ("offset", "offsets were counted from 0 in each partition"),
            ("timestamp", "the times are unknown"),
        ):
            if self._first_line and column not in self._layout.names:
                reason = f"has no {column}: {assumption} (print.{column}=true prints it)"
                yield Problem(self._first_line, reason, taken=True, assumed=True)
