"""Connectors' own offsets topics: the writer reads them before any config names them."""

from controlplane.core import views
from controlplane.core.commands import (
    CreateConnector,
    OffsetChange,
    PutConfig,
    ResetOffsets,
    StopConnector,
)
from controlplane.core.plugins import parse_catalogue
from controlplane.logs.memory import MemoryLog
from tests.controller.scene import plane_on, raw

PLUGINS = parse_catalogue(b'[{"class":"lab.Source","type":"source"}]')
CONFIG = {"connector.class": "lab.Source", "offsets.storage.topic": "own"}
LEFT = raw("own", '["orders",{"page":1}]', '{"row":7}')


async def log_with_offsets() -> MemoryLog:
    """A log with an offset of an earlier connector, in a topic that no config names."""
    log = MemoryLog()
    await log.create_topic("own", 1)
    await log.append([LEFT])
    return log


async def test_a_creation_wipes_offsets_in_its_own_topic() -> None:
    """Existing offsets are wiped before the new ones are set; the new ones are then read back."""
    initial_offsets = (OffsetChange({"page": 2}, {"row": 1}),)
    async with plane_on(await log_with_offsets(), plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", CONFIG, initial_offsets=initial_offsets))
        offsets = views.source_offsets(plane.state, "orders")
        assert [(offset.partition, offset.offset) for offset in offsets] == [
            ({"page": 2}, {"row": 1})
        ]


async def test_a_creation_makes_its_own_topic() -> None:
    """The topic is created, and then followed."""
    initial_offsets = (OffsetChange({"page": 2}, {"row": 1}),)
    async with plane_on(MemoryLog(), plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", CONFIG, initial_offsets=initial_offsets))
        assert [offset.offset for offset in views.source_offsets(plane.state, "orders")] == [
            {"row": 1}
        ]


async def test_a_reset_right_after_the_config_finds_the_offsets() -> None:
    """A reset right after a new config finds the offsets in the topic that the config names."""
    async with plane_on(await log_with_offsets(), plugins=PLUGINS) as plane:
        await plane.execute(PutConfig("orders", CONFIG))
        await plane.execute(StopConnector("orders"))
        await plane.execute(ResetOffsets("orders"))
        assert views.source_offsets(plane.state, "orders") == []
