"""One file, several logs: tails across processes, the lock of another writer, copies."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from itertools import chain, count, repeat
from pathlib import Path

import pytest

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.logs.log import Fenced, LogCorrupt, LogNotUsable, LogUnavailable
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.logs.sqlite.backup import back_up, check_ends
from controlplane.logs.sqlite.files import connect
from controlplane.logs.sqlite.writer import Writer
from tests.jars import ROOT
from tests.logs.contract import record
from tests.logs.folder import names
from tests.logs.reading_contract import SAMPLE, TOPICS, by_position, entries_of, everything, take
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.fixture
async def impatient(path: Path, log: SqliteLog) -> AsyncIterator[SqliteLog]:
    """Second log on the file, which waits only a tenth of a second for the lock."""
    impatient = await SqliteLog.open(path, settings=SqliteSettings(write_wait_ms=100))
    yield impatient
    await impatient.close()


@pytest.fixture
def other_writer(path: Path, log: SqliteLog) -> Iterator[sqlite3.Connection]:
    """Another program that holds the lock."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


@pytest.fixture
def appending_process(path: Path, log: SqliteLog) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that appends to both topics without end."""
    command = [sys.executable, "-m", "tests.logs.appender", str(path), "other"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        yield process
        process.kill()


# --- several processes -----------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_tail_returns_records_of_another_process(
    log: SqliteLog,
    path: Path,
    appending_process: "subprocess.Popen[bytes]",
    read_only: bool,
) -> None:
    """A tail returns another process's records once and in order, while this process writes."""
    reading = await SqliteLog.open(path, read_only=read_only)
    tail = reading.tail(["config", "status"], {})
    await log.append([record("status", 0)])
    taken = await take(tail, 1_000)
    await log.append([record("status", 1)])
    while Position("status", 1, 0) not in {entry.position for entry in taken}:
        taken += await take(tail, 1)
    await reading.close()
    config = [entry.offset for entry in taken if entry.topic == "config"]
    assert config == list(range(len(config)))
    assert len(taken) == len(config) + 2


async def test_transactions_are_seen_whole(
    log: SqliteLog, appending_process: "subprocess.Popen[bytes]"
) -> None:
    """A read up to the ends returns the same records of both topics: transactions are whole."""
    at = {"config": [0], "offsets": [0]}
    while at["config"][0] < 1_000:
        ends = await log.ends(at)
        assert ends["config"] == ends["offsets"][:1]
        keys = {
            topic: [e.key for e in await entries_of(log.read([topic], at, ends))] for topic in at
        }
        assert keys["config"] == keys["offsets"]
        at = {topic: list(ends[topic]) for topic in at}


async def test_two_writers_take_turns(log: SqliteLog, path: Path) -> None:
    """Two writers take turns: offsets are consecutive, and each sees new topics and epochs."""
    async with asyncio.timeout(PATIENCE_S):
        second = await SqliteLog.open(path)
        for turn in range(10):
            for writer in (log, second):
                epoch = await writer.claim()
                topic = f"topic-{epoch}"
                await writer.create_topic(topic, 2)
                await writer.append([record("config", 0), record(topic, 1)], epoch)
            assert dict(await log.ends(["config"])) == {"config": [2 * turn + 2]}
        with pytest.raises(Fenced):
            await log.append([record("config", 0)], epoch - 1)
        batches = [[record("offsets", 0), record("offsets", 1)] for _ in range(200)]
        await asyncio.gather(
            *(log.append(batch) for batch in batches), *(second.append(batch) for batch in batches)
        )
        assert dict(await second.ends(["offsets"])) == {"offsets": [400, 400, 0]}
        await second.close()


async def test_concurrent_opens_create_one_file(path: Path) -> None:
    """Concurrent opens create one file, and each sees all of it."""
    logs = await asyncio.gather(*(SqliteLog.open(path) for _ in range(8)))
    await asyncio.gather(*(log.create_topic("config", 1) for log in logs))
    await asyncio.gather(*(log.append([record("config", 0)]) for log in logs))
    assert [dict(await log.ends(["config"])) for log in logs] == [{"config": [8]}] * 8
    await asyncio.gather(*(log.close() for log in logs))
    # If several logs close at the same instant, SQLite may treat none as the last: its companion
    # files stay. The database is complete without them, and the next single close removes them.
    alone = await SqliteLog.open(path)
    assert dict(await alone.ends(["config"])) == {"config": [8]}
    await alone.close()
    assert names(path.parent) == [path.name]


# --- the lock --------------------------------------------------------------------------------


async def test_an_append_waits_a_limited_time_for_the_lock(
    impatient: SqliteLog, other_writer: sqlite3.Connection
) -> None:
    """After a limited wait, an append fails because of another process's lock; reads go on."""
    with pytest.raises(LogUnavailable, match="locked by another process"):
        await impatient.append([record("config", 0)])
    assert await everything(impatient) == []
    other_writer.execute("ROLLBACK")
    assert await impatient.append([record("config", 0)]) == [Position("config", 0, 0)]


async def test_a_lock_released_in_time_causes_no_error(
    log: SqliteLog, impatient: SqliteLog, other_writer: sqlite3.Connection
) -> None:
    """A lock that is released in time causes no error."""
    waiting = asyncio.ensure_future(log.append([record("config", 0)]))
    # Once the impatient append is refused, the patient one has waited for the lock, too.
    with pytest.raises(LogUnavailable):
        await impatient.append([record("config", 0)])
    assert not waiting.done()
    other_writer.execute("ROLLBACK")
    assert await waiting == [Position("config", 0, 0)]


async def cancelled_append(log: SqliteLog) -> None:
    """Cancel an append that waits for the lock."""
    appending = asyncio.create_task(log.append([record("config", 0)]))
    await asyncio.sleep(0)
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending


async def test_ends_count_a_cancelled_append(
    log: SqliteLog, other_writer: sqlite3.Connection
) -> None:
    """`ends` waits until a cancelled append, which still waits for the lock, is committed."""
    await cancelled_append(log)
    ends = asyncio.create_task(log.ends(["config"]))
    await asyncio.sleep(0.05)
    assert not ends.done()
    other_writer.execute("ROLLBACK")
    assert dict(await ends) == {"config": [1]}


async def test_ends_wait_until_a_cancelled_append_is_refused(
    impatient: SqliteLog, other_writer: sqlite3.Connection
) -> None:
    """`ends` waits until a cancelled append is refused; the record never exists afterwards."""
    await cancelled_append(impatient)
    assert dict(await impatient.ends(["config"])) == {"config": [0]}
    other_writer.execute("ROLLBACK")
    assert await impatient.append([record("config", 0)]) == [Position("config", 0, 0)]


@pytest.mark.parametrize(("room", "kept"), [(100, 50), (2, 2)])
async def test_waiting_appends_are_kept_across_close(
    path: Path,
    other_writer: sqlite3.Connection,
    room: int,
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`close` commits the appends in the queue: the next process reads each of them once.

    Appends that wait for room in the queue raise `LogUnavailable`, and leave no record.
    """
    settings = SqliteSettings(queued_appends=room, write_wait_ms=1_000 * PATIENCE_S)
    closed, close = await SqliteLog.open(path, settings=settings), Writer.close

    async def closing(writer: Writer) -> None:
        ending = asyncio.ensure_future(close(writer))
        await asyncio.sleep(0)  # the writer accepts no more appends
        other_writer.execute("ROLLBACK")
        await ending

    monkeypatch.setattr(Writer, "close", closing)
    tasks = [asyncio.ensure_future(closed.append([record("config", 0, f"{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await closed.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[:kept] == [[Position("config", 0, offset)] for offset in range(kept)]
    assert all(isinstance(result, LogUnavailable) for result in results[kept:])
    monkeypatch.undo()
    reopened = await SqliteLog.open(path, create=False)
    assert [entry.key for entry in await everything(reopened)] == [b"%d" % n for n in range(kept)]
    await reopened.close()


# --- reading only, copies -----------------------------------------------------------


async def test_a_read_only_log_follows_and_refuses_to_write(
    log: SqliteLog, path: Path, tmp_path: Path
) -> None:
    """A log that is open for reading follows the writer, and refuses to write."""
    reading = await SqliteLog.open(path, read_only=True)
    await log.put(SAMPLE)
    assert await everything(reading) == by_position(SAMPLE)
    for refused in (
        reading.append([record("config", 0)]),
        reading.put(SAMPLE),
        reading.create_topic("config", 1),
        reading.add_partitions("config", 2),
        reading.claim(),
        reading.compact("config"),
    ):
        with pytest.raises(LogNotUsable, match="reading only"):
            await refused
    await reading.backup(tmp_path / "copy.log")
    await reading.close()


async def test_a_backup_of_a_log_in_use_is_a_prefix(
    log: SqliteLog, tmp_path: Path, appending_process: "subprocess.Popen[bytes]"
) -> None:
    """A copy of a log in use is a prefix of the log, and accepts appends."""
    await take(log.tail(["config"], {}), 100)
    await log.backup(tmp_path / "copy.log")
    copy = await SqliteLog.open(tmp_path / "copy.log", create=False)
    keys = [entry.key for entry in await entries_of(copy.read(["config"]))]
    assert len(keys) >= 100
    assert keys == [entry.key for entry in await entries_of(copy.read(["offsets"]))]
    assert keys == [
        entry.key for entry in await entries_of(log.read(["config"], None, await copy.ends(TOPICS)))
    ]
    await copy.append([record("config", 0)])
    await copy.close()


def test_writes_do_not_restart_a_backup(
    log: SqliteLog, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy in many steps is the log at the first of them."""
    monkeypatch.setattr("controlplane.logs.sqlite.backup.STEP_PAGES", 1)
    steps = count()
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(connect(path, "ro")) as reader,
    ):

        def write_meanwhile() -> bool:
            number = next(steps)
            assert number < 1_000, "the copy begins again after each write"
            writer.execute(f"CREATE TABLE meanwhile_{number} (x)")
            return False

        back_up(reader, path, tmp_path / "copy.log", write_meanwhile)
    assert next(steps) > 2
    with closing(sqlite3.connect(tmp_path / "copy.log")) as copy:
        tables = copy.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'meanwhile%'")
        assert tables.fetchone() == (0,)


@pytest.mark.parametrize("step", range(2))
def test_a_cancelled_backup_leaves_no_file(
    log: SqliteLog, path: Path, tmp_path: Path, step: int
) -> None:
    """Ctrl-C ends it while it copies, or when the copy has been checked."""
    before = names(tmp_path)
    answers = chain([False] * step, repeat(True))
    with closing(connect(path, "ro")) as reader, pytest.raises(LogUnavailable, match="cancelled"):
        back_up(reader, path, tmp_path / "copy.log", lambda: next(answers))
    assert names(tmp_path) == before


async def test_a_cancelled_caller_stops_a_backup(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the backup gets to know that its caller has left."""
    loop, ended = asyncio.get_running_loop(), threading.Event()

    def endless(_: sqlite3.Connection, *, stopped: Callable[[], bool], **__: Path) -> Ends:
        loop.call_soon_threadsafe(copying.cancel)
        while not stopped():
            time.sleep(0)
        ended.set()
        return {}

    monkeypatch.setattr("controlplane.logs.sqlite.log.back_up", endless)
    copying = asyncio.create_task(log.backup(tmp_path / "copy.log"))
    with pytest.raises(asyncio.CancelledError):
        await copying
    assert await asyncio.to_thread(ended.wait, PATIENCE_S)


async def test_backup_never_overwrites(log: SqliteLog, path: Path, tmp_path: Path) -> None:
    """Backup refuses an existing file, the log itself, and a missing directory."""
    await log.backup(tmp_path / "copy.log")
    with pytest.raises(LogNotUsable, match="already"):
        await log.backup(tmp_path / "copy.log")
    with pytest.raises(LogNotUsable, match="already"):
        await log.backup(path)
    with pytest.raises(LogUnavailable, match="cannot be created"):
        await log.backup(tmp_path / "no-such" / "copy.log")
    assert not [name for name in names(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize(
    "copied",
    [
        {"config": [4]},
        {"config": [4], "status": [1, 7]},
        {"config": [4], "status": [1]},
        {"config": [4], "status": [1, 1, 0]},
        {"config": [9], "status": [1, 1]},
        {"config": [4], "status": [1, 1], "more": [0]},
    ],
)
def test_a_copy_from_another_moment_is_corrupt(copied: dict[str, list[int]]) -> None:
    """A copy counts as corrupt unless its ends lie between the log's ends before and after it."""
    before, after = {"config": [4], "status": [1, 1]}, {"config": [8], "status": [1, 3]}
    for sound in (before, after, {"config": [5], "status": [1, 2]}):
        check_ends(Path("log.db"), before, sound, after)
    with pytest.raises(LogCorrupt, match=r"copy of log\.db does not end where"):
        check_ends(Path("log.db"), before, copied, after)


# --- another file of the same name -----------------------------------------------------------


async def test_readers_stay_with_their_file(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A reader opens no connection to a file that has replaced its own."""
    await log.append([record("config", 0)])
    reading = await SqliteLog.open(path, read_only=True)
    await (await SqliteLog.open(tmp_path / "other.db")).close()
    (tmp_path / "other.db").rename(tmp_path / path.name)
    with pytest.raises(LogNotUsable, match="deleted or replaced: open it again"):
        await reading.ends(TOPICS)
    await reading.close()
