"""Snapshots beside the embedded log: complete or absent, and removed with their records."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.logs.log import LogNotUsable
from controlplane.logs.memory import MemoryLog
from controlplane.logs.snapshots import SnapshotStore, snapshot_store_of
from controlplane.logs.sqlite import SqliteLog
from tests.logs.contract import make_topics, record
from tests.logs.reading_contract import SAMPLE

ROOM = 2


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    """The sample in a SQLite file."""
    log = await SqliteLog.open(tmp_path / "control.log")
    await make_topics(log)
    await log.put(SAMPLE)
    yield log
    await log.close()


async def make(shelf: SnapshotStore, topic: str, *pieces: bytes, kind: str = "kind") -> int:
    """A complete snapshot that contains its number."""
    number = await shelf.begin(topic, kind)
    assert await shelf.add(number, pieces)
    assert await shelf.finish(number, str(number).encode(), ROOM)
    return number


async def numbers(shelf: SnapshotStore, topic: str, kind: str = "kind") -> list[int]:
    """Numbers of the complete snapshots, the newest first."""
    kept = await shelf.stored(topic, kind)
    assert [str(snapshot.number).encode() for snapshot in kept] == [
        snapshot.header for snapshot in kept
    ]
    return [snapshot.number for snapshot in kept]


async def pieces(shelf: SnapshotStore, number: int) -> list[bytes]:
    """Collect the pieces of a snapshot."""
    return [piece async for piece in shelf.pieces(number)]


async def test_stored_snapshots_are_read_back(log: SqliteLog) -> None:
    """Pieces come back in the order of adding, also when they exceed one read."""
    shelf = log.snapshots
    many = [b"%d" % n for n in range(1_000)]
    number = await shelf.begin("config", "kind")
    assert await shelf.add(number, many[:700])
    assert await shelf.add(number, [])
    assert await shelf.add(number, many[700:])
    assert await numbers(shelf, "config") == []
    assert await shelf.finish(number, str(number).encode(), ROOM)
    assert await numbers(shelf, "config") == [number]
    assert await pieces(shelf, number) == many
    assert await numbers(shelf, "config", "another kind") == []
    assert await numbers(shelf, "offsets") == []


async def test_the_newest_few_of_a_topic_stay(log: SqliteLog) -> None:
    """All kinds count, so snapshots of older releases go; other topics keep theirs."""
    shelf = log.snapshots
    other = await make(shelf, "offsets", b"o")
    old = await make(shelf, "config", b"a", kind="older")
    first = await make(shelf, "config", b"b")
    second = await make(shelf, "config", b"c")
    assert await numbers(shelf, "config", "older") == []
    assert await numbers(shelf, "config") == [second, first]
    assert await pieces(shelf, old) == []
    assert await numbers(shelf, "offsets") == [other]


async def test_unfinished_snapshots_are_removed(log: SqliteLog) -> None:
    """A new snapshot removes an unfinished one.

    A maker that still runs can add nothing more to it.
    """
    shelf = log.snapshots
    dead = await shelf.begin("config", "kind")
    assert await shelf.add(dead, [b"half"])
    number = await make(shelf, "config", b"whole")
    assert number > dead
    assert await pieces(shelf, dead) == []
    assert not await shelf.add(dead, [b"more"])
    assert not await shelf.finish(dead, b"", ROOM)
    assert await numbers(shelf, "config") == [number]
    assert await pieces(shelf, dead) == []


@pytest.mark.parametrize("how", ["compact", "trim"])
async def test_removing_records_removes_their_snapshots(log: SqliteLog, how: str) -> None:
    """Removing records removes all snapshots of the topic, also unfinished ones; others stay."""
    shelf = log.snapshots
    gone, other = await make(shelf, "config", b"c"), await make(shelf, "offsets", b"o")
    begun = await shelf.begin("config", "kind")
    assert await (log.compact("config") if how == "compact" else log.trim("config", [1]))
    assert await numbers(shelf, "config") == []
    assert await pieces(shelf, gone) == []
    assert not await shelf.add(begun, [b"late"])
    assert not await shelf.finish(begun, b"", ROOM)
    assert await numbers(shelf, "offsets") == [other]
    again = await make(shelf, "config", b"c")
    assert await log.compact("config", [0]) == await log.trim("config", [0]) == 0
    assert await numbers(shelf, "config") == [again]


async def test_appending_leaves_snapshots_alone(log: SqliteLog) -> None:
    """Appending removes no snapshot: snapshots cover earlier records."""
    number = await make(log.snapshots, "config", b"c")
    await log.append([record("config", 0)])
    await log.add_partitions("offsets", 5)
    assert await numbers(log.snapshots, "config") == [number]


async def test_snapshots_are_in_backups_and_read_only_logs(log: SqliteLog, tmp_path: Path) -> None:
    """A backup contains the snapshots; a read-only log reads them but stores none."""
    number = await make(log.snapshots, "config", b"c")
    await log.backup(tmp_path / "copy.log")
    copy = await SqliteLog.open(tmp_path / "copy.log", read_only=True)
    assert await pieces(copy.snapshots, number) == [b"c"]
    with pytest.raises(LogNotUsable, match="reading only"):
        await copy.snapshots.begin("config", "kind")
    await copy.close()


def test_a_memory_log_stores_no_snapshots() -> None:
    """A memory log ends with the process and stores no snapshots."""
    assert snapshot_store_of(MemoryLog()) is None
