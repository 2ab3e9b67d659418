"""A flipped bit in a record of an embedded log is noticed, wherever it lies."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.log import LogCorrupt
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.checksums import checksum
from controlplane.logs.sqlite.schema import VERSION
from tests.cli.command_calls import call, embedded, refusal
from tests.logs.embedded_entries import read_all
from tests.logs.reading_contract import everything

KEY, VALUE, HEADER = b"key-of-the-record", b"value-of-the-record", b"value-of-the-header"
TIMESTAMP = 0x1234567890AB

ENTRIES = [
    Entry("config", 0, 0, 1, b"before", b"it"),
    Entry("config", 0, 7, TIMESTAMP, KEY, VALUE, (("header", HEADER),)),
    Entry("config", 0, 8, 1, b"tombstone", None),
    Entry("config", 0, 9, 1, b"behind", b""),
]

CELLS = {
    "key": KEY,
    "value": VALUE,
    "header": HEADER,
    "timestamp": TIMESTAMP.to_bytes(6, "big"),
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An embedded log with the sample entries."""
    return embedded(tmp_path / "log.db", ENTRIES)


def flip(path: Path, cell: bytes, bit: int) -> None:
    """Flip one bit of a cell in the file."""
    octets = bytearray(path.read_bytes())
    assert octets.count(cell) == 1
    octets[octets.index(cell) + bit // 8] ^= 1 << bit % 8
    path.write_bytes(octets)


def change(path: Path, statement: str) -> None:
    """Change the tables, bypassing the log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def read(path: Path) -> list[Entry]:
    """Every record, as a reader returns it."""
    return asyncio.run(read_all(path))


@pytest.mark.parametrize("bit", [0, 13, 40])
@pytest.mark.parametrize("cell", CELLS)
def test_a_flipped_bit_is_noticed_by_every_reader(
    cell: str, bit: int, log: Path, tmp_path: Path
) -> None:
    """Reads, `inspect`, `backup` and `import` fail; the error names the record and the file."""
    whole = shutil.copy(log, tmp_path / "whole.db")
    flip(log, CELLS[cell], bit)
    with pytest.raises(LogCorrupt, match=r"config@7 does not fit its checksum"):
        read(log)
    inspect = ("inspect", log, "--config-topic", "config")
    for words in (inspect, ("backup", log, tmp_path / "copy.db")):
        message = refusal(call(*words))
        assert "config@7 does not fit its checksum" in message
        assert str(log) in message
        assert "backup" in message
    assert not (tmp_path / "copy.db").exists()
    imported = call("import", whole, log, "--config-topic", "config")
    assert imported.code == 2
    assert f"The log {log} is damaged (record config@7 does not fit" in imported.err


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET id = id + 1 WHERE id = (SELECT max(id) FROM log)",
        "UPDATE log SET value = NULL WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET value = x'' WHERE key = CAST('tombstone' AS BLOB)",
        "UPDATE log SET aborted = 1 WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET aborted = -1 WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET value = 'text' WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET ts = 1.5 WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET checksum = NULL WHERE key = CAST('behind' AS BLOB)",
        "UPDATE log SET key = value, value = key WHERE key = CAST('before' AS BLOB)",
    ],
)
def test_a_record_of_another_form_is_noticed(statement: str, log: Path) -> None:
    """The checksum distinguishes a tombstone from an empty value, and covers the position."""
    change(log, 'UPDATE partition SET "end" = 100')
    change(log, statement)
    with pytest.raises(LogCorrupt, match="does not fit its checksum"):
        read(log)


async def test_compaction_removes_nothing_by_a_damaged_key(log: Path) -> None:
    """Compaction removes no record because of a damaged key: it might be that of another record."""
    flip(log, KEY, 3)
    opened = await SqliteLog.open(log)
    with pytest.raises(LogCorrupt, match="does not fit its checksum"):
        await opened.compact("config")
    with pytest.raises(LogCorrupt, match="does not fit its checksum"):
        await opened.put(ENTRIES)
    await opened.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_log_gets_checksums_when_it_is_written(version: int, log: Path) -> None:
    """An older log is readable; after its first write, a flipped bit in old records is noticed."""
    change(log, "ALTER TABLE log DROP COLUMN checksum")
    later = {1: ["snapshot", "piece", "cluster"], 2: ["cluster"], 3: []}[version]
    for table in (*later, "assumed_partitions"):
        change(log, f"DROP TABLE {table}")
    change(log, f"PRAGMA user_version = {version}")
    assert read(log) == ENTRIES

    async def write() -> None:
        opened = await SqliteLog.open(log)
        assert await everything(opened) == ENTRIES
        await opened.close()

    asyncio.run(write())
    assert read(log) == ENTRIES
    with closing(sqlite3.connect(log)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    flip(log, VALUE, 5)
    with pytest.raises(LogCorrupt, match=r"config@7"):
        read(log)


def test_the_checksum_is_fixed() -> None:
    """The checksum of given records never changes, because files outlive releases."""
    assert checksum(5, 1_700_000_000_000, b"k", b"v", None, 0) == 1974092807
    assert checksum(5, 1, None, None, b"h", 1) == 1517081684
