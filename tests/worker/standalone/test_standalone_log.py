"""Log of a standalone worker: offsets in a file, configs in memory, data records in another log."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from controlplane.event_loop import close
from controlplane.logs.log import (
    EmbeddedLog,
    Fenced,
    LogNotUsable,
    LogUnavailable,
    Record,
)
from controlplane.logs.memory import MemoryLog
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.offset_file_format import (
    OffsetMap,
    decode_offsets,
    encode_offsets,
)
from controlplane.worker.standalone.standalone_log import StandaloneLog
from tests.patience import PATIENCE_S

TOPICS = Topics()
LINES = "lines"


def offset(key: bytes, value: bytes | None) -> Record:
    """Record of the offsets topic."""
    return Record(TOPICS.offsets, 0, 1, key, value)


def line(value: bytes) -> Record:
    """Record of the connector's topic."""
    return Record(LINES, 0, 1, None, value)


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    """Offsets file with one offset."""
    file = OffsetFile(tmp_path / "connect.offsets")
    file.path.write_bytes(encode_offsets({b"old": b"1"}))
    return file


@pytest.fixture
def records() -> MemoryLog:
    """Log of the data topics."""
    return MemoryLog()


@pytest.fixture
async def log(records: MemoryLog, file: OffsetFile) -> AsyncIterator[StandaloneLog]:
    """Standalone log with that offsets file."""
    log = await StandaloneLog.open(TOPICS, records, file, file.load())
    await log.create_topic(LINES, 1)
    yield log
    await log.close()


def in_file(file: OffsetFile) -> dict[bytes | None, bytes | None]:
    """Offsets that a Java worker loads from the file."""
    return decode_offsets(file.path.read_bytes())


async def entries(log: EmbeddedLog, *topics: str) -> list[Entry]:
    """All entries of some topics."""
    return [entry async for batch in log.read(topics) for entry in batch.entries()]


async def test_the_log_begins_with_the_offsets_of_the_file(
    log: StandaloneLog, file: OffsetFile
) -> None:
    """Each offset is a record with the file's time of writing."""
    (entry,) = await entries(log, TOPICS.offsets)
    assert (entry.key, entry.value, entry.timestamp) == (b"old", b"1", file.changed_ms)


async def test_appended_offsets_are_in_the_file(log: StandaloneLog, file: OffsetFile) -> None:
    """The file has appended offsets once the append returns; other offsets stay."""
    await log.append([offset(b"new", b"2"), Record(TOPICS.status, 0, 1, b"s", b"t")])
    assert in_file(file) == {b"old": b"1", b"new": b"2"}
    assert [entry.key for entry in await entries(log, TOPICS.offsets)] == [b"old", b"new"]
    await log.append([offset(b"old", b"3"), offset(b"new", None)])
    assert in_file(file) == {b"old": b"3"}


async def test_odd_offsets_stay(records: MemoryLog, file: OffsetFile) -> None:
    """A commit keeps entries without a key or JSON, and removed ones, whose value is null."""
    odd = {None: b"value", b"\xff": b"\xfe", b"removed": None}
    file.path.write_bytes(encode_offsets(odd))
    log = await StandaloneLog.open(TOPICS, records, file, file.load())
    await log.append([offset(b"new", b"2")])
    assert in_file(file) == {**odd, b"new": b"2"}
    await log.close()


async def test_offsets_that_cannot_be_written_are_not_appended(
    log: StandaloneLog, file: OffsetFile
) -> None:
    """The append raises `LogUnavailable` until the file can be written."""
    folder, hidden = file.path.parent, file.path.parent.with_name("hidden")
    folder.rename(hidden)
    with pytest.raises(LogUnavailable, match=r"connect\.offsets cannot be written"):
        await log.append([offset(b"new", b"2")])
    assert len(await entries(log, TOPICS.offsets)) == 1
    hidden.rename(folder)
    await log.append([offset(b"new", b"2")])
    assert in_file(file) == {b"old": b"1", b"new": b"2"}


async def test_a_cancelled_append_leaves_file_and_log_equal(
    log: StandaloneLog, file: OffsetFile
) -> None:
    """An append that has begun is completed."""
    append = asyncio.create_task(log.append([offset(b"new", b"2")]))
    await asyncio.sleep(0)
    append.cancel()
    await asyncio.wait([append])
    assert append.cancelled()
    await log.append([offset(b"last", b"3")])
    keys = [entry.key for entry in await entries(log, TOPICS.offsets)]
    assert keys == [b"old", b"new", b"last"]
    assert in_file(file).keys() == {*keys}


async def test_concurrent_commits_keep_each_other(log: StandaloneLog, file: OffsetFile) -> None:
    """Each of several concurrent commits writes the whole file with the others' offsets."""
    keys = [str(number).encode() for number in range(20)]
    await asyncio.gather(*(log.append([offset(key, b"1")]) for key in keys))
    assert in_file(file).keys() == {b"old", *keys}


async def test_a_close_completes_running_commits(log: StandaloneLog, file: OffsetFile) -> None:
    """No commit is lost at the end."""
    append = asyncio.create_task(log.append([offset(b"new", b"2")]))
    await asyncio.sleep(0)
    append.cancel()
    await log.close()
    assert b"new" in in_file(file)


async def test_records_lie_in_the_other_log(log: StandaloneLog, records: MemoryLog) -> None:
    """The other log has no configs and statuses; the topics of both are listed."""
    await log.append([Record(TOPICS.config, 0, 1, b"connector-a", b"{}")])
    await log.append([line(b"one")])
    assert [entry.value for entry in await entries(records, LINES)] == [b"one"]
    assert (await records.topics()).keys() == {LINES}
    assert (await log.topics()).keys() == {LINES, "connect-configs", "connect-offsets"} | {
        "connect-status",
        "connect-commands",
    }
    both = await entries(log, LINES, TOPICS.config)
    assert [entry.topic for entry in both] == [TOPICS.config, LINES]
    assert await log.ends([LINES, TOPICS.config]) == {LINES: [1], TOPICS.config: [1]}


async def test_no_batch_is_of_both_logs(log: StandaloneLog, file: OffsetFile) -> None:
    """A batch with records and offsets is refused whole, because it could be torn."""
    with pytest.raises(LogNotUsable, match="no exactly-once support"):
        await log.append([line(b"one"), offset(b"new", b"2")])
    assert await entries(log, LINES) == []
    assert in_file(file) == {b"old": b"1"}


@pytest.mark.parametrize("record", [offset(b"new", b"2"), line(b"one")], ids=["offset", "line"])
async def test_an_older_epoch_is_fenced(
    log: StandaloneLog, file: OffsetFile, record: Record
) -> None:
    """Both logs are fenced, before the file is written."""
    older, newer = await log.claim(), await log.claim()
    with pytest.raises(Fenced):
        await log.append([record], older)
    assert in_file(file) == {b"old": b"1"}
    await log.append([record], newer)


async def test_an_append_that_a_claim_overtakes_is_fenced(
    log: StandaloneLog, file: OffsetFile
) -> None:
    """The file has no offset of it, now and after the next append."""
    append = asyncio.create_task(log.append([offset(b"late", b"2")], await log.claim()))
    await asyncio.sleep(0)  # the append has begun
    newer = await log.claim()
    with pytest.raises(Fenced):
        await append
    await log.append([offset(b"new", b"2")], newer)
    assert in_file(file).keys() == {b"old", b"new"}


async def test_a_claim_waits_for_a_file_that_is_written(
    log: StandaloneLog, file: OffsetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append that writes the file succeeds; its offset is in the log before the claim."""
    saving, released, save = Event(), Event(), file.save

    def slow(offsets: OffsetMap) -> None:
        saving.set()
        released.wait(PATIENCE_S)
        save(offsets)

    monkeypatch.setattr(file, "save", slow)
    append = asyncio.create_task(log.append([offset(b"new", b"2")], await log.claim()))
    await asyncio.to_thread(saving.wait, PATIENCE_S)
    claim = asyncio.create_task(log.claim())
    await asyncio.sleep(0)
    assert not claim.done()
    released.set()
    await claim
    assert [entry.key for entry in await entries(log, TOPICS.offsets)] == [b"old", b"new"]
    await append
    assert in_file(file) == {b"old": b"1", b"new": b"2"}


async def test_a_tail_reads_both_logs(log: StandaloneLog) -> None:
    """A tail yields records of a data topic and of Connect's topics, in the order of appends."""
    tail = log.tail([TOPICS.config, LINES], {})
    topics: list[str] = []
    for record in (line(b"one"), Record(TOPICS.config, 0, 1, b"connector-a", b"{}"), line(b"two")):
        await log.append([record])
        topics.append((await anext(tail)).topic)
    await close(tail)
    assert topics == [LINES, TOPICS.config, LINES]


async def test_a_tail_ends_with_its_log(log: StandaloneLog) -> None:
    """A closed log wakes the tail with its error."""
    tail = log.tail([TOPICS.config, LINES], {})
    waiting = asyncio.create_task(_next(tail))
    await asyncio.sleep(0)
    await log.close()
    with pytest.raises(LogUnavailable):
        await waiting


async def _next(tail: AsyncIterator[object]) -> object:
    return await anext(tail)


async def test_connects_topics_take_no_imports(log: StandaloneLog) -> None:
    """Connect's topics refuse `put`, which imports entries; data topics accept it."""
    with pytest.raises(LogNotUsable, match="connect-configs"):
        await log.put([Entry(TOPICS.config, 0, 0, 1, b"k", b"v")])
    assert await log.put([Entry(LINES, 0, 5, 1, b"k", b"v")]) == 1


async def test_compaction_leaves_the_file_alone(log: StandaloneLog, file: OffsetFile) -> None:
    """The log drops superseded offsets; the file has the last ones."""
    await log.append([offset(b"old", b"2")])
    assert await log.compact(TOPICS.offsets) == 1
    assert in_file(file) == {b"old": b"2"}
    await log.append([line(b"one")])
    assert await log.trim(LINES, [1]) == 1
