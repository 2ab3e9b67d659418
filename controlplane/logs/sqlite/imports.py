"""Import of entries from another log, with their offsets and timestamps."""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

from controlplane.core.entry import Entry
from controlplane.logs.log import LogCorrupt
from controlplane.logs.offset_rules import GAP, OTHER_ENTRY, by_place, conflict
from controlplane.logs.sqlite.checksums import damaged, damaged_in
from controlplane.logs.sqlite.ledger import Ledger, Slot
from controlplane.logs.sqlite.rows import row_id, row_of
from controlplane.logs.sqlite.schema import ASSUMED_VERSION, schema_version

_LOOK_UP = "SELECT id, ts, key, value, headers, aborted, checksum FROM log WHERE id = ?"


def put(ledger: Ledger, entries: Sequence[Entry], path: Path) -> int:
    """Add the entries that the log lacks; return their number (see `EmbeddedLog.put`)."""
    ledger.flush()
    new: list[tuple[Slot, list[Entry]]] = []
    for topic_partition, ascending in by_place(entries).items():
        slot = ledger.slot(*topic_partition)
        border = bisect_left(ascending, slot.end, key=lambda entry: entry.offset)
        _check_holds(ledger, slot, ascending[:border], path)
        new.append((slot, ascending[border:]))
    return sum(_add(ledger, slot, ascending) for slot, ascending in new)


def _check_holds(ledger: Ledger, slot: Slot, entries: Sequence[Entry], path: Path) -> None:
    """Check that the log holds these entries, which all lie below the end of the partition.

    Raises:
        LogNotUsable: an entry differs from the stored one, or lies in a gap.
        LogCorrupt: a stored row does not match its checksum.
    """
    for entry in entries:
        row = row_of(row_id(slot.number, entry.offset), entry, entry.aborted)
        stored = ledger.connection.execute(_LOOK_UP, row[:1]).fetchone()
        if stored is not None and damaged_in([stored]) is not None:
            damage = damaged(entry.topic, entry.partition, entry.offset)
            raise LogCorrupt(f"The log {path} is damaged ({damage}): restore it from a backup")
        if stored != row:
            raise conflict(entry, GAP if stored is None else OTHER_ENTRY)


def _add(ledger: Ledger, slot: Slot, ascending: Sequence[Entry]) -> int:
    """Add entries at the end of a partition or after it."""
    if ascending:
        ledger.rows.extend(
            row_of(row_id(slot.number, entry.offset), entry, entry.aborted) for entry in ascending
        )
        slot.end = ascending[-1].offset + 1
        ledger.touch(slot)
        ledger.imported = True
    return len(ascending)


def assumed(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the topics that may have more partitions in the cluster they were imported from."""
    if schema_version(connection) < ASSUMED_VERSION:
        return frozenset()
    return frozenset(
        topic for (topic,) in connection.execute("SELECT topic FROM assumed_partitions")
    )


def set_assumed(ledger: Ledger, topics: Iterable[str]) -> None:
    """Replace the stored topics that may have more partitions."""
    ledger.connection.execute("DELETE FROM assumed_partitions")
    rows = [(topic,) for topic in topics]
    ledger.connection.executemany("INSERT INTO assumed_partitions VALUES (?)", rows)
