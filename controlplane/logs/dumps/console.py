"""What `kafka-console-consumer` prints: columns of text, chosen by its `print.*` properties.

From 2.7 on the order is

    CreateTime:1795…  Partition:0  Offset:5  Delivery:1  Epoch:3  name:value,…  key  value

with a tab (`key.separator`) in between and only what was asked for; `NO_HEADERS` where a record has
none. Before, it was time, key, value, and from 2.4 on the bare number of the partition at the end.
(`DefaultMessageFormatter`; bytes are printed as they are, unless a deserializer was named.)

The topic is never printed. Without columns for them, all is in one partition and offsets count up.
A value with a line break in it looks like two lines: the second is reported as no record.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from controlplane.core.entry import Entry
from controlplane.logs.dumps.columns import NO_HEADERS, TAB, Row, is_labelled, layout_of
from controlplane.logs.dumps.dump import Line, Problem, Unreadable
from controlplane.logs.dumps.fields import PARTITIONS_MAX

_UNKNOWN_TIME = -1


class ConsoleReader:
    """Reads the output of the console consumer.

    Args:
        sample: the first lines of the file; the first record among them shows the columns.
        topic: the topic it was read from.
        partition: the partition it was read from, if lines do not tell (0).
        null: what is printed for a key or value that is null (`null.literal`). A value that is
            this text cannot be told from none, and counts as none.
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
        """Whether this looks like a line of the console consumer's."""
        return is_labelled(line)

    def entry(self, line: Line) -> Entry:
        """The record in a line."""
        if not line.whole:
            raise Unreadable("may be half a record (end it with a line break if it is whole)")
        row = self._layout.row(line.text)
        partition = self._partition if row.partition is None else row.partition
        if partition >= PARTITIONS_MAX:
            raise Unreadable(f"has partition {partition}, which no topic has")
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

    def _offset(self, row: Row, partition: int) -> int:
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
                raise Unreadable("has headers that cannot be told apart (a comma in a value?)")
            yield name.decode("utf-8", "replace"), self._content(value)

    def doubts(self) -> Iterator[Problem]:
        """What these columns leave open."""
        for column, understood in (
            ("partition", f"all was taken as of partition {self._partition}"),
            ("offset", "offsets were counted from 0 in each partition"),
            ("timestamp", "the times are unknown"),
        ):
            if self._first_line and column not in self._layout.names:
                reason = f"has no {column}: {understood} (print.{column}=true tells it)"
                yield Problem(self._first_line, reason, taken=True, assumed=True)
