"""Files that are no log, or no log for us: one clear error, and the file stays unchanged."""

import asyncio
import os
import sqlite3
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from controlplane.logs.log import LogCorrupt, LogError, LogNotUsable, LogUnavailable
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.reader import RowBatch
from controlplane.logs.sqlite.schema import APPLICATION_ID, MIGRATIONS, VERSION, cluster_id, upgrade
from tests.logs.contract import make_topics, record
from tests.logs.embedded_entries import read_all
from tests.logs.folder import everything_below, names
from tests.logs.reading_contract import SAMPLE, by_position, entries_of, everything
from tests.logs.unprivileged_process import output_of_unprivileged_process


async def make_log(path: Path) -> None:
    """A sound log with the sample in it."""
    log = await SqliteLog.open(path)
    await make_topics(log)
    await log.put(SAMPLE)
    await log.close()


def sql(path: Path, *statements: str) -> None:
    """Change a SQLite file, bypassing the log."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def cut(path: Path, length: int) -> None:
    """Truncate a file to a length in bytes."""
    os.truncate(path, length)


def directory_instead(path: Path) -> None:
    """Replace the log by a directory of the same name."""
    path.unlink()
    path.mkdir()


def pipe_instead(path: Path) -> None:
    """Replace the log by a named pipe, whose opening would block."""
    path.unlink()
    os.mkfifo(path)


BAD: dict[str, tuple[Callable[[Path], object], type[LogError], str]] = {
    "directory": (directory_instead, LogNotUsable, "is a directory"),
    "empty": (lambda path: cut(path, 0), LogNotUsable, "is empty"),
    "text": (lambda path: path.write_text("a dump\n"), LogNotUsable, "not a SQLite file"),
    "one byte": (lambda path: path.write_bytes(b"S"), LogNotUsable, "not a SQLite file"),
    "only a header": (lambda path: cut(path, 100), LogCorrupt, "cut off"),
    "half": (lambda path: cut(path, path.stat().st_size // 2), LogCorrupt, "cut off"),
    "of another program": (
        lambda path: sql(path, "PRAGMA application_id = 7"),
        LogNotUsable,
        "another program",
    ),
    "newer schema": (
        lambda path: sql(path, f"PRAGMA user_version = {VERSION + 1}"),
        LogNotUsable,
        f"schema version {VERSION + 1}, newer than",
    ),
    "named pipe": (pipe_instead, LogNotUsable, "regular file"),
}
"""Damage to a sound log, the error class, and a part of its text."""


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
@pytest.mark.parametrize("case", BAD)
async def test_each_bad_file_has_its_error(tmp_path: Path, case: str, read_only: bool) -> None:
    """Each kind of bad file has its own error with the file's name, and stays unchanged."""
    path = tmp_path / "control.log"
    await make_log(path)
    spoil, kind, words = BAD[case]
    spoil(path)
    before = everything_below(tmp_path)
    with pytest.raises(kind, match=words) as raised:
        await SqliteLog.open(path, read_only=read_only)
    assert str(path) in str(raised.value)
    assert str(raised.value).count("\n") == 0
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize(("create", "read_only"), [(False, False), (True, True)])
async def test_a_missing_file_is_not_created_without_request(
    tmp_path: Path, create: bool, read_only: bool
) -> None:
    """A missing file is not created without `create`, nor for reading only."""
    path = tmp_path / "control.log"
    with pytest.raises(LogNotUsable, match="There is no log"):
        await SqliteLog.open(path, create=create, read_only=read_only)
    assert everything_below(tmp_path) == {}


async def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    """A missing directory is not created: its name may be a typing error."""
    with pytest.raises(LogUnavailable, match="cannot be created"):
        await SqliteLog.open(tmp_path / "no-such" / "control.log")
    assert everything_below(tmp_path) == {}


async def test_a_damaged_page_is_reported(tmp_path: Path) -> None:
    """Damage inside of the file raises `LogCorrupt` with the file's name when it is read."""
    path = tmp_path / "control.log"
    await make_log(path)
    pages = bytearray(path.read_bytes())
    pages[8_192:] = b"\xa5" * (len(pages) - 8_192)
    path.write_bytes(pages)
    with pytest.raises(LogCorrupt, match=r"control\.log is damaged"):
        await read_all(path)


async def test_a_missing_table_is_damage(tmp_path: Path) -> None:
    """A file with our mark but without our tables is damaged."""
    path = tmp_path / "control.log"
    await make_log(path)
    sql(path, "DROP VIEW entry", "DROP TABLE log")
    log = await SqliteLog.open(path)
    with pytest.raises(LogCorrupt, match="no such table"):
        await entries_of(log.read(["config"]))
    with pytest.raises(LogCorrupt, match="no such table"):
        await log.append([record("config", 0)])
    await log.close()


async def test_undecodable_headers_are_damage(tmp_path: Path) -> None:
    """Bytes that are no headers raise `LogCorrupt`, which mentions the headers."""
    path = tmp_path / "control.log"
    await make_log(path)
    for bad in (b"\xc1", b"\x91\x01", b"\x91\x92\xc4\x01\xff\xc0"):
        sql(path, f"UPDATE log SET headers = x'{bad.hex()}' WHERE id = 7")
        with pytest.raises(LogCorrupt, match="headers"):
            await read_all(path)


async def test_an_end_below_its_entries_refuses_appends(tmp_path: Path) -> None:
    """If an end lies below existing entries, an append raises `LogCorrupt`."""
    path = tmp_path / "control.log"
    await make_log(path)
    sql(path, """UPDATE partition SET "end" = 7 WHERE topic = 'config'""")
    log = await SqliteLog.open(path)
    with pytest.raises(LogCorrupt, match="UNIQUE"):
        await log.append([record("config", 0)])
    await log.close()
    sql(path, """UPDATE partition SET "end" = 8 WHERE topic = 'config'""")
    assert await read_all(path) == by_position(SAMPLE)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "how"),
    [
        (0o000, 0o755, "reading"),
        (0o000, 0o755, "writing"),
        (0o444, 0o555, "writing"),
        (0o666, 0o000, "reading"),
        (0o666, 0o000, "writing"),
    ],
)
def test_missing_rights_are_named(file_mode: int, folder_mode: int, how: str) -> None:
    """Missing rights to read or write are named in the error."""
    with TemporaryDirectory() as name:
        folder, path = Path(name), Path(name, "control.log")
        asyncio.run(make_log(path))
        path.chmod(file_mode)
        folder.chmod(folder_mode)
        sentence = output_of_unprivileged_process(path, how)
        folder.chmod(0o700)
        assert "check the access rights" in sentence
        assert str(path) in sentence
        assert names(folder) == ["control.log"]


async def test_only_the_owner_may_read(tmp_path: Path) -> None:
    """Only the owner may read the log, its companions and its backups: they hold secrets."""
    log = await SqliteLog.open(tmp_path / "control.log")
    await make_topics(log)
    await log.backup(tmp_path / "copy.log")
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in names(tmp_path)}
    assert {"control.log", "control.log-wal", "copy.log"} <= set(modes)
    assert set(modes.values()) == {0o600}
    await log.close()


async def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    """A file may have any name, also with characters that have a meaning in a URI."""
    path = tmp_path / "a?mode=ro#b%20ü ;'.log"
    await make_log(path)
    assert await read_all(path) == by_position(SAMPLE)
    assert path.exists()


async def test_a_new_file_has_mark_and_version(tmp_path: Path) -> None:
    """A new file has our mark and its version in its header, visible without SQLite."""
    path = tmp_path / "control.log"
    await (await SqliteLog.open(path)).close()
    assert names(tmp_path) == ["control.log"]
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == VERSION


# --- upgrades --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
def test_upgrades_take_the_missing_steps(version: int) -> None:
    """An upgrade from any version takes only the missing steps; repeating it changes nothing."""
    future = [*MIGRATIONS, ["CREATE TABLE one (n)"], ["CREATE TABLE two (n)", "DROP TABLE one"]]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection, future[:version])
    for _ in range(2):
        upgrade(connection, future)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        assert {"log", "partition", "fence", "two"} <= tables
        assert "one" not in tables
    assert connection.execute("PRAGMA user_version").fetchone() == (len(future),)
    connection.close()


TABLES = ("VIEW entry", "TABLE log", "TABLE fence", "TABLE partition")
"""Tables and views of schema version 1."""

LATER_TABLES = ("TABLE snapshot", "TABLE piece", "TABLE cluster", "TABLE assumed_partitions")
"""Tables that later schema versions have added."""

UNCHECKED = "ALTER TABLE log DROP COLUMN checksum"
"""Statement that removes the checksums, as before schema version 4."""


async def test_a_writer_upgrades_an_older_file(tmp_path: Path) -> None:
    """A file of an older version is upgraded by a writer; a reader leaves it as it is."""
    path = tmp_path / "control.log"
    await make_log(path)
    sql(path, *(f"DROP {table}" for table in (*TABLES, *LATER_TABLES)))
    sql(path, "PRAGMA user_version = 0")
    with pytest.raises(LogNotUsable, match="older schema version 0"):
        await SqliteLog.open(path, read_only=True)
    log = await SqliteLog.open(path)
    await make_topics(log)
    await log.close()
    log = await SqliteLog.open(path, read_only=True)
    assert len(await log.topics()) == 3
    await log.close()


async def test_a_reader_works_without_later_tables(tmp_path: Path) -> None:
    """A reader works without the later tables; a writer adds them."""
    path = tmp_path / "control.log"
    await make_log(path)
    sql(path, *(f"DROP {table}" for table in LATER_TABLES), UNCHECKED, "PRAGMA user_version = 1")
    before = path.read_bytes()
    assert await read_all(path) == by_position(SAMPLE)
    log = await SqliteLog.open(path, read_only=True)
    assert await log.snapshots.stored("config", "any") == []
    await log.close()
    assert path.read_bytes() == before
    log = await SqliteLog.open(path)
    number = await log.snapshots.begin("config", "any")
    assert await log.snapshots.finish(number, b"", 1)
    assert await everything(log) == by_position(SAMPLE)
    await log.close()


# --- a name of its own -----------------------------------------------------------------------


async def name_of(path: Path, **how: bool) -> str | None:
    """Cluster id of a log after opening."""
    log = await SqliteLog.open(path, **how)  # type: ignore[arg-type]  # flags
    await log.close()
    return log.cluster_id


async def test_the_cluster_id_never_changes(tmp_path: Path) -> None:
    """The id is the same for readers, writers and backups."""
    path = tmp_path / "control.log"
    name = await name_of(path)
    assert name is not None
    assert (len(name), len(urlsafe_b64decode(f"{name}=="))) == (22, 16)
    assert await name_of(path) == await name_of(path, read_only=True) == name
    log = await SqliteLog.open(path, read_only=True)
    await log.backup(tmp_path / "copy.log")
    await log.close()
    assert await name_of(tmp_path / "copy.log") == name
    assert await name_of(tmp_path / "another.log") != name


async def test_an_older_log_is_named_by_its_next_writer(tmp_path: Path) -> None:
    """A reader leaves an unnamed log as it is; a writer names the log when it upgrades it.

    A name that was removed from an upgraded log is not replaced.
    """
    path = tmp_path / "control.log"
    await make_log(path)
    sql(path, *(f"DROP {table}" for table in LATER_TABLES[2:]), UNCHECKED)
    sql(path, "PRAGMA user_version = 2")
    assert await name_of(path, read_only=True) is None
    name = await name_of(path)
    assert name is not None
    assert await name_of(path, read_only=True) == name
    sql(path, "DELETE FROM cluster")
    assert await name_of(path) is None


def test_no_cluster_id_begins_with_a_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's ids never begin with a hyphen, so that a command line can take them."""
    made = iter(["-" * 22, "a" * 22])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(made))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    upgrade(connection)
    assert cluster_id(connection) == "a" * 22
    connection.close()


async def test_a_log_behind_a_lost_folder_is_found_again(tmp_path: Path) -> None:
    """Appends are refused while the path leads nowhere, and succeed once the file is back."""
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    log = await SqliteLog.open(folder / "control.log")
    await log.create_topic("t", 1)
    folder.rename(away)
    folder.write_text("")
    for _ in range(2):
        with pytest.raises(LogNotUsable, match="was deleted or replaced"):
            await log.append([record("t", 0)])
    folder.unlink()
    away.rename(folder)
    (position,) = await log.append([record("t", 0)])
    assert position.offset == 0
    await log.close()


async def test_an_input_error_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an input error, SQLite ends the transaction itself; the error stays the reason."""
    log = await SqliteLog.open(tmp_path / "control.log")
    await log.create_topic("t", 1)
    await log.append([record("t", 0)])

    def fail(_: RowBatch, connection: sqlite3.Connection, *__: object, **___: object) -> None:
        connection.execute("ROLLBACK")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    monkeypatch.setattr(RowBatch, "fetch", fail)
    with pytest.raises(LogUnavailable, match="disk I/O error"):
        await entries_of(log.read(["t"]))
    await log.close()
