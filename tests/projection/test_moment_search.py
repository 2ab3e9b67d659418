"""A search for a moment gives the same result with and without snapshots."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.log import ReadableLog
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.moment_search import moment_position
from controlplane.projection.past_states import PastStates, cut_at, ends_now
from controlplane.projection.snapshot_writer import SnapshotSettings, keep_snapshots
from tests.conftest import examples
from tests.laws.entries import TOPICS, logs, profiles
from tests.projection.loaded_state import state_of
from tests.projection.test_snapshots import (
    CONFIG,
    DAMAGES,
    EAGER,
    KIP,
    OFFSETS,
    QUICK,
    STATUS,
    EntryCountingLog,
    content_of,
    keep,
    lived,
    make_topics,
    sql,
)

# --- the law ----------------------------------------------------------------------------------

times = st.sampled_from(["0", "1", "5", "12", "50", "2020-01-01", "1969-12-31T23:59:59"])
positions = st.builds(
    "{}@{}:{}".format, st.sampled_from(TOPICS), st.integers(0, 3), st.integers(0, 30)
)
spellings = st.sampled_from(["config@3", "status@1:2", "offsets@2", "nothing@1", "yesterday", ""])


@pytest.mark.slow
@settings(max_examples=examples(10, proved=2_000))
@given(
    logs(max_size=60),
    profiles,
    st.integers(0, 30),
    st.lists(st.integers(0, 60), max_size=3),
    st.lists(times | positions | spellings, min_size=1, max_size=8),
)
def test_snapshots_do_not_change_a_moment(
    log: list[Entry], profile: Profile, lateness_ms: int, at: list[int], moments: list[str]
) -> None:
    """Snapshots of any time and release, late records and any end leave the moment unchanged."""
    keeping = SnapshotSettings(tail_records=1, lateness_ms=lateness_ms)
    asyncio.run(_law(log, profile, keeping, sorted(at), moments))


async def _law(
    entries: list[Entry],
    profile: Profile,
    keeping: SnapshotSettings,
    at: list[int],
    moments: list[str],
) -> None:
    plain = MemoryLog()
    await make_topics(plain)
    with TemporaryDirectory() as folder:
        log = await SqliteLog.open(Path(folder, "log.db"), settings=QUICK)
        await make_topics(log)
        all_ends = []
        for begin, end in zip([0, *at], [*at, len(entries)], strict=True):
            await log.put(entries[begin:end])
            await plain.put(entries[begin:end])
            await keep_snapshots(log, await state_of(log, profile), keeping)
            all_ends.append(await ends_now(plain, Topics()))
        for now in all_ends:
            for moment in moments:
                assert await ends_or_refusal(log, moment, now) == await ends_or_refusal(
                    plain, moment, now
                )
        await log.close()


async def ends_or_refusal(log: ReadableLog, moment: str, now: Ends) -> Ends | str:
    """Ends at a moment, or the reason why there are none."""
    try:
        cut = await cut_at(log, moment, Topics(), now)
    except UnknownMoment as refused:
        return str(refused)
    return cut.ends


# --- reading only what lies between ----------------------------------------------------------


@pytest.fixture(scope="module")
def closed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File of a log of 310 records per topic, with snapshots after 100, 200 and 300 of them."""
    path = tmp_path_factory.mktemp("closed") / "log.db"

    async def fill() -> None:
        log = await SqliteLog.open(path, settings=QUICK)
        await make_topics(log)
        for first in (0, 100, 200):
            await log.put(lived(first, 100))
            assert await keep(log) == [CONFIG, OFFSETS, STATUS]
        await log.put(lived(300, 10))
        await log.close()

    asyncio.run(fill())
    return path


@pytest.fixture
async def log(closed_log: Path, tmp_path: Path) -> AsyncIterator[SqliteLog]:
    """Copy of this log, open."""
    shutil.copytree(closed_log.parent, tmp_path, dirs_exist_ok=True)
    log = await SqliteLog.open(tmp_path / "log.db", settings=QUICK)
    yield log
    await log.close()


WHOLE = {CONFIG: 310, OFFSETS: 310, STATUS: 310}
BETWEEN = {CONFIG: 100, OFFSETS: 100, STATUS: 100}


async def reads(log: SqliteLog, moment: str) -> dict[str, int]:
    """Entries read per topic to find a moment; the result must be that without snapshots."""
    plain = MemoryLog()
    await make_topics(plain)
    await plain.put(
        [entry async for batch in log.read(await log.topics()) for entry in batch.entries()]
    )
    now = await ends_now(log, Topics())
    assert await ends_or_refusal(log, moment, now) == await ends_or_refusal(plain, moment, now)
    counted = EntryCountingLog(log)
    with suppress(UnknownMoment):
        await moment_position(counted, moment, Topics(), now)
    return counted.read_of


@pytest.mark.parametrize(
    ("moment", "read"),
    [
        ("150000", BETWEEN),
        ("305000", {CONFIG: 10, OFFSETS: 10, STATUS: 10}),
        ("2020-01-01", {CONFIG: 10, OFFSETS: 10, STATUS: 10}),
        ("50000", WHOLE),
        ("offsets@0:50", {**BETWEEN, OFFSETS: 100 + 17}),
        ("status@1:102", {CONFIG: 10, OFFSETS: 10, STATUS: 10 + 3}),
        ("offsets@0:5000", WHOLE),
        ("nowhere@1", WHOLE),
    ],
)
async def test_only_entries_between_two_snapshots_are_read(
    log: SqliteLog, moment: str, read: dict[str, int]
) -> None:
    """Only entries between two snapshots or after the last one are read.

    The whole log is read for a moment before the first snapshot, and for a missing record.
    """
    assert await reads(log, moment) == read


async def test_a_past_state_reads_only_entries_between_snapshots(log: SqliteLog) -> None:
    """The searches for the moment and for connectors' topics, and the fold, begin at snapshots."""
    counted, now = EntryCountingLog(log), await ends_now(log, Topics())
    state = (await PastStates(counted).state("305000", KIP, now)).state
    assert content_of(state) == content_of(await state_of(log, stop=state.ends_by_topic))
    assert state.config.connectors["c4"] == {"n": "305"}
    assert counted.read_of == {CONFIG: 10 + 6 + 6, OFFSETS: 10 + 5, STATUS: 10 + 5}


async def test_snapshots_of_any_release_help(tmp_path: Path) -> None:
    """Snapshots of any release help: positions do not depend on the release."""
    log = await SqliteLog.open(tmp_path / "log.db", settings=QUICK)
    await make_topics(log)
    await log.put(lived(0, 100))
    await keep_snapshots(log, await state_of(log, Profile.of("2.8")), EAGER)
    assert await reads(log, "2020-01-01") == {}
    await log.close()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_snapshot_changes_no_moment(log: SqliteLog, damage: str) -> None:
    """A damaged snapshot changes no end of a moment."""
    sql(log, damage)
    for moment in ("150000", "offsets@0:50", "305000"):
        await reads(log, moment)


async def test_snapshots_go_with_removed_records(log: SqliteLog) -> None:
    """Removal of a topic's first record removes its snapshots."""
    assert await log.compact(STATUS)
    left = sum([len(batch) async for batch in log.read([STATUS])])
    assert (await reads(log, "150000"))[STATUS] == left
