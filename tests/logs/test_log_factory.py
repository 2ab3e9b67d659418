"""Opening any log by its name."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import entries_of
from controlplane.logs.dumps import Dump, read_dump
from controlplane.logs.kafka.new_topics import new_topic_defaults
from controlplane.logs.log import LogCorrupt, LogNotUsable, ReadableLog
from controlplane.logs.log_factory import open_log, partitions_of
from controlplane.logs.names import is_embedded, path_of
from controlplane.logs.sqlite import SqliteLog
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.logs.folder import names


async def every_entry(log: ReadableLog) -> list[Entry]:
    """All entries of a log, by position."""
    batches = [batch async for batch in log.read(await log.topics())]
    return sorted(entries_of(batches), key=lambda entry: entry.position)


@pytest.fixture
def entries(histories: Path) -> list[Entry]:
    """Records with gaps; some are aborted."""
    return read_dump(histories / "aborted-3.9.log.jsonl").entries


@pytest.fixture
async def embedded(tmp_path: Path, entries: list[Entry]) -> Path:
    """An embedded log with the same records."""
    log = await SqliteLog.open(tmp_path / "log.db")
    for topic, partitions in partitions_of(entries).items():
        await log.create_topic(topic, partitions)
    await log.put(entries)
    await log.close()
    return tmp_path / "log.db"


async def test_a_dump_is_a_log(histories: Path, entries: list[Entry]) -> None:
    """A dump is read into memory; the result has its format."""
    opened = await open_log(str(histories / "aborted-3.9.log.jsonl"))
    assert isinstance(opened.log, ReadableLog)
    assert (opened.form, opened.problems) == ("histories", ())
    assert await every_entry(opened.log) == entries
    await opened.log.close()


async def test_a_cancelled_opening_stops_the_reading(
    histories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C need not wait for the end of a large dump."""
    loop, stops = asyncio.get_running_loop(), list[bool]()

    def endless(_: Path, *, stopped: Callable[[], bool], **__: object) -> Dump:
        loop.call_soon_threadsafe(opening.cancel)
        while not stopped():
            time.sleep(0)
        stops.append(True)
        raise LogNotUsable("the result is useless")

    monkeypatch.setattr("controlplane.logs.log_factory.read_dump", endless)
    opening = asyncio.create_task(open_log(str(histories / "aborted-3.9.log.jsonl")))
    with pytest.raises(asyncio.CancelledError):
        await opening
    await loop.shutdown_default_executor()
    assert stops


def test_a_stopped_reading_ends_early(histories: Path) -> None:
    """No line is read after the caller has left."""
    assert read_dump(histories / "aborted-3.9.log.jsonl", stopped=lambda: True).entries == []


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
async def test_an_embedded_log_by_path_or_address(
    embedded: Path, entries: list[Entry], form: str
) -> None:
    """A plain path works because of the file's content, `sqlite:///` because of the scheme."""
    opened = await open_log(form.format(embedded))
    assert opened.form == "sqlite"
    assert await every_entry(opened.log) == entries
    await opened.log.close()


async def test_a_log_that_was_opened_cannot_be_written(embedded: Path) -> None:
    """`open_log` opens a log for reading only."""
    opened = await open_log(str(embedded))
    assert isinstance(opened.log, SqliteLog)
    with pytest.raises(LogNotUsable):
        await opened.log.create_topic("more", 1)
    await opened.log.close()


async def test_a_damaged_log_is_closed_again(embedded: Path) -> None:
    """A log that proves damaged while it is opened is closed: no companion file stays."""
    with closing(sqlite3.connect(embedded)) as connection:
        connection.execute("ALTER TABLE assumed_partitions RENAME TO other")
    with pytest.raises(LogCorrupt, match="no such table"):
        await open_log(str(embedded))
    assert names(embedded.parent) == [embedded.name]


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("log.db", "log.db"),
        ("/a/log.db", "/a/log.db"),
        ("sqlite:///log.db", "log.db"),
        ("sqlite:////a/log.db", "/a/log.db"),
        ("sqlite://log.db", "log.db"),
        ("./odd://name", "odd:/name"),
    ],
)
def test_slashes_make_a_path_relative_or_absolute(where: str, path: str) -> None:
    """A path after three slashes is relative, after four absolute."""
    assert path_of(where) == Path(path)


def test_the_content_of_a_file_decides(tmp_path: Path) -> None:
    """Content makes a file an embedded log, not the ending `.db`; a missing file is none."""
    (tmp_path / "dump.db").write_text("SQLite format 2", "utf-8")
    assert not is_embedded(str(tmp_path / "dump.db"))
    assert not is_embedded(str(tmp_path / "nowhere.db"))
    assert is_embedded("sqlite:///nowhere.db")
    assert not is_embedded("kafka://broker:9092")


@pytest.mark.parametrize(
    ("settings", "configs"),
    [
        ({}, {}),
        ({"config.storage.segment.ms": "9"}, {"segment.ms": "9"}),
        (
            {"config.storage.segment.ms": "9", "command.storage.segment.ms": "8"},
            {"segment.ms": "8"},
        ),
        ({"offset.storage.segment.ms": "9"}, {}),
        ({"command.storage.min.compaction.lag.ms": "7"}, {"min.compaction.lag.ms": "7"}),
    ],
)
def test_a_new_command_topic_keeps_its_records(
    settings: dict[str, str], configs: dict[str, str]
) -> None:
    """The configs are those of the config topic, then `command.storage.*`, else 30 days."""
    configuration = Configuration(flag_values((key, key, text) for key, text in settings.items()))
    topics = new_topic_defaults(configuration)
    thirty_days = {"min.compaction.lag.ms": "2592000000"}
    spec = topics["connect-commands"].spec("t", 1)
    assert spec.configs == thirty_days | configs | {"cleanup.policy": "compact"}
    assert "min.compaction.lag.ms" not in topics["connect-configs"].spec("t", 1).configs
