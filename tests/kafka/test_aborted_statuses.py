"""Statuses of aborted transactions: real workers obey them, also with exactly-once support."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from tests.core.logs import read
from tests.kafka.conftest import RELEASES, up
from tests.kafka.live_cluster import TOPICS
from tests.kafka.producer import read_entries, reading, writer
from tests.kafka.real_kafka import KafkaWorker
from tests.kafka.test_verify_against import request_until_done, until

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.prove]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
STATUS = b'{"state":"FAILED","trace":null,"worker_id":"w:1","generation":1}'


def has_tasks(expected: list[int], status: Any) -> bool:
    """True if a status shows the tasks with these numbers."""
    return [task["id"] for task in status["tasks"]] == expected


@pytest.mark.parametrize("release", RELEASES)
async def test_a_worker_reads_aborted_statuses(release: str, tmp_path: Path) -> None:
    """With exactly-once support, a worker shows an aborted status, but no aborted config."""
    config = {"connector.class": SOURCE, "file": str(tmp_path / "lines"), "topic": "lines"}
    async with up(release, tmp_path) as broker:
        make = partial(KafkaWorker, release, broker, exactly__once__source__support="enabled")
        async with make() as worker:
            await request_until_done(worker, "PUT", "/connectors/a/config", config)
            await until(worker, "/connectors/a/status", partial(has_tasks, [0]))
        async with writer(broker, transactional_id="foreign") as out:
            await out.producer.begin_transaction()
            await out.put("connect-configs", 0, b"connector-b", b'{"properties":{"name":"b"}}')
            await out.put("connect-status", 0, b"status-task-a-7", STATUS)
            await out.end(commit=False)
        async with make() as worker:
            await until(worker, "/connectors/a/status", partial(has_tasks, [0, 7]))
            assert (await worker.rest.get("/connectors")).json() == ["a"]
        async with reading(broker.bootstrap) as reader:
            entries = await read_entries(reader, TOPICS)
    state = read(in_order(entries), Profile.of(release).release, exactly_once=True)
    assert sorted(state.status.tasks["a"]) == [0, 7]
    assert sorted(state.config.connectors) == ["a"]
