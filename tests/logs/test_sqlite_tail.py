"""Tails of the embedded log: they get this process's appends from memory, and read the rest."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.logs.sqlite.watch import COMMITS_KEPT
from controlplane.projection.release_folds import ReadPositions
from tests.conftest import seeded
from tests.logs.contract import entry, make_topics, record
from tests.logs.reading_contract import T0, TOPICS, by_position, everything, take
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

NEVER_MS = 3_600_000
"""Poll interval that no test reaches."""

HEADERS = (("name", b"value"), ("name", None), ("half \ud800 a pair", b""))


async def test_own_appends_are_not_read_again(log: SqliteLog) -> None:
    """The tail has the appended record with its headers, although it was trimmed from the file."""
    tail = log.tail(["config"], {})
    await log.append([record("config", 0)])
    assert len(await take(tail, 1)) == 1
    await log.append([Record("config", 0, T0, b"k", None, HEADERS)])
    await log.trim("config", [2])
    assert await take(tail, 1) == [Entry("config", 0, 1, T0, b"k", None, HEADERS)]


async def test_a_slow_tail_misses_no_record(log: SqliteLog) -> None:
    """A tail that falls behind misses no record and gets none twice."""
    tail = log.tail(["config", "status"], {})
    await log.append([record("config", 0)])
    taken = await take(tail, 1)
    for number in range(2 * COMMITS_KEPT):
        await log.append([record("config" if number % 3 else "status", 0, str(number))])
    taken += await take(tail, 2 * COMMITS_KEPT)
    assert by_position(taken) == await everything(log)


async def test_a_tail_reads_imports_between_appends(log: SqliteLog) -> None:
    """A tail reads imported entries from the file, also those within a group of appends."""
    tail = log.tail(["config"], {})
    await log.append([record("config", 0)])
    taken = await take(tail, 1)
    await asyncio.gather(
        log.append([record("config", 0)] * 5_000),  # meanwhile the calls below join one group
        log.append([record("config", 0)]),
        log.put([entry(5_007), entry(5_009)]),
        log.append([record("config", 0)]),
    )
    taken += await take(tail, 5_004)
    assert [tailed.offset for tailed in taken] == [*range(5_002), 5_007, 5_009, 5_010]


async def test_a_tail_returns_records_of_added_partitions(log: SqliteLog) -> None:
    """A tail also returns records of partitions that are added to its topic."""
    tail = log.tail(["offsets"], {})
    await log.append([record("offsets", 0)])
    taken = await take(tail, 1)
    await log.add_partitions("offsets", 5)
    await log.append([record("offsets", 4), record("config", 0)])
    taken += await take(tail, 1)
    assert [(tailed.partition, tailed.offset) for tailed in taken] == [(0, 0), (4, 0)]


@pytest.mark.parametrize("seed", range(10))
async def test_tails_of_two_writers_return_every_record(
    log: SqliteLog, path: Path, seed: int
) -> None:
    """With two writing logs, each one's tail returns every record once, in order."""
    random = seeded(f"tail/{seed}")
    other = await SqliteLog.open(path)
    tails = [opened.tail(["config", "offsets"], {}) for opened in (log, other)]
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
        assert by_position(entries) == await everything(log)
        for topic in ("config", "offsets"):
            offsets = [tailed.offset for tailed in entries if tailed.topic == topic]
            assert offsets == sorted(offsets)
    await other.close()


@pytest.fixture
async def unpolled(path: Path) -> AsyncIterator[SqliteLog]:
    """A log whose tails never poll: they learn of this process's commits only."""
    settings = SqliteSettings(tail_poll_interval_ms=NEVER_MS)
    log = await SqliteLog.open(path, settings=settings)
    await make_topics(log)
    yield log
    await log.close()


async def test_a_slow_tail_finds_a_dropped_commit(
    unpolled: SqliteLog,
) -> None:
    """A slow tail finds a dropped commit without a poll, even if no later offset reveals it."""
    tail = unpolled.tail(["config", "status"], {})
    await unpolled.append([record("config", 0)])
    taken = await take(tail, 1)
    await unpolled.append([record("status", 1)])
    for _ in range(COMMITS_KEPT):
        await unpolled.append([record("config", 0)])
    taken += await take(tail, COMMITS_KEPT + 1)
    assert by_position(taken) == await everything(unpolled)


async def test_a_tail_finds_imports_without_a_poll(unpolled: SqliteLog) -> None:
    """A tail finds imported entries without a poll, also in a partition without appends."""
    tail = unpolled.tail(["config", "status"], {})
    await unpolled.append([record("config", 0)])
    taken = await take(tail, 1)
    imported = Entry("status", 1, 0, T0, b"k", b"v")
    await asyncio.gather(
        unpolled.append([record("config", 0)] * 5_000),  # meanwhile the calls below join one group
        unpolled.append([record("config", 0)]),
        unpolled.put([imported]),
    )
    taken += await take(tail, 5_002)
    assert imported in taken


async def test_after_a_failed_poll_a_tail_reads_every_commit(
    unpolled: SqliteLog,
) -> None:
    """After a failed poll, a tail reads the file after every commit that may concern it."""
    tail = unpolled.tail(["status"], {})
    await unpolled.append([record("status", 0)])
    await take(tail, 1)
    unpolled._watch._connection.close()  # from now on, each poll fails
    reading = asyncio.ensure_future(take(tail, 1))
    await asyncio.sleep(0.1)  # until the tail waits for a commit
    imported = Entry("status", 1, 0, T0, b"k", b"v")
    await unpolled.put([imported])
    assert await reading == [imported]


@pytest.mark.parametrize("writers", [1, 2, 8, 40])
@pytest.mark.parametrize("slow", [False, True])
async def test_no_record_of_this_process_waits_for_a_poll(
    unpolled: SqliteLog, writers: int, slow: bool
) -> None:
    """Records of many writers arrive without a poll, between new topics and write probes."""
    random = seeded(f"unpolled/{writers}/{slow}")
    positions = ReadPositions()
    positions.replace(await unpolled.ends(TOPICS))

    async def follow() -> None:
        async for batch in unpolled.tail(TOPICS, positions.ends):
            if random.random() < 0.2:
                await asyncio.sleep(0.02 * random.random() if slow else 0)
            positions.advance({(batch.topic, batch.partition): batch.end})

    async def write() -> None:
        for _ in range(600 // writers):
            await random.choice(steps)()

    async def append() -> None:
        places = [
            (topic, random.randrange(TOPICS[topic]))
            for topic in random.choices([*TOPICS], k=random.randint(1, 3))
        ]
        written = await unpolled.append([record(*place) for place in places])
        if random.random() < 0.5:
            await positions.wait_for_records(written)

    async def create() -> None:
        await unpolled.create_topic(f"own-{random.random()}", 1)

    async def probe() -> None:
        await unpolled.check_writable()

    steps = [append, append, append, create, probe]
    following = asyncio.create_task(follow())
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(write() for _ in range(writers)))
        await positions.wait_for(await unpolled.ends(TOPICS))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
