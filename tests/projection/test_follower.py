"""Follower of a log: the state of any release, now and at any moment, while the log grows."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.fold import fold
from controlplane.core.moments import MOMENT_LENGTH, UnknownMoment
from controlplane.core.order import Ends, before, entries_of, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogNotUsable, LogUnavailable, ReadableLog, Record
from controlplane.logs.log_factory import open_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.past_states import PastStates
from tests.outages import Cable, FarAway, FollowerNotices, until
from tests.patience import PATIENCE_S

HISTORIES = Path(__file__).parent.parent / "histories"
KIP, OLD, NEW = (Profile.of(name) for name in ("kip", "3.4", "3.9"))
QUICK = FollowerLimits(
    topics_poll_ms=5, interruption_poll_ms=5, retry_first_ms=5, retry_last_ms=10, gather_ms=5
)
PARTITIONS = {"connect-configs": 1, "connect-offsets": 5, "connect-status": 5}


def record(topic: str, key: str, value: str | None, partition: int = 0) -> Record:
    """A record that contains this text."""
    return Record(topic, partition, 1_000, key.encode(), None if value is None else value.encode())


def connector(name: str, /, **config: str) -> Record:
    """Return the record of a connector config."""
    properties = ",".join(f'"{key.replace("_", ".")}":"{text}"' for key, text in config.items())
    return record("connect-configs", f"connector-{name}", f'{{"properties":{{{properties}}}}}')


async def entries_in(log: ReadableLog) -> list[Entry]:
    """Entries of a log in the order of the fold."""
    return in_order(entries_of([batch async for batch in log.read(await log.topics())]))


def facts(state: ClusterState) -> tuple[Any, ...]:
    """Content of a state, without empty places and bookkeeping."""
    parts = {name: getattr(state.status, name) for name in ("tasks", "active_topics")}
    filled = {
        part: {key: value for key, value in all_.items() if value} for part, all_ in parts.items()
    }
    status = msgspec.structs.replace(state.status, **filled)
    offsets = {topic: part for topic, part in state.offsets.items() if part.values}
    return state.config, status, offsets, state.commands


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """An empty log with Connect's three topics."""
    log = MemoryLog()
    for topic, partitions in PARTITIONS.items():
        await log.create_topic(topic, partitions)
    yield log
    await log.close()


@pytest.fixture
async def life() -> AsyncIterator[ReadableLog]:
    """The life of a real cluster."""
    log = (await open_log(str(HISTORIES / "life-3.9.log.jsonl"))).log
    yield log
    await log.close()


@pytest.mark.parametrize(
    "profile", [KIP, OLD, NEW, Profile.of("2.8")], ids=lambda profile: profile.release
)
async def test_the_first_state_is_the_fold_of_the_log(life: ReadableLog, profile: Profile) -> None:
    """The first state is the fold of the whole log, for any release."""
    async with Follower(life) as follower:
        state = await follower.state(profile)
    assert facts(state) == facts(fold(await entries_in(life), profile))


async def test_later_records_reach_every_release(log: MemoryLog) -> None:
    """Later records reach every requested release."""
    async with Follower(log, limits=QUICK) as follower:
        assert views.connectors(await follower.state(KIP)) == []
        before_it = await follower.state(OLD)
        await log.append([connector("orders", name="orders")])
        await follower.wait_for(await log.ends(["connect-configs"]))
        for profile in (KIP, OLD, NEW):
            assert views.connectors(await follower.state(profile)) == ["orders"]
    assert views.connectors(before_it) == [], "a published state has changed"


async def test_a_burst_is_folded_in_order(log: MemoryLog, life: ReadableLog) -> None:
    """Entries that arrive together are folded in order, not by partition."""
    entries = await entries_in(life)
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(NEW)
        await log.put(entries)
        await follower.wait_for(await log.ends(PARTITIONS))
        followed = await follower.state(NEW)
    assert facts(followed) == facts(fold(entries, NEW))


async def test_an_unchanged_state_is_the_same_object(life: ReadableLog) -> None:
    """An unchanged state is the same object."""
    async with Follower(life) as follower:
        assert await follower.state(KIP) is await follower.state(KIP)


async def test_an_evicted_release_is_loaded_again(log: MemoryLog) -> None:
    """An evicted release is loaded again, including later records."""
    limits = FollowerLimits(profiles_kept=1, gather_ms=5)
    async with Follower(log, limits=limits) as follower:
        await follower.state(OLD)
        await follower.state(NEW)
        await log.append([connector("orders", name="orders")])
        await follower.wait_for(await log.ends(["connect-configs"]))
        assert views.connectors(await follower.state(OLD)) == ["orders"]
        assert follower.present(NEW) is None


async def test_a_pinned_fold_is_never_evicted(log: MemoryLog) -> None:
    """A pinned fold is never evicted; an unpinned one is."""
    async with Follower(log, limits=FollowerLimits(profiles_kept=1, gather_ms=5)) as follower:
        await follower.state(OLD)
        with follower.pinned(OLD):
            await follower.state(NEW)
            await log.append([connector("orders", name="orders")])
            await follower.wait_for(await log.ends(["connect-configs"]))
            state = follower.present(OLD)
            assert state is not None
            assert views.connectors(state) == ["orders"]
        assert follower.present(OLD) is None
        with pytest.raises(KeyError), follower.pinned(OLD):
            pass


async def test_topics_of_connectors_are_followed(log: MemoryLog) -> None:
    """The follower finds and follows an offsets topic that a new config names."""
    key, value = '["orders",{"file":"a"}]', '{"position":1}'
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(KIP)
        await log.append([connector("orders", name="orders", offsets_storage_topic="own")])
        await log.create_topic("own", 2)
        await log.append([record("own", key, value, partition=1)])
        await follower.wait_for(await log.ends(["own"]))
        shown = views.source_offsets(await follower.state(KIP), "orders")
        assert [(row.partition, row.offset) for row in shown] == [({"file": "a"}, {"position": 1})]
        await log.append([record("own", key, '{"position":2}', partition=1)])
        await follower.wait_for(await log.ends(["own"]))
        assert views.source_offsets(await follower.state(NEW), "orders")[0].offset == {
            "position": 2
        }


class FixedTailLog(MemoryLog):
    """A log whose tails, like Kafka's, read only the partitions that existed at their start."""

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Tail the present partitions."""
        names, partitions = list(topics), await self.topics()
        async for batch in super().tail(names, start):
            if batch.partition < partitions[batch.topic]:
                yield batch


async def test_added_partitions_are_followed() -> None:
    """The follower reads partitions that a followed topic gets later."""
    log = FixedTailLog()
    for topic in PARTITIONS:
        await log.create_topic(topic, 1)
    async with Follower(log, limits=QUICK) as follower, asyncio.timeout(PATIENCE_S):
        await follower.state(KIP)
        await asyncio.sleep(0.01)
        await log.add_partitions("connect-offsets", 3)
        key, value = '["orders",{"file":"a"}]', '{"position":1}'
        added = await log.append([record("connect-offsets", key, value, partition=2)])
        await follower.wait_for_records(added)
        assert key.encode() in (await follower.state(KIP)).offsets["connect-offsets"].values


async def test_appends_of_another_process_are_followed(tmp_path: Path) -> None:
    """A follower of an embedded log sees what another process appends."""
    path = tmp_path / "connect.db"
    log = await SqliteLog.open(path)
    for topic, partitions in PARTITIONS.items():
        await log.create_topic(topic, partitions)
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(KIP)
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITER, str(path), cwd=HISTORIES.parent.parent
        )
        assert await writer.wait() == 0
        await follower.wait_for(await log.ends(["connect-configs"]))
        assert views.connectors(await follower.state(KIP)) == ["elsewhere"]
    await log.close()


_WRITER = """
import asyncio, sys
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog

async def write():
    log = await SqliteLog.open(sys.argv[1])
    value = b'{"properties":{"name":"elsewhere"}}'
    await log.append([Record("connect-configs", 0, 1, b"connector-elsewhere", value)])
    await log.close()

asyncio.run(write())
"""


async def test_leaving_the_block_ends_every_task(life: ReadableLog) -> None:
    """Leaving the block ends every task and every tail, and keeps the log open."""
    tasks = asyncio.all_tasks()
    async with Follower(life) as follower:
        await follower.state(KIP)
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    assert await life.topics()


async def test_a_state_after_the_block_is_refused(life: ReadableLog) -> None:
    """A caller after the end of the block gets an error, and is not cancelled."""
    async with Follower(life) as follower:
        await follower.state(KIP)
    with pytest.raises(LogUnavailable, match="no longer followed"):
        await follower.state(KIP)


async def test_a_follower_that_is_not_live_reads_once(log: MemoryLog) -> None:
    """A follower with `live=False` reads the log once."""
    tasks = asyncio.all_tasks()
    async with Follower(log, live=False) as follower:
        await log.append([connector("late", name="late")])
        assert views.connectors(await follower.state(KIP)) == []
        assert asyncio.all_tasks() == tasks


async def test_a_log_without_a_config_topic_is_refused() -> None:
    """A log without a config topic is refused at once."""
    with pytest.raises(LogNotUsable, match="there is no topic connect-configs"):
        async with Follower(MemoryLog()):
            pass


async def test_a_follower_survives_an_outage(log: MemoryLog) -> None:
    """During an outage the follower returns its last state; afterwards it continues from there."""
    cable, notices = Cable(log), FollowerNotices()
    await log.append([connector("first", name="first")])
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        cable.cut.set()
        await notices.failed.wait()
        assert views.connectors(await follower.state(KIP)) == ["first"]
        assert str(follower.failure) == "the cable is cut: mend it"
        with pytest.raises(LogUnavailable):
            await follower.state(OLD)
        await log.append([connector("second", name="second")])
        cable.cut.clear()
        await notices.back.wait()
        await follower.wait_for(await log.ends(["connect-configs"]))
        assert views.connectors(await follower.state(KIP)) == ["first", "second"]
        assert follower.failure is None
    assert notices.events == ["log_not_followed: the cable is cut: mend it", "log_followed_again"]


async def test_an_outage_that_the_tail_waits_out_is_reported(log: MemoryLog) -> None:
    """The follower asks the log about a silent tail, and reports one outage once."""
    far, notices = FarAway(log), FollowerNotices()
    async with Follower(far, limits=QUICK, notices=notices) as follower:
        assert follower.failure is None
        far.interruption = LogUnavailable("the leader is gone")
        await notices.failed.wait()
        assert str(follower.failure) == "the leader is gone"
        far.interruption = LogUnavailable("nobody listens")
        await until(lambda: str(follower.failure) == "nobody listens")
        notices.failed.clear()
        far.interruption = LogNotUsable("the leader refuses us")
        await notices.failed.wait()
        far.interruption = None
        await notices.back.wait()
        assert follower.failure is None
        await log.append([connector("late", name="late")])
        await follower.wait_for(await log.ends(["connect-configs"]))
    assert notices.events == [
        "log_not_followed: the leader is gone",
        "log_not_followed: the leader refuses us",
        "log_followed_again",
    ]


async def test_a_defect_that_ends_the_follower_is_reported(log: MemoryLog) -> None:
    """A defect is a failure that stays; waiters and callers get an error."""
    notices = FollowerNotices()

    def observe(_: Sequence[Entry]) -> None:
        raise ZeroDivisionError("cannot fold")

    async with Follower(log, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        with follower.observed(observe, lambda: None):
            await log.append([connector("first", name="first")])
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(LogNotUsable, match="ZeroDivisionError: cannot fold"):
                    await follower.wait_for(await log.ends(["connect-configs"]))
        with pytest.raises(ZeroDivisionError):
            await follower.state(KIP)
        assert follower.failure is not None
    assert notices.events == [f"log_not_followed: {follower.failure}"]


# --- the past -------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["config@57", "status@1:20", "offsets@3:2"])
@pytest.mark.parametrize("profile", [KIP, OLD, NEW], ids=lambda profile: profile.release)
async def test_state_at_a_record(life: ReadableLog, moment: str, profile: Profile) -> None:
    """The state at a record is the fold of this record and all before it in the one order."""
    entries = await entries_in(life)
    name, _, place = moment.partition("@")
    partition, _, offset = place.rpartition(":")
    topic = {"config": "connect-configs", "status": "connect-status"}.get(name, "connect-offsets")
    ranks = [entry.position for entry in entries]
    upto = ranks.index(Position(topic, int(partition or 0), int(offset)))
    async with Follower(life) as follower:
        then = await follower.state_at(moment, profile)
    assert facts(then.state) == facts(fold(entries[: upto + 1], profile))


async def test_a_state_at_a_vector_excludes_omitted_topics(life: ReadableLog) -> None:
    """A state at a vector excludes omitted topics; ends beyond the log are allowed."""
    ends = {"connect-configs": [57], "connect-status": [10, 1_000]}
    entries = list(before(await entries_in(life), ends))
    async with Follower(life) as follower:
        text = '{"connect-configs":[57, 0],"connect-status":[10,1000]}'
        then = await follower.state_at(text, NEW)
    assert facts(then.state) == facts(fold(entries, NEW))
    assert then.notices[0] == "the vector does not name connect-offsets: that topic is not read"


async def test_a_past_state_reads_the_topic_of_a_deleted_connector(log: MemoryLog) -> None:
    """A past state reads a connector's own offsets topic, although the connector is gone today."""
    await log.create_topic("own", 1)
    await log.append([connector("orders", name="orders", offsets_storage_topic="own")])
    await log.append([record("own", '["orders",{"file":"a"}]', '{"position":1}')])
    await log.append([record("connect-configs", "connector-orders", None)])
    async with Follower(log) as follower:
        # Written within one millisecond: the offset counts as before the removal.
        then = await follower.state_at('{"connect-configs":[1],"own":[1]}', KIP)
        at_record = await follower.state_at("config@0", KIP)
    assert [offset.offset for offset in views.source_offsets(then.state, "orders")] == [
        {"position": 1}
    ]
    assert "own" in {topic for topic, _ in at_record.state.ends}


async def test_a_late_record_changes_a_past_state(log: MemoryLog) -> None:
    """A late record with an earlier timestamp belongs to the past moment."""
    async with Follower(log, limits=QUICK) as follower:
        assert views.connectors((await follower.state_at("2020-01-01", KIP)).state) == []
        await log.append([connector("orders", name="orders")])
        await follower.wait_for(await log.ends(["connect-configs"]))
        assert views.connectors((await follower.state_at("2020-01-01", KIP)).state) == ["orders"]


async def test_a_past_state_is_cached(life: ReadableLog) -> None:
    """A past state is cached: the second request gets the same object."""
    async with Follower(life) as follower:
        first = await follower.state_at("config@57", KIP)
        assert (await follower.state_at("config@57", KIP)).state is first.state


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "config@100000",
        "{",
        '{"nix":[1]}',
        '{"connect-configs":[-1]}',
        "x" * (MOMENT_LENGTH + 1),
    ],
)
async def test_an_unknown_moment_raises(life: ReadableLog, moment: str) -> None:
    """The follower raises `UnknownMoment` for a moment that does not exist."""
    async with Follower(life) as follower:
        with pytest.raises(UnknownMoment):
            await follower.state_at(moment, KIP)


async def test_concurrent_requests_read_the_past_once(life: ReadableLog) -> None:
    """Concurrent requests for one past moment read the log once."""
    past = PastStates(life)
    ends = await life.ends(PARTITIONS)
    results = await asyncio.gather(*(past.state("config@57", KIP, ends) for _ in range(20)))
    assert len({id(then.state) for then in results}) == 1


async def test_a_requested_topic_is_followed(log: MemoryLog) -> None:
    """A topic is followed as soon as it is requested, although no config names it."""
    key = b'["orders",{"page":1}]'
    await log.create_topic("own", 1)
    await log.append([Record("own", 0, 1_000, key, b'{"row":1}')])
    async with Follower(log, limits=FollowerLimits(topics_poll_ms=60_000, gather_ms=0)) as follower:
        assert "own" not in (await follower.state(KIP)).offsets
        await follower.follow(["own", "connect-offsets", "nowhere"])
        assert (await follower.state(KIP)).offsets["own"].values == {key: b'{"row":1}'}
        await follower.wait_for_records(
            await log.append([Record("own", 0, 1_000, key, b'{"row":2}')])
        )
        assert (await follower.state(KIP)).offsets["own"].values == {key: b'{"row":2}'}


async def test_a_requested_empty_topic_is_followed(log: MemoryLog) -> None:
    """An empty topic is followed without waiting, and its first record is not missed."""
    await log.create_topic("own", 1)
    async with Follower(log, limits=FollowerLimits(topics_poll_ms=60_000, gather_ms=0)) as follower:
        await follower.follow(["own"])
        await follower.wait_for_records(await log.append([Record("own", 0, 1_000, b"k", b"{}")]))
        assert (await follower.state(KIP)).offsets["own"].values == {b"k": b"{}"}


class LoadCountingLog(MemoryLog):
    """A log that counts how often its configs are read from the beginning."""

    looked_through = 0

    def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Read, and count reads that begin at the start of the config topic."""
        names = list(topics)
        begins = not any((start or {}).get("connect-configs", ()))
        self.looked_through += "connect-configs" in names and begins
        return super().read(names, start, stop)


async def test_looking_for_topics_does_not_read_the_log_again() -> None:
    """A busy log is not read again in search of topics that the fold knows."""
    log = LoadCountingLog()
    for topic, partitions in PARTITIONS.items():
        await log.create_topic(topic, partitions)
    await log.append([connector("first")])
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(KIP)
        before_it = log.looked_through
        for number in range(20):
            await follower.wait_for_records(await log.append([connector(f"c{number}")]))
            await asyncio.sleep(QUICK.topics_poll_ms / 1_000)
        assert log.looked_through == before_it


async def test_a_waiting_command_ends_the_gather_window(log: MemoryLog) -> None:
    """A waiting command ends the window that collects records, even after the window has begun."""
    hour = msgspec.structs.replace(QUICK, gather_ms=3_600_000)
    async with Follower(log, limits=hour) as follower:
        await follower.state(NEW)
        for number in range(2):
            written = await log.append([connector(f"c-{number}")])
            waiting = asyncio.ensure_future(follower.wait_for_records(written))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            with follower.hastened():
                async with asyncio.timeout(PATIENCE_S):
                    await waiting


async def test_observers_get_the_records_of_each_fold(log: MemoryLog) -> None:
    """An observer gets the records of each fold before waiters continue, until it is removed."""
    observed: list[Entry] = []
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(NEW)
        with follower.observed(observed.extend, observed.clear):
            written = await log.append([connector("a"), connector("b")])
            await follower.wait_for_records(written)
            assert [entry.position for entry in observed] == [*written]
        later = await log.append([connector("c")])
        await follower.wait_for_records(later)
        assert len(observed) == len(written)
