"""The last changes of offsets, collected during a load, equal those of a search of the log."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import views
from controlplane.core.entry import Batch, Entry
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.views.source_progress import SourceProgress, last_changes, source_progress
from controlplane.logs.log import ReadableLog
from controlplane.logs.memory import MemoryLog
from controlplane.logs.snapshots import SnapshotStore, snapshot_store_of
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.loader import load
from controlplane.projection.offset_changes import OffsetObserver, read_source_progress
from controlplane.projection.past_states import ends_now, read_offset_records
from controlplane.projection.snapshot_writer import keep_snapshots
from tests.core.logs import Pair, config, offsets, records, status
from tests.laws.entries import NAMES, logs, profiles
from tests.outages import Cable
from tests.projection.loaded_state import state_of
from tests.projection.test_snapshots import EAGER, KIP, QUICK, make_topics

CONFIG, OFFSETS = "connect-configs", "connect-offsets"


class OffsetReadCounter(Cable):
    """A log that counts the reads of the offsets topic."""

    reads = 0

    @property
    def snapshots(self) -> SnapshotStore | None:
        """Snapshots of the log behind."""
        return snapshot_store_of(self.log)

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        names = list(topics)
        self.reads += OFFSETS in names
        async for batch in self.log.read(names, start, stop):
            yield batch


class LoadRecorder:
    """Observer that keeps the topics of a load, and the number of records of each."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.records: Counter[str] = Counter()

    def begin(self, topics: Iterable[str], resumed: Iterable[str]) -> None:
        """Keep the topics; none has a snapshot."""
        assert not [*resumed]
        self.begun += topics

    def look_at(self, batch: Batch) -> None:
        """Count the records of each topic."""
        self.records[batch.topic] += len(batch)


async def progress(
    log: ReadableLog,
    connector: str,
    profile: Profile = KIP,
    *,
    exactly_once: bool = False,
    stop: Ends | None = None,
) -> list[SourceProgress]:
    """The progress by an observed load, which must equal that of a search of the log."""
    observer = OffsetObserver(connector, Topics(), exactly_once=exactly_once)
    fold = await load(log, profile, exactly_once=exactly_once, stop=stop, observer=observer)
    state = fold.snapshot()
    offsets_of = views.all_source_offsets(state, connector)
    observed = await read_source_progress(log, state, connector, offsets_of, observer)
    searched = await read_offset_records(log, state, connector)
    topics = views.offsets_topics(state, connector)
    assert observed == source_progress(offsets_of, topics, last_changes(searched))
    return observed


async def filled(*groups: list[Entry]) -> MemoryLog:
    """A log with these entries."""
    log = MemoryLog()
    await make_topics(log)
    for entries in groups:
        await log.put(entries)
    return log


# --- the law ----------------------------------------------------------------------------------


@given(
    logs(among=(CONFIG, OFFSETS, "own")),
    st.sampled_from(NAMES),
    profiles,
    st.booleans(),
    st.data(),
)
def test_an_observed_load_answers_as_a_search(
    log: list[Entry], name: str, profile: Profile, exactly_once: bool, data: st.DataObject
) -> None:
    """Any log gives the same changes at any moment, whatever records compaction has removed."""
    asyncio.run(_law(log, name, profile, exactly_once, data))


async def _law(
    entries: list[Entry], name: str, profile: Profile, exactly_once: bool, data: st.DataObject
) -> None:
    # Half of the logs have no key in two partitions, as a worker writes them.
    if data.draw(st.booleans()):
        entries = [entry for entry in entries if entry.partition == 0]
    log = await filled(entries)
    await progress(log, name, profile, exactly_once=exactly_once)
    stop = {
        topic: [data.draw(st.integers(0, end)) for end in ends]
        for topic, ends in (await ends_now(log, Topics())).items()
    }
    await progress(log, name, profile, exactly_once=exactly_once, stop=stop)


# --- how often the topic is read ----------------------------------------------------------------

KEY = '["c",{"p":1}]'
OWN_TOPIC = '{"properties":{"offsets.storage.topic":"own"}}'


async def observed_reads(log: ReadableLog, connector: str = "c") -> tuple[list[int], int]:
    """Offsets of the records that changed something, and the number of reads of the load."""
    counted = OffsetReadCounter(log)
    entries = [change.changed for change in await progress(counted, connector)]
    reads = counted.reads - 1  # the search that the answer is compared with
    return [entry.offset for entry in entries if entry is not None], reads


@pytest.mark.parametrize(
    ("pairs", "changed"),
    [
        ([(KEY, "{}"), (KEY, '{"o":1}'), (KEY, '{"o":1}')], [1]),
        ([(KEY, '{"o":1}'), (KEY, None), (KEY, '{"o":1}')], [2]),
        ([(KEY, '{"o":1}'), (KEY, None)], []),
        ([(KEY, '{"o":1}'), ('["d",{"p":1}]', '{"o":2}'), ('["c2",{}]', "{}")], [0]),
        ([(KEY, '{"o":1}'), ('["c",{"p":2}]', '{"o":1}'), (None, "{}"), (KEY, "{}")], [1, 3]),
    ],
)
async def test_the_topic_is_read_once(pairs: list[Pair], changed: list[int]) -> None:
    """No search follows the load. A repeated value is no change; a value after a tombstone is."""
    log = await filled(offsets(*pairs))
    observed, reads = await observed_reads(log)
    assert (sorted(observed), reads) == (changed, 1)


@pytest.mark.parametrize(("topic", "committed"), [(OFFSETS, 1), ("own", 0)])
async def test_aborted_changes_count_if_the_worker_sees_them(topic: str, committed: int) -> None:
    """The shown offset comes from the shown record, with and without exactly-once support."""
    setting = OWN_TOPIC if topic == "own" else '{"properties":{}}'
    written = records(topic, (KEY, '{"o":1}'), (KEY, '{"o":2}'))
    written[1] = msgspec.structs.replace(written[1], aborted=True)
    log = await filled(config(("connector-c", setting)), written)
    for exactly_once, last in ((False, committed), (True, 0)):
        (shown,) = await progress(log, "c", exactly_once=exactly_once)
        assert (shown.offset.offset, shown.changed) == ({"o": last + 1}, written[last])


async def test_a_topic_of_its_own_is_observed() -> None:
    """The change in the connector's own topic is found in the same read."""
    own = [Entry("own", 1, 7, 9, KEY.encode(), b'{"o":2}')]
    log = await filled(config(("connector-c", OWN_TOPIC)), own, offsets((KEY, '{"o":1}')))
    assert await observed_reads(log) == ([7], 1)


@pytest.mark.parametrize(
    "key", [b'[ "c",{"p":1}]', b'["\\u0063",{"p":1}]', b'["\xc1\xa3",{"p":1}]']
)
async def test_another_spelling_is_searched(key: bytes) -> None:
    """An observer compares the first bytes of keys, so it misses another spelling of the name.

    The spellings have white space, an escape or overlong UTF-8. A search of the log finds them.
    """
    assert await observed_reads(await filled(offsets((key, '{"o":1}')))) == ([0], 2)


@pytest.mark.parametrize(("value", "changed", "reads"), [('{"o":1}', [3], 3), (None, [], 2)])
async def test_a_key_in_two_partitions_is_searched(
    value: str | None, changed: list[int], reads: int
) -> None:
    """The order between partitions decides, and an observer does not know it.

    The load reads the topic twice for such a key. A removed offset needs no search.
    """
    both = offsets((KEY, '{"o":2}')), offsets((KEY, value), partition=1, start=3)
    assert await observed_reads(await filled(*both)) == (changed, reads)


async def test_an_observer_sees_every_topic() -> None:
    """Each topic that a load reads begins once, and all its records follow."""
    log = await filled(config(("connector-c", OWN_TOPIC)), offsets((KEY, "{}")), status(("a", "")))
    observer = LoadRecorder()
    await load(log, KIP, observer=observer)
    assert sorted(observer.begun) == sorted(await ends_now(log, Topics()))
    assert observer.records == {CONFIG: 1, OFFSETS: 1, "connect-status": 1}


async def test_a_load_from_snapshots_is_searched(tmp_path: Path) -> None:
    """Records before a snapshot are not observed, so the log is searched for the change."""
    log = await SqliteLog.open(tmp_path / "log.db", settings=QUICK)
    await make_topics(log)
    await log.put(offsets((KEY, '{"o":1}'), (KEY, '{"o":1}')))
    assert await observed_reads(log) == ([0], 1)
    await keep_snapshots(log, await state_of(log), EAGER)
    await log.put(offsets((KEY, '{"o":1}'), start=2))
    assert await observed_reads(log) == ([0], 2)
    await log.close()
