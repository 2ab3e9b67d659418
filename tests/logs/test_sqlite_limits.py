"""One process: the writer's thread, groups, chunks, settings and notices."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from controlplane.core.entry import Position
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.sqlite import SqliteLog, SqliteSettings, files
from tests.logs.contract import make_topics, record
from tests.logs.folder import names
from tests.logs.reading_contract import SAMPLE, T0, TOPICS, by_position, everything


async def test_a_bad_record_fails_only_its_own_batch(log: SqliteLog) -> None:
    """The caller of the bad record gets the error; the rest of the group is stored."""
    bad = Record("config", 0, 2**63, None, None)
    batches = [[record("offsets", 0)], [record("offsets", 1), bad], [record("offsets", 2)]]
    results = await asyncio.gather(*map(log.append, batches), return_exceptions=True)
    assert isinstance(results[1], OverflowError)
    assert [results[0], results[2]] == [[Position("offsets", 0, 0)], [Position("offsets", 2, 0)]]
    assert dict(await log.ends(TOPICS)) == {"config": [0], "offsets": [1, 0, 1], "status": [0, 0]}


async def test_a_full_disk_rolls_the_group_back(log: SqliteLog, path: Path) -> None:
    """A full disk rolls the whole group back, and the error gives the reason."""
    connection = log._writer._ledger.connection if log._writer else None
    assert connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    batches = [[record("config", 0), Record("offsets", 0, T0, b"", b"x" * 99_999)]] * 3
    results = await asyncio.gather(*map(log.append, batches), return_exceptions=True)
    assert all(isinstance(result, LogUnavailable) for result in results)
    assert all("disk is full" in str(result) for result in results)
    assert await everything(log) == []
    assert await log.append([record("config", 0)]) == [Position("config", 0, 0)]


async def test_simultaneous_appends_share_commits(log: SqliteLog) -> None:
    """Simultaneous appends share commits, which makes durable appends fast."""
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    assert log._writer
    log._writer._ledger.connection.set_trace_callback(count)
    await asyncio.gather(*(log.append([record("config", 0)]) for _ in range(1_000)))
    assert 0 < commits <= 100


async def test_the_loop_is_free_while_reading(log: SqliteLog) -> None:
    """Rows are fetched in worker threads, never in the thread of the event loop."""
    threads: set[int] = set()
    await log.put(SAMPLE)
    await log.ends(["config"])
    for connection in log._pool._idle:
        connection.set_trace_callback(lambda _: threads.add(threading.get_ident()))
    assert await everything(log) == by_position(SAMPLE)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_closed_log_is_not_writable(log: SqliteLog) -> None:
    """A closed log is not writable, although a write was tested less than a second ago."""
    epoch = await log.claim()
    await log.check_writable(epoch)
    await log.close()
    with pytest.raises(LogUnavailable, match="is closed"):
        await log.check_writable(epoch)


async def test_a_closed_log_leaves_no_thread(path: Path) -> None:
    """A closed log leaves no thread and no companion file."""
    log = await SqliteLog.open(path)
    assert f"log {path.name}" in {thread.name for thread in threading.enumerate()}
    await log.create_topic("config", 1)
    await log.close()
    assert f"log {path.name}" not in {thread.name for thread in threading.enumerate()}
    assert names(path.parent) == [path.name]


async def test_appends_are_durable_by_default(path: Path) -> None:
    """Appends are durable (FULL) unless the setting says otherwise."""
    files.create(path)
    for settings, level in ((SqliteSettings(), 2), (SqliteSettings(synchronous="NORMAL"), 1)):
        connection = files.connect_writer(path, settings)
        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


async def test_only_the_writer_checkpoints(log: SqliteLog, path: Path) -> None:
    """Readers never checkpoint: two connections that do can damage the file (SQLite < 3.51.3)."""
    reader = files.connect(path, "ro")
    assert reader.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    reader.close()
    assert log._writer
    writer = log._writer._ledger.connection
    assert writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (1_000,)


@pytest.mark.parametrize(("version", "notices"), [((3, 51, 2), 1), ((3, 51, 3), 0)])
async def test_an_old_sqlite_causes_one_notice(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], notices: int
) -> None:
    """A SQLite version that can damage the file causes one notice."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    log = await SqliteLog.open(path)
    assert len(log.notices) == notices
    await log.close()
    reading = await SqliteLog.open(path, read_only=True)
    assert reading.notices == ()
    await reading.close()


async def test_large_records_come_in_small_chunks(path: Path) -> None:
    """A chunk ends at its bytes as well as at its records, so memory is bounded."""
    log = await SqliteLog.open(path, settings=SqliteSettings(chunk_bytes=1_000_000))
    await make_topics(log)
    await log.append([Record("config", 0, n, b"k", b"x" * 10_000) for n in range(1_000)])
    sizes = [len(batch) async for batch in log.read(["config"])]
    assert sum(sizes) == 1_000
    assert max(sizes) < 1_000
    await log.close()


async def test_a_chunk_of_large_records_exceeds_its_bytes_by_little(path: Path) -> None:
    """A fetch takes as many rows as fit by the mean size of earlier ones, and few before that."""
    limit, size = 1_000_000, 50_000
    log = await SqliteLog.open(path, settings=SqliteSettings(chunk_bytes=limit))
    await make_topics(log)
    await log.append([Record("config", 0, n, b"k", b"x" * size) for n in range(200)])
    sizes = [len(batch) * size async for batch in log.read(["config"])]
    assert sum(sizes) == 200 * size
    assert max(sizes) <= limit + size
    await log.close()
