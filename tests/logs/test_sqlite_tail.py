"""Tails of the embedded log: what this process appends is handed to them, the rest they read."""

import asyncio
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.watch import COMMITS_KEPT
from tests.conftest import seeded
from tests.logs.contract import entry, record
from tests.logs.reading_contract import T0, by_place, everything, take

HEADERS = (("name", b"value"), ("name", None), ("half \ud800 a pair", b""))


async def test_what_this_process_appends_is_not_read_again(log: SqliteLog) -> None:
    """The tail has the appended record, headers too, although it was trimmed from the file."""
    tail = log.tail(["config"], {})
    await log.append([record("config", 0)])
    assert len(await take(tail, 1)) == 1
    await log.append([Record("config", 0, T0, b"k", None, HEADERS)])
    await log.trim("config", [2])
    assert await take(tail, 1) == [Entry("config", 0, 1, T0, b"k", None, HEADERS)]


async def test_a_slow_tail_reads_what_it_could_not_be_handed(log: SqliteLog) -> None:
    """However far it falls behind, it misses nothing, and gets nothing twice."""
    tail = log.tail(["config", "status"], {})
    await log.append([record("config", 0)])
    taken = await take(tail, 1)
    for number in range(2 * COMMITS_KEPT):
        await log.append([record("config" if number % 3 else "status", 0, str(number))])
    taken += await take(tail, 2 * COMMITS_KEPT)
    assert by_place(taken) == await everything(log)


async def test_an_import_between_appends(log: SqliteLog) -> None:
    """An import may leave a gap and is not passed on in memory, even within one group."""
    tail = log.tail(["config"], {})
    await log.append([record("config", 0)])
    taken = await take(tail, 1)
    await asyncio.gather(
        log.append([record("config", 0)] * 5_000),  # meanwhile the others gather
        log.append([record("config", 0)]),
        log.put([entry(5_007), entry(5_009)]),
        log.append([record("config", 0)]),
    )
    taken += await take(tail, 5_004)
    assert [one.offset for one in taken] == [*range(5_002), 5_007, 5_009, 5_010]


async def test_partitions_that_are_added(log: SqliteLog) -> None:
    """A tail of their topic has them, too."""
    tail = log.tail(["offsets"], {})
    await log.append([record("offsets", 0)])
    taken = await take(tail, 1)
    await log.add_partitions("offsets", 5)
    await log.append([record("offsets", 4), record("config", 0)])
    taken += await take(tail, 1)
    assert [(one.partition, one.offset) for one in taken] == [(0, 0), (4, 0)]


@pytest.mark.parametrize("seed", range(10))
async def test_two_who_write(log: SqliteLog, path: Path, seed: int) -> None:
    """Both tails get every record once, in order."""
    random = seeded(f"tail/{seed}")
    other = await SqliteLog.open(path)
    tails = [one.tail(["config", "offsets"], {}) for one in (log, other)]
    taken: list[list[Entry]] = [[], []]
    written = 0
    for _ in range(60):
        places = [
            random.choice([("config", 0), ("offsets", 2)]) for _ in range(random.randint(1, 3))
        ]
        await random.choice([log, other]).append([record(*place) for place in places])
        written += len(places)
        at = random.randrange(3)
        if at < 2 and len(taken[at]) < written:
            taken[at] += await take(tails[at], 1)
    for tail, entries in zip(tails, taken, strict=True):
        if len(entries) < written:
            entries.extend(await take(tail, written - len(entries)))
        assert by_place(entries) == await everything(log)
        for topic in ("config", "offsets"):
            offsets = [one.offset for one in entries if one.topic == topic]
            assert offsets == sorted(offsets)
    await other.close()
