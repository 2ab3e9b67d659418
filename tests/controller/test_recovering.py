"""Creations with first offsets that died, where they would be refused by now (KIP-995)."""

import pytest

from controlplane.core import views
from controlplane.core.commands import CreateConnector, OffsetChange
from controlplane.core.plan import Reason
from controlplane.core.plugins import parse_catalogue
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from tests.controller.scene import (
    CONFIG,
    OFFSETS,
    Crash,
    crash_after,
    plane_on,
    raw,
    written,
)

SOURCE = {"connector.class": "lab.Source"}
CREATE = CreateConnector("orders", SOURCE, None, (OffsetChange({"page": 1}, {"row": 1}),))
LEFT_OVER = raw(OFFSETS, '["orders",{"page":9}]', '{"row":9}')
"""Of an earlier connector of that name."""

THEIRS = raw(CONFIG, "connector-orders", '{"properties":{"connector.class":"lab.Other"}}')

KNOWN = parse_catalogue(b'[{"class":"lab.Source","type":"source"}]')
GONE = parse_catalogue(b'[{"class":"lab.Other","type":"source"}]')


async def died(step: str) -> MemoryLog:
    """A log in which the creation died behind a step."""
    log = MemoryLog()
    await log.create_topic(OFFSETS, 1)
    await log.append([LEFT_OVER])
    async with plane_on(log, plugins=KNOWN, stepped=crash_after(step)) as plane:
        with pytest.raises(Crash):
            await plane.execute(CREATE, key="k")
    return log


def rows(plane: ControlPlane) -> list[object]:
    """The offsets that are there."""
    return [one.offset for one in views.source_offsets(plane.state, "orders")]


@pytest.mark.parametrize("step", ["wipe", "write"])
async def test_taken_back(step: str) -> None:
    """Its class is gone: neither a connector nor an offset is left, and the key tells why."""
    log = await died(step)
    async with plane_on(log, plugins=GONE) as plane:
        assert views.connectors(plane.state) == []
        assert rows(plane) == []
        with pytest.raises(Refusal) as caught:
            await plane.execute(CREATE, key="k")
        assert caught.value.rejected.reason is Reason.INVALID
    before = await written(log, OFFSETS)
    async with plane_on(log, plugins=KNOWN):
        assert await written(log, OFFSETS) == before


@pytest.mark.parametrize("step", ["wipe", "write"])
async def test_by_an_older_release(step: str) -> None:
    """It has no such creations, and completes what was accepted all the same."""
    log = await died(step)
    async with plane_on(log, Settings(profile="3.9"), plugins=KNOWN) as plane:
        assert views.connectors(plane.state) == ["orders"]
        assert rows(plane) == [{"row": 1}]
        with pytest.raises(Refusal) as caught:
            await plane.execute(CREATE)
        assert caught.value.rejected.reason is Reason.NOT_OFFERED


async def test_given_up() -> None:
    """Where somebody else has made one of that name, its tasks may have the offsets: they stay."""
    log = await died("write")
    await log.append([THEIRS])
    async with plane_on(log, plugins=GONE) as plane:
        assert views.connectors(plane.state) == ["orders"]
        assert rows(plane) == [{"row": 1}]
        assert plane.state.commands["k"].ended
