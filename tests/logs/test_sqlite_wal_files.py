"""An embedded log at rest: it can be read without write access, and stays unchanged."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import entries_of
from controlplane.logs.log import LogNotUsable, LogUnavailable, Record
from controlplane.logs.sqlite import SqliteLog
from tests.cli.command_calls import unprivileged

RECORD = Record("t", 0, 1, b"k", b"v")


async def read_all(log: SqliteLog) -> list[Entry]:
    """Read every record of the topic `t`."""
    return list(entries_of([batch async for batch in log.read(["t"])]))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file in a folder, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Folder that another user may enter."""
    return open_path


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A closed log with one record, in its own directory."""
    (tmp_path / "archive").mkdir()
    log = await SqliteLog.open(tmp_path / "archive" / "log.db")
    await log.create_topic("t", 1)
    await log.append([RECORD])
    await log.close()
    return tmp_path / "archive" / "log.db"


@pytest.fixture
def archived(path: Path) -> Iterator[Path]:
    """Path of a log that every user may read and no user may write."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    yield path
    path.parent.chmod(0o755)


async def test_a_log_in_a_read_only_directory_is_read(archived: Path) -> None:
    """A log at rest in a read-only directory can be read: it needs no write-ahead log."""
    with unprivileged():
        log = await SqliteLog.open(archived, create=False, read_only=True)
        assert [entry.value for entry in await read_all(log)] == [b"v"]
        await log.close()
    assert [file.name for file in archived.parent.iterdir()] == ["log.db"]


async def test_a_log_with_an_unreadable_wal_is_refused(archived: Path) -> None:
    """A reader without access to the WAL raises, instead of reading half of the log."""
    with unprivileged():
        log = await SqliteLog.open(archived, create=False, read_only=True)
    archived.parent.chmod(0o755)
    archived.with_name("log.db-wal").write_bytes(b"something")
    with pytest.raises(LogUnavailable, match="a process writes to it now"):
        await read_all(log)
    await log.close()


async def test_a_reader_leaves_nothing_behind(path: Path) -> None:
    """A reader adds no file, and changes no byte of the log."""
    before = contents(path.parent)
    log = await SqliteLog.open(path, create=False, read_only=True)
    assert len(await read_all(log)) == 1
    await log.close()
    assert contents(path.parent) == before
    assert list(before) == ["log.db"]


async def test_a_cancelled_reader_leaves_nothing_behind(path: Path) -> None:
    """Ctrl-C often comes while a command opens its log."""
    before = contents(path.parent)
    opening = asyncio.create_task(SqliteLog.open(path, read_only=True))
    for _ in range(2):  # an impatient user, or a time-out after Ctrl-C
        await asyncio.sleep(0)
        opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.get_running_loop().shutdown_default_executor()
    assert contents(path.parent) == before


async def test_a_reader_that_goes_does_not_disturb_a_writer(path: Path) -> None:
    """A reader that closes leaves the files of a writer that has opened the log since."""
    reader = await SqliteLog.open(path, create=False, read_only=True)
    writer = await SqliteLog.open(path)
    await reader.close()
    await writer.append([RECORD])
    other = await SqliteLog.open(path, create=False, read_only=True)
    assert len(await read_all(other)) == 2
    await other.close()
    await writer.append([RECORD])
    assert len(await read_all(writer)) == 3
    await writer.close()


async def test_a_reader_keeps_the_wal_of_a_crashed_writer(path: Path, tmp_path: Path) -> None:
    """A reader leaves a crashed writer's write-ahead log with its records."""
    writer = await SqliteLog.open(path)
    await writer.append([RECORD])
    crashed = tmp_path / "crashed.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{crashed}{suffix}")
    await writer.close()
    reader = await SqliteLog.open(crashed, create=False, read_only=True)
    assert len(await read_all(reader)) == 2
    await reader.close()
    assert crashed.with_name("crashed.db-wal").stat().st_size


async def test_a_circle_of_links_is_no_log(tmp_path: Path) -> None:
    """The search for a WAL resolves links."""
    path = tmp_path / "log.db"
    path.symlink_to(path)
    with pytest.raises(LogNotUsable):
        await SqliteLog.open(path)


async def test_a_new_log_gets_no_pages_of_a_deleted_one(tmp_path: Path) -> None:
    """A killed process leaves a WAL. SQLite would apply it to the next file of that name."""
    path = tmp_path / "log.db"
    wal = tmp_path / "log.db-wal"
    wal.write_bytes(b"pages")
    with pytest.raises(LogNotUsable, match="wal is left of a deleted log"):
        await SqliteLog.open(path)
    assert contents(tmp_path) == {"log.db-wal": b"pages"}
    wal.unlink()
    await (await SqliteLog.open(path)).close()
