"""Offsets in another partition than Kafka's partitioner chooses for their keys."""

from pathlib import Path

from controlplane.core.commands import CreateConnector, ResetOffsets, StopConnector
from controlplane.core.plugins import parse_catalogue
from controlplane.core.releases.profiles import Profile
from controlplane.core.topics.partitioner import partition_of
from controlplane.core.views.hazards import Danger, hazards
from controlplane.logs.sqlite import SqliteLog
from tests.controller.scene import NOW_MS, OFFSETS, entries, offset_values, plane_on, raw

PLUGINS = parse_catalogue(b'[{"class":"lab.Source","type":"source"}]')
KEY = '["orders",{"page":1}]'
USUAL = partition_of(KEY.encode(), 25)
ELSEWHERE = (USUAL + 1) % 25


async def test_a_reset_lasts_and_a_hazard_reports_it(tmp_path: Path) -> None:
    """A reset's tombstone goes where Kafka would write it; compaction restores no offset.

    A worker that reads the partitions in another order finds the offset: a hazard reports it.
    """
    log = await SqliteLog.open(tmp_path / "state.db")
    async with plane_on(log, plugins=PLUGINS) as plane:
        await plane.execute(CreateConnector("orders", {"connector.class": "lab.Source"}))
        await plane.execute(StopConnector("orders"))
        await log.append([raw(OFFSETS, KEY, '{"row":7}', ELSEWHERE)])
    async with plane_on(log, plugins=PLUGINS, now_ms=lambda: NOW_MS + 1) as plane:
        assert offset_values(plane) == [{"row": 7}]
        await plane.execute(ResetOffsets("orders"), key="reset")
        assert offset_values(plane) == []
    offset_entries = await entries(log, [OFFSETS])
    assert [(entry.partition, entry.value is None) for entry in offset_entries] == [
        (ELSEWHERE, False),
        (USUAL, True),
    ]
    assert await log.compact(OFFSETS) == 0
    async with plane_on(log, plugins=PLUGINS) as plane:
        assert offset_values(plane) == []
    (hazard,) = hazards(offset_entries, Profile.of("kip"))
    assert hazard.danger is Danger.PARTITION_ORDER
    assert hazard.connector == "orders"
    await log.close()
