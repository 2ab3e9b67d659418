"""Statuses and task configs of running connectors, in the form of the plane's release."""

import json

import pytest

from controlplane.core.commands import CreateConnector, RestartConnector, StopConnector
from controlplane.core.state import Topics
from controlplane.plane import Settings
from tests.patience import PATIENCE_S
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import config_of, entries_in, running, until_state

TOPICS = Topics()


class VersionedSource(CountingSource):
    """Source with the version 2.1."""

    version = "2.1"


@pytest.mark.parametrize(("release", "version"), [("4.3.0", "2.1"), ("3.9.1", None)])
async def test_statuses_have_the_version_of_running_instances(
    release: str, version: str | None
) -> None:
    """Statuses have the connector's version from 4.1 on (KIP-891).

    UNASSIGNED, the status of a stopped task, has none, as in the recorded `life-4.3`.
    """
    async with running(VersionedSource, settings=Settings(profile=release)) as worker:
        await worker.plane.execute(CreateConnector("v", config_of(VersionedSource, topic="t")))
        await until_state(worker, "v", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("v"))
        await until_state(worker, "v", "STOPPED")
        entries = await entries_in(worker.plane.log, TOPICS.status)
    values = [json.loads(entry.value) for entry in entries if entry.value is not None]
    reports = {(value["state"], value.get("version")) for value in values if "state" in value}
    assert reports == {("RUNNING", version), ("STOPPED", version), ("UNASSIGNED", None)}


@pytest.mark.parametrize("release", ["2.8.2", "3.4.1", "3.9.1"])
async def test_equal_task_configs_are_not_published_again(release: str) -> None:
    """A restarted connector with the same tasks writes no task config, whatever the release."""
    async with running(CountingSource, settings=Settings(profile=release)) as worker:
        await worker.plane.execute(CreateConnector("n", config_of(CountingSource, topic="t")))
        await until_state(worker, "n", "RUNNING", "RUNNING")
        await worker.plane.execute(RestartConnector("n"))
        await worker.started("n", PATIENCE_S)
        entries = await entries_in(worker.plane.log, TOPICS.config)
    assert [entry.key for entry in entries].count(b"commit-n") == 1
