"""Recovery of crashed creations with initial offsets that would be refused by now (KIP-995)."""

from typing import Any

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.commands import CreateConnector, OffsetChange
from controlplane.core.plan import Reason
from controlplane.core.plugins import parse_catalogue
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Refusal, Settings
from tests.controller.scene import (
    CONFIG,
    OFFSETS,
    Crash,
    crash_after,
    offset_values,
    plane_on,
    raw,
    written_texts,
)
from tests.laws.commands.world import Extent, Kafka, LawClock, Trouble

SOURCE = {"connector.class": "lab.Source"}
CREATE = CreateConnector("orders", SOURCE, None, (OffsetChange({"page": 1}, {"row": 1}),))
LEFT_OVER = raw(OFFSETS, '["orders",{"page":9}]', '{"row":9}')
"""Offset of an earlier connector of the same name."""

THEIRS = raw(CONFIG, "connector-orders", '{"properties":{"connector.class":"lab.Other"}}')

KNOWN = parse_catalogue(b'[{"class":"lab.Source","type":"source"}]')
GONE = parse_catalogue(b'[{"class":"lab.Other","type":"source"}]')


async def died(step: str) -> MemoryLog:
    """A log in which the creation crashed after a step."""
    log = MemoryLog()
    await log.create_topic(OFFSETS, 1)
    await log.append([LEFT_OVER])
    async with plane_on(log, plugins=KNOWN, stepped=crash_after(step)) as plane:
        with pytest.raises(Crash):
            await plane.execute(CREATE, key="k")
    return log


@pytest.mark.parametrize("step", ["wipe", "write"])
async def test_a_creation_without_its_class_is_rolled_back(step: str) -> None:
    """Without its class, recovery leaves no connector and no offset; a retry gets the reason."""
    log = await died(step)
    async with plane_on(log, plugins=GONE) as plane:
        assert views.connectors(plane.state) == []
        assert offset_values(plane) == []
        with pytest.raises(Refusal) as caught:
            await plane.execute(CREATE, key="k")
        assert caught.value.rejected.reason is Reason.INVALID
    before = await written_texts(log, OFFSETS)
    async with plane_on(log, plugins=KNOWN):
        assert await written_texts(log, OFFSETS) == before


@pytest.mark.parametrize("offsets", [CREATE.initial_offsets, (OffsetChange({"page": 1}, None),)])
async def test_recovery_wipes_the_second_topic(offsets: tuple[OffsetChange, ...]) -> None:
    """Recovery wipes the second topic, too, although the connector's class is missing."""
    log = MemoryLog()
    for topic in (OFFSETS, "own"):
        await log.create_topic(topic, 1)
        await log.append([raw(topic, '["orders",{"page":9}]', '{"row":9}')])
    config = {**SOURCE, "offsets.storage.topic": "own"}
    async with plane_on(log, plugins=KNOWN, stepped=crash_after("wipe-copy")) as plane:
        with pytest.raises(Crash):
            await plane.execute(CreateConnector("orders", config, None, offsets))
    assert (await written_texts(log, "own"))[-1][1] == '{"row":9}'
    async with plane_on(log, plugins=GONE) as plane:
        assert views.connectors(plane.state) == []
    for topic in (OFFSETS, "own"):
        left = dict(await written_texts(log, topic))
        assert left['["orders",{"page":9}]'] is None
        assert left.get('["orders",{"page":1}]') is None


async def test_offsets_of_a_failed_completion_are_removed() -> None:
    """The next process removes the offsets that the crashed one had set."""
    kinds = [{"class": "lab.Sink", "type": "sink"}]
    plugins = parse_catalogue(msgspec.json.encode(kinds))
    kafka = Kafka(LawClock())
    change = OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})
    config = {"connector.class": "lab.Sink", "topics": "t"}
    log = MemoryLog()
    around: dict[str, Any] = {"plugins": plugins, "outside": kafka}
    async with plane_on(log, stepped=crash_after("write"), **around) as plane:
        with pytest.raises(Crash):
            await plane.execute(CreateConnector("orders", config, None, (change,)))
    assert await kafka.group_offsets("connect-orders") == (("t", 0, 5),)
    kafka.trouble = Trouble(0, Extent.NOTHING)
    async with plane_on(log, **around) as plane:
        assert views.connectors(plane.state) == []
    assert await kafka.group_offsets("connect-orders") == ()


@pytest.mark.parametrize("step", ["wipe", "write"])
async def test_an_older_release_completes_an_accepted_creation(step: str) -> None:
    """An older release without such creations still completes an accepted one."""
    log = await died(step)
    async with plane_on(log, Settings(profile="3.9"), plugins=KNOWN) as plane:
        assert views.connectors(plane.state) == ["orders"]
        assert offset_values(plane) == [{"row": 1}]
        with pytest.raises(Refusal) as caught:
            await plane.execute(CREATE)
        assert caught.value.rejected.reason is Reason.NOT_OFFERED


async def test_a_foreign_offset_is_wiped_during_recovery() -> None:
    """A foreign offset is wiped under its own key; the connector starts at its initial offsets."""
    log = await died("write")
    spelled = '["orders", {"page":1}]'
    await log.append([raw(OFFSETS, spelled, '{"row":7}'), raw(OFFSETS, '["orders",{}]', "{}")])
    async with plane_on(log, plugins=KNOWN) as plane:
        assert views.connectors(plane.state) == ["orders"]
        assert offset_values(plane) == [{"row": 1}]
        assert len([value for value in plane.state.offsets[OFFSETS].values.values() if value]) == 1


async def test_offsets_of_another_connector_stay() -> None:
    """Offsets stay if another connector of that name exists: its tasks may have them."""
    log = await died("write")
    await log.append([THEIRS])
    async with plane_on(log, plugins=GONE) as plane:
        assert views.connectors(plane.state) == ["orders"]
        assert offset_values(plane) == [{"row": 1}]
        assert not plane.state.commands["k"].unfinished
