"""State of a write transaction: partitions, their ends, the epoch, new rows.

The ledger caches partitions across transactions, as long as no other process writes in between. A
method that raises a `LogError` has changed nothing.
"""

import sqlite3
from collections.abc import Sequence

from controlplane.core.entry import Entry, Position
from controlplane.logs.log import LogNotUsable, Record
from controlplane.logs.offset_rules import (
    check_epoch,
    check_partitions,
    check_room,
    check_topic,
    partition_in,
)
from controlplane.logs.spans import topic_in
from controlplane.logs.sqlite.checksums import LogRow
from controlplane.logs.sqlite.rows import entry_of, row_id, row_of
from controlplane.logs.sqlite.schema import NUMBERS_LIMIT

INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)"


class Slot:
    """Partition in the file: `number` is the high part of its row ids, `end` its next offset."""

    __slots__ = ("end", "number")

    def __init__(self, number: int, end: int) -> None:
        self.number = number
        self.end = end


class Ledger:
    """Changes to the file within transactions that the writer begins and commits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows: list[LogRow] = []
        self.appended: list[Entry] = []
        """Entries that this transaction appends, as a reader will get them."""
        self.imported = False
        """True if this transaction imports entries, which `appended` lacks."""
        self.epoch = 0
        self._topics: dict[str, list[Slot]] = {}
        self._changed: set[Slot] = set()
        self._version = -1

    def begin(self) -> None:
        """Reload the cache if another process has written. Call it first in a transaction."""
        self.appended, self.imported = [], False
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._load()
            self._version = version

    def forget(self) -> None:
        """Invalidate the cache. Call it after a rollback: cached ends may be wrong."""
        self._version = -1

    def flush(self) -> None:
        """Write the collected rows and ends. Call it before a read and before the commit."""
        rows, changed = self.rows, self._changed
        self.rows, self._changed = [], set()
        self.connection.executemany(INSERT, rows)
        ends = [(slot.end, slot.number) for slot in changed]
        self.connection.executemany('UPDATE partition SET "end" = ? WHERE number = ?', ends)

    def slots(self, topic: str) -> list[Slot]:
        """Return the partitions of a topic. Raises `LogNotUsable` for a missing topic."""
        return topic_in(self._topics, topic)

    def slot(self, topic: str, partition: int) -> Slot:
        """Return a partition. Raises `LogNotUsable` for a missing one."""
        return partition_in(self.slots(topic), topic, partition)

    def touch(self, slot: Slot) -> None:
        """Record that the end of a partition has moved, so that `flush` writes it."""
        self._changed.add(slot)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists with as many partitions."""
        existing = len(self._topics.get(topic, ()))
        check_partitions(topic, partitions, existing)
        self._grow(topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        self.slots(topic)
        check_topic(topic, partitions)
        self._grow(topic, partitions)

    def claim(self) -> int:
        """Start a new epoch, which fences all older ones, and return it."""
        self.connection.execute("UPDATE fence SET epoch = epoch + 1")
        self.epoch += 1
        return self.epoch

    def append(self, records: Sequence[Record], epoch: int | None) -> list[Position]:
        """Append records in order and return their positions.

        Raises:
            Fenced: the epoch is not the newest.
            LogNotUsable: a topic or partition is missing or full.
        """
        check_epoch(epoch, self.epoch)
        # In the order of the records: an error names the first one without a partition.
        topic_partitions = dict.fromkeys((record.topic, record.partition) for record in records)
        slots = {
            topic_partition: self.slot(*topic_partition) for topic_partition in topic_partitions
        }
        for topic_partition, slot in slots.items():
            check_room(*topic_partition, slot.end, len(records))
        self._changed.update(slots.values())
        positions = []
        for record in records:
            topic, partition = topic_partition = record.topic, record.partition
            slot = slots[topic_partition]
            offset = slot.end
            slot.end = offset + 1
            self.rows.append(row_of(row_id(slot.number, offset), record))
            self.appended.append(entry_of(offset, record))
            positions.append(Position(topic, partition, offset))
        return positions

    def _load(self) -> None:
        self._topics.clear()
        self._changed.clear()
        self.rows = []
        for topic, number, end in self.connection.execute(
            'SELECT topic, number, "end" FROM partition ORDER BY topic, partition'
        ):
            self._topics.setdefault(topic, []).append(Slot(number, end))
        (self.epoch,) = self.connection.execute("SELECT epoch FROM fence").fetchone()

    def _grow(self, topic: str, partitions: int) -> None:
        existing = len(self._topics.get(topic, ()))
        (first,) = self.connection.execute(
            "SELECT coalesce(max(number) + 1, 0) FROM partition"
        ).fetchone()
        if first + partitions > NUMBERS_LIMIT:
            raise LogNotUsable(
                f"This log has {first} partitions and no room for more: begin a new log"
            )
        rows = [
            (first + index, topic, partition, 0)
            for index, partition in enumerate(range(existing, partitions))
        ]
        self.connection.executemany("INSERT INTO partition VALUES (?, ?, ?, ?)", rows)
        self._topics.setdefault(topic, []).extend(Slot(number, 0) for number, *_ in rows)
