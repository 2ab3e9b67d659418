"""Law: the memory log and the SQLite log answer every operation alike.

Each test applies one random series of operations to both logs. After every operation both must give
the same answer, or an error of the same type and text. At the end both must hold the same entries,
also after the file was closed and opened again.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.logs.log import LogError, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from tests.conftest import FEWER_EXAMPLES
from tests.logs.reading_contract import entries_of, everything

OwnLog = MemoryLog | SqliteLog
LogOperation = Callable[[OwnLog], Awaitable[Any]]

TOPICS = ("config", "offsets", "no-such")
"""Two topics that exist from the start, with one and three partitions, and one that is missing."""

topics = st.sampled_from(TOPICS)
partitions = st.sampled_from((0, 0, 0, 1, 2, 3))
offsets = st.integers(-1, 12)
raw = st.none() | st.sampled_from((b"", b"a", b"b", b"c"))
timestamps = st.integers(-(2**63), 2**63 - 1)
headers = st.lists(st.tuples(st.text(max_size=2), raw), max_size=2).map(tuple)

records = st.lists(st.builds(Record, topics, partitions, timestamps, raw, raw, headers), max_size=4)
entries = st.lists(
    st.builds(Entry, topics, partitions, offsets, timestamps, raw, raw, headers, st.booleans()),
    max_size=6,
)
easy_entries = st.lists(
    st.builds(
        Entry, st.just("offsets"), st.just(1), offsets, st.just(1), st.just(b"k"), st.just(b"v")
    ),
    max_size=6,
)
"""Entries that `put` often accepts: their offset is free, or has an equal entry."""

ends = st.none() | st.dictionaries(topics, st.lists(offsets, max_size=3), max_size=2)


def _append(batch: list[Record], epoch: int | None) -> LogOperation:
    return lambda log: log.append(batch, epoch)


def _put(batch: list[Entry]) -> LogOperation:
    return lambda log: log.put(batch)


def _compact(topic: str, below: list[int], tombstones: bool) -> LogOperation:
    return lambda log: log.compact(topic, below, tombstones=tombstones)


def _create(topic: str, partitions: int) -> LogOperation:
    return lambda log: log.create_topic(topic, partitions)


def _add(topic: str, partitions: int) -> LogOperation:
    return lambda log: log.add_partitions(topic, partitions)


def _starts(names: list[str]) -> LogOperation:
    return lambda log: log.starts(names)


def _claim() -> LogOperation:
    return lambda log: log.claim()


def _read(names: list[str], start: Any, stop: Any) -> LogOperation:
    return lambda log: entries_of(log.read(names, start, stop))


steps = st.one_of(
    st.builds(_append, records, st.none() | st.integers(0, 3)),
    st.builds(_append, records, st.none()),
    st.builds(_put, entries),
    st.builds(_put, easy_entries),
    st.builds(_put, easy_entries),
    st.builds(_compact, topics, st.lists(offsets, max_size=3), st.booleans()),
    st.builds(_create, topics, st.integers(0, 4)),
    st.builds(_add, topics, st.integers(0, 4)),
    st.builds(_starts, st.lists(topics, max_size=2)),
    st.builds(_claim),
    st.builds(_read, st.lists(topics, max_size=3), ends, ends),
)

SMALL = SqliteSettings(chunk_records=3, synchronous="NORMAL")
"""Limits so small that chunks end in the middle of partitions."""


async def _answer(log: OwnLog, step: LogOperation) -> Any:
    """Result of an operation, or its error."""
    try:
        return await step(log)
    except LogError as error:
        return type(error), str(error)


async def _live(path: Path, life: list[LogOperation]) -> None:
    """Run the same operations on both logs and compare them after each."""
    memory, sqlite = MemoryLog(), await SqliteLog.open(path, settings=SMALL)
    for step in (_create("config", 1), _create("offsets", 3), *life):
        assert await _answer(memory, step) == await _answer(sqlite, step)
        names = await memory.topics()
        assert names == await sqlite.topics()
        assert await memory.ends(names) == await sqlite.ends(names)
    assert await everything(memory) == await everything(sqlite)
    await sqlite.close()
    again = await SqliteLog.open(path, create=False)
    assert await everything(memory) == await everything(again)
    assert await memory.claim() == await again.claim()
    await again.close()


@settings(max_examples=FEWER_EXAMPLES)
@given(st.lists(steps, max_size=12))
def test_memory_log_equals_sqlite_log(life: list[LogOperation]) -> None:
    """Every sequence of operations gives the same answers, errors and entries on both logs."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_live(Path(folder, "control.log"), life))
