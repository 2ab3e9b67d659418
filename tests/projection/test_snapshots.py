"""Loading from a snapshot gives the same state as reading everything, only sooner."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Batch, Entry
from controlplane.core.fold import snapshot_codec
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import Record
from controlplane.logs.log_factory import memory_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.snapshots import SnapshotStore, snapshot_store_of
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.projection.follower import Follower
from controlplane.projection.past_states import PastStates, ends_now
from controlplane.projection.snapshot_writer import SnapshotSettings, keep_snapshots
from controlplane.terminal.progress_bar import LogWithProgress
from tests.conftest import PROVE, examples
from tests.laws.entries import TOPICS, logs, profiles
from tests.projection.loaded_state import state_of

KIP = Profile.of("kip")
QUICK = SqliteSettings(synchronous="NORMAL")
EAGER = SnapshotSettings(tail_records=1, lateness_ms=0)
"""Settings that write a snapshot after every record, without delay."""

CONFIG, STATUS, OFFSETS = "connect-configs", "connect-status", "connect-offsets"


class EntryCountingLog:
    """A log that counts the entries that are read, by topic."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log
        self.read_of: dict[str, int] = {}

    @property
    def snapshots(self) -> SnapshotStore | None:
        return snapshot_store_of(self._log)

    async def topics(self) -> Mapping[str, int]:
        return await self._log.topics()

    async def starts(self, topics: Iterable[str]) -> Ends:
        return await self._log.starts(topics)

    async def ends(self, topics: Iterable[str]) -> Ends:
        return await self._log.ends(topics)

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        async for batch in self._log.read(topics, start, stop):
            self.read_of[batch.topic] = self.read_of.get(batch.topic, 0) + len(batch)
            yield batch

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        return self._log.tail(topics, start)

    async def close(self) -> None:
        await self._log.close()


def content_of(state: ClusterState) -> Any:
    """Content and ends of a state, without empty places."""
    offsets = {name: part for name, part in state.offsets.items() if part.values or part.hidden}
    ends = {place: end for place, end in state.ends.items() if end}
    return state.config, state.status, offsets, state.commands, ends


async def make_topics(log: SqliteLog | MemoryLog) -> None:
    """Create the topics of random logs."""
    for topic in TOPICS:
        await log.create_topic(topic, 1 if topic == CONFIG else 3)


# --- the law ----------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(15, proved=2_000))
@given(
    logs(max_size=60),
    st.tuples(profiles, st.booleans()),
    st.integers(0, 30),
    st.lists(st.integers(0, 60), max_size=3),
    st.data(),
)
def test_snapshots_do_not_change_the_state(
    log: list[Entry],
    reader: tuple[Profile, bool],
    lateness_ms: int,
    at: list[int],
    data: st.DataObject,
) -> None:
    """Snapshots of any time, late records and any end give the state of the whole log."""
    keeping = SnapshotSettings(tail_records=1, lateness_ms=lateness_ms)
    asyncio.run(_law(log, reader, keeping, sorted(at), data))


async def _law(
    entries: list[Entry],
    reader: tuple[Profile, bool],
    keeping: SnapshotSettings,
    at: list[int],
    data: st.DataObject,
) -> None:
    profile, how = reader[0], {"exactly_once": reader[1]}
    plain = MemoryLog()
    await make_topics(plain)
    with TemporaryDirectory() as folder:
        log = await SqliteLog.open(Path(folder, "log.db"), settings=QUICK)
        await make_topics(log)
        for begin, end in zip([0, *at], [*at, len(entries)], strict=True):
            await log.put(entries[begin:end])
            await plain.put(entries[begin:end])
            assert content_of(await state_of(log, profile, **how)) == content_of(
                await state_of(plain, profile, **how)
            )
            await keep_snapshots(log, await state_of(log, profile, **how), keeping)
        stop = {
            topic: [data.draw(st.integers(0, end)) for end in ends]
            for topic, ends in (await ends_now(plain, Topics())).items()
        }
        assert content_of(await state_of(log, profile, stop=stop, **how)) == content_of(
            await state_of(plain, profile, stop=stop, **how)
        )
        await log.close()


# --- reading only the tail --------------------------------------------------------------------


def lived(first: int, count: int) -> list[Entry]:
    """A cluster's records, one set per second: a connector's config, its offset and its status."""
    entries = []
    for n in range(first, first + count):
        name, time_ms = b"c%d" % (n % 7), 1_000 * n
        entries += [
            Entry(CONFIG, 0, n, time_ms, b"connector-" + name, b'{"properties":{"n":"%d"}}' % n),
            Entry(
                OFFSETS, n % 3, n // 3, time_ms + 1, b'["%b",{"p":%d}]' % (name, n % 3), b'{"o":1}'
            ),
            Entry(
                STATUS,
                n % 3,
                n // 3,
                time_ms + 2,
                b"status-connector-" + name,
                b'{"state":"RUNNING","worker_id":"w","generation":%d}' % n,
            ),
        ]
    return entries


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    """A log with a hundred records of each topic."""
    log = await SqliteLog.open(tmp_path / "log.db", settings=QUICK)
    await make_topics(log)
    await log.put(lived(0, 100))
    yield log
    await log.close()


async def reads(log: SqliteLog, **how: Any) -> dict[str, int]:
    """Entries read per topic to load the state, which must equal that of the whole log."""
    counted = EntryCountingLog(log)
    entries = [entry async for batch in log.read(await log.topics()) for entry in batch.entries()]
    plain = MemoryLog()
    await make_topics(plain)
    await plain.put(entries)
    assert (
        content_of(await state_of(counted, **how))[:4]
        == content_of(await state_of(plain, **how))[:4]
    )
    return counted.read_of


async def keep(log: SqliteLog, keeping: SnapshotSettings = EAGER) -> list[str]:
    """Write the snapshots that are due."""
    return await keep_snapshots(log, await state_of(log), keeping)


async def test_starting_reads_only_the_tail(log: SqliteLog) -> None:
    """Loading reads only the entries after the snapshots."""
    assert await reads(log) == {CONFIG: 100, OFFSETS: 100, STATUS: 100}
    assert await keep(log) == [CONFIG, OFFSETS, STATUS]
    assert await reads(log) == {}
    await log.put(lived(100, 4))
    assert await reads(log) == {CONFIG: 4, OFFSETS: 4, STATUS: 4}
    assert await reads(log, trace=True) == {CONFIG: 104, OFFSETS: 104, STATUS: 104}
    await log.put(lived(104, 900))
    assert await keep(log) == [CONFIG, OFFSETS, STATUS]
    await log.put(lived(1_004, 4))
    assert await reads(log) == {CONFIG: 4, OFFSETS: 4, STATUS: 4}


async def test_followers_and_past_states_start_from_snapshots(
    log: SqliteLog,
) -> None:
    """A past state, given by a vector, is read from the nearest snapshot before it."""
    await keep(log)
    past = {topic: list(ends) for topic, ends in (await ends_now(log, Topics())).items()}
    await log.put(lived(100, 10))
    then = {topic: list(ends) for topic, ends in (await ends_now(log, Topics())).items()}
    await log.put(lived(110, 90))
    assert await keep(log) == [CONFIG, OFFSETS, STATUS]
    counted = EntryCountingLog(log)
    async with Follower(counted, live=False) as follower:
        assert content_of(await follower.state(KIP)) == content_of(await state_of(log))
    assert counted.read_of == {}
    counted = EntryCountingLog(log)
    past_states = PastStates(counted, topics=Topics())
    now = await ends_now(log, Topics())
    for ends, tail in ((past, 0), (then, 10)):
        counted.read_of.clear()
        vector = str(ends).replace("'", '"')
        state = (await past_states.state(vector, KIP, now)).state
        assert content_of(state) == content_of(await state_of(log, stop=ends))
        assert sum(counted.read_of.values()) == 3 * tail


async def test_read_only_openings_use_the_snapshots(log: SqliteLog, tmp_path: Path) -> None:
    """Read-only openings use the snapshots, also with a progress bar."""
    await keep(log)
    reader = await SqliteLog.open(tmp_path / "log.db", read_only=True)
    assert await reads(reader) == {}
    assert snapshot_store_of(LogWithProgress(reader, "log.db")) is reader.snapshots
    assert snapshot_store_of(LogWithProgress(await memory_log([]), "nothing")) is None
    await reader.close()


async def test_a_release_without_snapshots_reads_the_log(log: SqliteLog) -> None:
    """A release without snapshots of its own reads the whole log."""
    await keep(log)
    old = Profile.of("2.8")
    counted = EntryCountingLog(log)
    state = await state_of(counted, old)
    assert counted.read_of == {CONFIG: 100, OFFSETS: 100, STATUS: 100}
    await keep_snapshots(log, state, EAGER)
    counted.read_of.clear()
    assert content_of(await state_of(counted, old)) == content_of(state)
    assert counted.read_of == {}


# --- when they are made -----------------------------------------------------------------------


async def test_snapshots_need_enough_new_records(log: SqliteLog) -> None:
    """A snapshot needs `tail_records` new records, and as many as the state has rows.

    The last `kept` snapshots stay.
    """
    keeping = SnapshotSettings(tail_records=100, lateness_ms=0, kept=2)
    assert await keep(log, keeping) == [CONFIG, OFFSETS, STATUS]
    assert await keep(log, keeping) == []
    await log.put(lived(100, 99))
    assert await keep(log, keeping) == []
    await log.put(lived(199, 1))
    assert await keep(log, keeping) == [CONFIG, OFFSETS, STATUS]
    await log.put(lived(200, 100))
    assert await keep(log, keeping) == [CONFIG, OFFSETS, STATUS]
    assert await numbers_kept(log) == 3 * 2


async def test_a_large_state_gets_no_snapshot_for_few_records(log: SqliteLog) -> None:
    """A large state gets no new snapshot for a few records."""
    keys = [b'["c",{"p":%d}]' % n for n in range(500)]
    await log.put([Entry(OFFSETS, 0, 200 + n, 10**6, key, b"{}") for n, key in enumerate(keys)])
    keeping = SnapshotSettings(tail_records=100, lateness_ms=0)
    assert OFFSETS in await keep(log, keeping)
    rows = len((await state_of(log)).offsets[OFFSETS].values)
    await log.append([Record(OFFSETS, 0, 10**6, keys[0], b"{}")] * (rows - 1))
    assert await keep(log, keeping) == []
    await log.append([Record(OFFSETS, 0, 10**6, keys[0], b"{}")])
    assert await keep(log, keeping) == [OFFSETS]


async def numbers_kept(log: SqliteLog) -> int:
    """Number of snapshots in the file."""
    ((count,),) = sql(log, "SELECT count(*) FROM snapshot WHERE about IS NOT NULL")
    return int(count)


def sql(log: SqliteLog, statement: str, *parameters: Any) -> list[Any]:
    """Run SQL on the file, bypassing the log."""
    connection = sqlite3.connect(log.path, isolation_level=None)
    try:
        return connection.execute(statement, parameters).fetchall()
    finally:
        connection.close()


async def test_young_records_are_in_no_snapshot(log: SqliteLog) -> None:
    """Young records are in no snapshot: an older record of another partition may still arrive."""
    await keep(log, SnapshotSettings(tail_records=1, lateness_ms=10_000))
    # The last ten records are too young. Clocks differ by at most `lateness_ms`.
    assert await reads(log) == {CONFIG: 10, OFFSETS: 10, STATUS: 10}


async def test_a_log_without_a_snapshot_store_gets_no_snapshot() -> None:
    """A log in memory has no store for snapshots, so none is written."""
    log = MemoryLog()
    await make_topics(log)
    await log.put(lived(0, 100))
    assert await keep_snapshots(log, await state_of(log), EAGER) == []


# --- when they do not hold --------------------------------------------------------------------


async def test_a_late_record_invalidates_the_snapshot_of_its_topic(log: SqliteLog) -> None:
    """A late record invalidates the snapshot of its topic only."""
    await keep(log)
    late = Entry(STATUS, 1, 200, 0, b"status-connector-c1", None)
    other = Entry(STATUS, 2, 200, 5, b"status-task-c1-0", b'{"state":"RUNNING","generation":1}')
    await log.put([late, other])
    assert await reads(log) == {STATUS: 102 + 2}
    await keep(log)
    assert await reads(log) == {}


DAMAGES = [
    "UPDATE piece SET bytes = zeroblob(length(bytes))",
    "UPDATE piece SET bytes = substr(bytes, 1, length(bytes) - 1)",
    "UPDATE piece SET bytes = replace(bytes, 'c1', 'c2')",
    "UPDATE piece SET bytes = 'text'",
    "DELETE FROM piece WHERE place = 0",
    "DELETE FROM piece",
    "UPDATE piece SET place = -place",
    "UPDATE snapshot SET about = zeroblob(8)",
    "UPDATE snapshot SET about = ''",
    "UPDATE snapshot SET about = 1",
    "UPDATE snapshot SET about = x'95909090C0C0'",
    "UPDATE snapshot SET about = replace(about, x'91', x'92')",
    "UPDATE snapshot SET about = replace(about, x'9164', x'9163')",
    "UPDATE snapshot SET topic = 'connect-status'",
    "UPDATE snapshot SET kind = replace(kind, 'config', 'status')",
    "DROP TABLE piece",
]
"""Damage to snapshots that SQLite does not find itself."""


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_snapshot_is_skipped(log: SqliteLog, damage: str) -> None:
    """A damaged snapshot is skipped, and the log is read from its start."""
    await keep(log)
    sql(log, damage)
    read = await reads(log)
    assert read[CONFIG] == 100


async def test_the_next_older_snapshot_is_used(log: SqliteLog) -> None:
    """If the newest snapshot is damaged, the one before is used."""
    await keep(log)
    await log.put(lived(100, 50))
    assert await keep(log) == [CONFIG, OFFSETS, STATUS]
    await log.put(lived(150, 150))
    await keep(log)
    assert await reads(log) == {}
    sql(log, "UPDATE piece SET bytes = '' WHERE snapshot > 3")
    assert set((await reads(log)).values()) == {200}


async def test_snapshots_of_another_fold_version_are_ignored(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots of another fold version are ignored, and removed when room is needed."""
    await keep(log)
    monkeypatch.setattr(snapshot_codec, "FOLD_VERSION", snapshot_codec.FOLD_VERSION + 1)
    assert await reads(log) == {CONFIG: 100, OFFSETS: 100, STATUS: 100}
    assert await keep(log, SnapshotSettings(tail_records=1, lateness_ms=0, kept=1)) == [
        CONFIG,
        OFFSETS,
        STATUS,
    ]
    assert await reads(log) == {}
    assert await numbers_kept(log) == 3


async def test_removed_records_are_in_no_snapshot(log: SqliteLog) -> None:
    """Compaction and retention remove the snapshots of their topic, and of no other."""
    await keep(log)
    assert await log.compact(STATUS)
    assert await reads(log) == {STATUS: 21}
    assert await keep(log) == [STATUS]
    assert await log.trim(CONFIG, [96])
    assert await reads(log) == {CONFIG: 4}


class Trimming(EntryCountingLog):
    """Log whose records are trimmed right after they have been read."""

    def __init__(self, log: SqliteLog) -> None:
        super().__init__(log)
        self._sqlite = log

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        names = list(topics)
        async for batch in super().read(names, start, stop):
            yield batch
        if CONFIG in names:
            await self._sqlite.trim(CONFIG, [96])


async def test_a_snapshot_of_removed_records_is_discarded(log: SqliteLog) -> None:
    """A snapshot of records removed meanwhile is discarded."""
    state = await state_of(log)
    assert await keep_snapshots(Trimming(log), state, EAGER) == [OFFSETS, STATUS]
    assert await reads(log) == {CONFIG: 4}


async def test_a_cancelled_snapshot_does_not_exist(log: SqliteLog) -> None:
    """A cancelled snapshot does not exist; the next attempt starts anew."""
    state = await state_of(log)
    cancelled = 0
    for steps in range(0, 400, 1 if PROVE else 2):
        task = asyncio.create_task(keep_snapshots(log, state, EAGER))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        outcome: Sequence[Any] = await asyncio.gather(task, return_exceptions=True)
        cancelled += isinstance(outcome[0], asyncio.CancelledError)
        if not cancelled % 20:
            await reads(log)
    assert cancelled
    await keep(log)
    assert await reads(log) == {}
    assert await numbers_kept(log) <= 12
