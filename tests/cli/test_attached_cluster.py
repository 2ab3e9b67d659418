"""Opening of the service of an attached cluster: which settings reach its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane.attached.cluster_check import IdentifiedCluster
from controlplane.attached.execution import AttachedSurroundings
from controlplane.attached.settings import ConnectSettings
from controlplane.cli.serve import attached_cluster
from controlplane.cli.serve.attached_cluster import attached
from controlplane.cli.serve.attached_options import AttachedOptions
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import Loggers
from controlplane.logs.log_factory import OpenedLog
from controlplane.logs.memory import MemoryLog
from controlplane.projection.retention import DAY_MS, RetentionSettings
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from controlplane.terminal.log_options import LogOptions
from tests.worker.worker_fixture import RecordedNotices


async def test_limits_of_an_embedded_log_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings `upkeep.…` apply to the trail, and `controller.commands.waiting` to commands."""
    services: list[AttachedSurroundings] = []

    async def identified(*_: object) -> IdentifiedCluster:
        return IdentifiedCluster((), Profile.of("3.9"))

    async def memory_log(*_: object) -> OpenedLog:
        return OpenedLog(MemoryLog(), "kafka")

    @asynccontextmanager
    async def service(*_: object, around: AttachedSurroundings, **__: Any) -> AsyncIterator[None]:
        services.append(around)
        yield

    monkeypatch.setattr(attached_cluster, "identify_cluster", identified)
    monkeypatch.setattr(attached_cluster, "open_log", memory_log)
    monkeypatch.setattr(attached_cluster, "attached_service", service)
    values = {
        "upkeep.interval.ms": "7",
        "upkeep.retention.commands.ms": str(DAY_MS),
        "controller.commands.waiting": "9",
    }
    flags = flag_values(("--override", key, value) for key, value in values.items())
    async with attached(
        "kafka://localhost:9092",
        LogOptions(Configuration(flags)),
        AttachedOptions(ConnectSettings(url=("http://w1",)), None),
        exactly_once=False,
        notices=RecordedNotices(),
        loggers=Loggers(lambda: 0),
    ):
        pass
    expected = UpkeepSettings(interval_ms=7, retention=RetentionSettings(commands_ms=DAY_MS))
    assert [around.upkeep for around in services] == [expected]
    assert [around.commands_waiting for around in services] == [9]
