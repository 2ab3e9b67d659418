"""KIP-875, its test plan with running tasks whose records lie on another Kafka cluster."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from controlplane.core.state import Topics
from controlplane.worker.worker import ConnectWorker
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import RELEASES, unused_name, up
from tests.kafka.consumers import groups_of
from tests.kafka.producer import create_topic, produce, reading
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import values_in
from tests.kips.running_connectors import (
    NUMBERS,
    SINK,
    SOURCE,
    RunningConnectors,
    offsets_at,
)
from tests.rest.served_history import client_of
from tests.worker.numbered_records import CollectingSink, CountingSource, put

pytestmark = [pytest.mark.java, pytest.mark.broker]

CREATION = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}


class Clusters(NamedTuple):
    """The cluster with the worker's topics, and the one with the records of connectors."""

    home: Broker
    elsewhere: Broker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clusters]:
    """Two clusters; the second one has the topic `u`, with the numbers for the sink."""
    home_release, release = RELEASES
    async with (
        up(home_release, tmp_path_factory.mktemp("home")) as home,
        up(release, tmp_path_factory.mktemp("elsewhere")) as elsewhere,
    ):
        await create_topic(elsewhere, "u", 1, cleanup__policy="delete")
        await produce(elsewhere, "u", *NUMBERS)
        yield Clusters(home, elsewhere)


class ConnectorsElsewhere(RunningConnectors):
    """Connectors whose records lie on another cluster than the worker's topics."""

    def __init__(self, worker: ConnectWorker, client: object, elsewhere: Broker) -> None:
        super().__init__(worker, client)  # type: ignore[arg-type]
        self._elsewhere = elsewhere

    async def delivered(self, name: str) -> list[str]:
        """Return the numbers that a connector has delivered, in order."""
        if name == SINK:
            return await super().delivered(name)
        return await values_in(self._elsewhere, "t")


@pytest.mark.asyncio(loop_scope="module")
class TestOffsetsElsewhere:
    """Test Plan – Offsets tests: connectors that target a different cluster."""

    @pytest.mark.parametrize("name", [SOURCE, SINK])
    async def test_offsets_can_be_viewed_and_reset(self, clusters: Clusters, name: str) -> None:
        """GET shows the progress of the running task; after a reset it reads from the beginning."""
        home, elsewhere = clusters
        put.clear()
        topics = Topics(*(f"{unused_name()}-{part}" for part in ("c", "o", "s", "m")))
        overrides = {
            f"{client}.override.bootstrap.servers": elsewhere.bootstrap
            for client in ("producer", "consumer", "admin")
        }
        if name == SOURCE:
            overrides |= CREATION
        async with (
            worker_on(home, topics, CountingSource, CollectingSink) as worker,
            client_of(worker.plane.app) as client,
        ):
            connectors = ConnectorsElsewhere(worker, client, elsewhere)
            await connectors.create(name, **overrides)
            await connectors.change(name, "stop", "STOPPED")
            assert await connectors.offsets(name) == offsets_at(name, 3)
            assert await connectors.code("DELETE", f"/{name}/offsets") == 204
            assert await connectors.offsets(name) == {"offsets": {name: []}}
            await connectors.change(name, "resume", "RUNNING", "RUNNING")
            await connectors.until_delivered(name, NUMBERS + NUMBERS)
            await connectors.until_offsets(name, offsets_at(name, 3))
        await _check_nothing_at_home(home)


async def _check_nothing_at_home(home: Broker) -> None:
    """Check that the worker's cluster has neither the records nor the group."""
    async with reading(home.bootstrap) as reader:
        assert not {"t", "u"} & {*await reader.topics()}
    async with groups_of(home.bootstrap) as groups:
        assert not await groups.committed(f"connect-{SINK}")
