"""Loads of further releases while the log goes on."""

import asyncio

import pytest

from controlplane.core import views
from controlplane.core.entry import ColumnBatch
from controlplane.core.fold import Fold
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.loader import load
from controlplane.projection.release_folds import ReleaseFolds
from tests.outages import GatedLog, until
from tests.patience import PATIENCE_S

NOW, LOADED = Profile.of("kip"), Profile.of("3.9")
QUICK = FollowerLimits(topics_poll_ms=5, retry_first_ms=5, retry_last_ms=10, gather_ms=0)


def created(name: str) -> Record:
    """Return the record of a connector config."""
    value = b'{"properties":{"name":"%s"}}' % name.encode()
    return Record("connect-configs", 0, 1_000, f"connector-{name}".encode(), value)


@pytest.mark.parametrize("number", [1, 3_000], ids=["a few records", "many records"])
async def test_a_load_does_not_delay_new_records(number: int) -> None:
    """New records reach the loaded releases during a load; the loading release catches up."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    await log.append([created("first")])
    gated = GatedLog(log)
    async with Follower(gated, limits=QUICK) as follower, asyncio.timeout(PATIENCE_S):
        await follower.state(NOW)
        gated.may_be_read.clear()
        loading = asyncio.ensure_future(follower.state(LOADED))
        await asyncio.sleep(0)
        await log.append([created(f"later-{place}") for place in range(number)])
        await follower.wait_for(await log.ends(["connect-configs"]))
        present = await follower.state(NOW)
        assert len(views.connectors(present)) == number + 1
        assert not loading.done()
        gated.may_be_read.set()
        loaded = await loading
        assert views.connectors(loaded) == views.connectors(present)
        assert loaded.ends_by_topic == present.ends_by_topic
        await log.append([created("last")])
        await follower.wait_for(await log.ends(["connect-configs"]))
        assert "last" in views.connectors(await follower.state(LOADED))
    await log.close()


async def test_a_load_of_a_replaced_log_starts_over() -> None:
    """A log that is replaced during a load is read anew: the state is that of the new log."""
    log, other = MemoryLog(), MemoryLog()
    for place in (log, other):
        await place.create_topic("connect-configs", 1)
    await log.append([created("first"), created("second")])
    await other.append([created("third")])
    gated = GatedLog(log)
    async with Follower(gated, limits=QUICK) as follower, asyncio.timeout(PATIENCE_S):
        await follower.state(NOW)
        gated.may_be_read.clear()
        loading = asyncio.ensure_future(follower.state(LOADED))
        await until(lambda: gated.begun > 1)
        gated.cut.set()
        await log.append([created("unread")])  # the tail notices the outage
        await until(lambda: follower.failure is not None)
        gated.log = other
        gated.cut.clear()
        await until(lambda: follower.ends["connect-configs"] == (1,))
        gated.may_be_read.set()
        assert views.connectors(await loading) == ["third"]
    await log.close()
    await other.close()


@pytest.mark.parametrize(
    ("records", "value_bytes", "releases", "pauses"),
    [
        (100, 500, 1, False),
        (100, 500, 2, True),
        (100, 1_000, 1, True),
        (1, 20_000, 1, True),
        (300, 1, 1, True),
    ],
)
async def test_other_tasks_run_while_much_is_folded(
    records: int, value_bytes: int, releases: int, *, pauses: bool
) -> None:
    """Records that may take long are folded in slices: many, a long one, or long ones together.

    Each release that is loaded folds them.
    """
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)

    async def loaded(profile: Profile, stop: Ends) -> Fold:
        return await load(log, profile, topics=Topics(), exactly_once=False, stop=stop)

    folds = ReleaseFolds(loaded, 2, lambda: None)
    folds.positions.replace({"connect-configs": [0]})
    for profile in (NOW, LOADED)[:releases]:
        await folds.load(profile)
    turns = 0

    async def other_task() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_task())
    await asyncio.sleep(0)
    value = b'{"properties":{"n":"%s"}}' % (b"x" * value_bytes)
    before, keys = turns, [b"connector-%d" % number for number in range(records)]
    batch = ColumnBatch(
        "connect-configs", 0, range(records), [1_000] * records, keys, [value] * records
    )
    await folds.fold([batch])
    assert (turns > before) is pauses
    assert len((await folds.load(NOW)).state().config.connectors) == records
    other.cancel()
    await log.close()
