"""Connectors' own offsets topics: the writer reads them before any config names them."""

import asyncio
from typing import cast

import pytest

from controlplane.controller import CommandLimits
from controlplane.controller.log_view import LogView
from controlplane.controller.plan_execution import LogWriter, RequestDrafts
from controlplane.core import views
from controlplane.core.commands import (
    CommandRequest,
    CreateConnector,
    OffsetChange,
    PutConfig,
    ResetOffsets,
    StopConnector,
)
from controlplane.core.plan import Draft
from controlplane.core.plugins import parse_catalogue
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from controlplane.projection.follower import Follower
from tests.controller.scene import NOW_MS, plane_on, raw
from tests.patience import PATIENCE_S

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


@pytest.mark.parametrize("is_dry_run", [True, False], ids=["dry run", "command"])
async def test_topics_that_cannot_be_read_are_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    """The command fails after the patience for an outage, and holds its queue no longer."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    # The first two commands must end within the patience, also on a busy machine.
    settings = Settings(limits=CommandLimits(write_patience_ms=1_000, retry_first_ms=1))
    reset = ResetOffsets("orders")
    async with plane_on(await log_with_offsets(), settings, plugins=PLUGINS) as plane:
        await plane.execute(PutConfig("orders", CONFIG))
        await plane.execute(StopConnector("orders"))
        monkeypatch.setattr(Follower, "follow", never)
        with pytest.raises(LogUnavailable, match="New topics were not read within"):
            await (plane.plan(reset) if is_dry_run else plane.execute(reset))


class DeafReader:
    """Reader that never gets the records of new topics."""

    async def follow(self, _topics: object) -> None:
        """Wait without end."""
        await asyncio.Event().wait()


async def reset_in(log: MemoryLog, topic: str) -> None:
    """Write a tombstone to a topic, which is also the worker's offsets topic."""
    writer = LogWriter(
        log,
        cast("LogView", DeafReader()),
        epoch=None,
        offsets_topic=topic,
        limits=CommandLimits(write_patience_ms=10, retry_first_ms=1),
        now_ms=lambda: NOW_MS,
    )
    request = CommandRequest(command=ResetOffsets("orders"), command_id="1", at_ms=1)
    await writer.append(RequestDrafts(request, [Draft(topic, b"k", None)]))


async def test_a_deleted_offsets_topic_refuses_records() -> None:
    """The command fails with a reason, so its end is recorded."""
    with pytest.raises(LogNotUsable, match="Topic 'gone' does not exist: restart the service"):
        await reset_in(MemoryLog(), "gone")


async def test_records_of_a_topic_that_cannot_be_read_are_not_written() -> None:
    """A writer waits no longer for the reader than for an outage of the log."""
    log = await log_with_offsets()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(LogUnavailable, match="New topics were not read"):
            await reset_in(log, "own")
    assert tuple((await log.ends(["own"]))["own"]) == (1,)
