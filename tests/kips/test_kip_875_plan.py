"""KIP-875, its test plan without tasks; `test_kip_875_running_plan` has it with running tasks."""

from collections.abc import AsyncIterator

import pytest

from controlplane.core import views
from controlplane.core.context import DecisionSettings
from controlplane.core.plan import DeleteGroup
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP
from controlplane.logs.memory import MemoryLog
from tests.controller.scene import OFFSETS
from tests.kips.service import (
    OWN,
    SINK_CONFIG,
    SOURCE_CONFIG,
    AskedService,
    Beyond,
    came_to,
    configured,
    log_of,
    published,
    reported,
    running,
    serving,
)

ORDERS, SALES, NOBODY = (f"/connectors/{name}" for name in ("orders", "sales", "nobody"))
EITHER = pytest.mark.parametrize("base", [ORDERS, SALES])


@pytest.fixture(params=[KIP, "3.6", "4.3"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[AskedService]:
    """The small cluster: our profile, the first release with all of the KIP, the newest release."""
    async with serving(await running(), request.param) as service:
        yield service


async def offsets_of(service: AskedService, base: str = ORDERS) -> list[tuple[str, str]]:
    """Partitions and offsets of a source, as text."""
    shown = (await service.shows(f"{base}/offsets"))["offsets"]
    listed = shown["source"] if isinstance(shown, dict) else shown
    return [(str(entry["partition"]), str(entry["offset"])) for entry in listed]


class TestOffsets:
    """Test Plan – Offsets tests."""

    async def test_an_unknown_connector_shows_no_offsets(self, connect: AskedService) -> None:
        """The offsets of an unknown connector are answered with 404."""
        assert await connect.status_and_message("GET", f"{NOBODY}/offsets") == (
            404,
            "Connector nobody not found",
        )

    async def test_a_source_that_runs_shows_its_offsets(self, connect: AskedService) -> None:
        """A running source shows the offsets that its tasks have committed, also later ones."""
        before = [("{'table': 'a'}", "{'pos': 41}"), ("{'table': 'b'}", "{'pos': 7}")]
        assert sorted(await offsets_of(connect)) == before
        await connect.write_foreign(came_to("orders", {"table": "b"}, {"pos": 8}))
        assert sorted(await offsets_of(connect))[1] == ("{'table': 'b'}", "{'pos': 8}")

    async def test_an_unknown_connector_cannot_be_reset(self, connect: AskedService) -> None:
        """Resetting the offsets of an unknown connector is answered with 404."""
        expected = (404, "Connector nobody not found")
        assert await connect.status_and_message("DELETE", f"{NOBODY}/offsets") == expected

    @EITHER
    async def test_a_paused_connector_cannot_be_reset(
        self, connect: AskedService, base: str
    ) -> None:
        """Tasks of a paused connector still exist and could resume at their old offsets."""
        await connect.ask("PUT", f"{base}/pause")
        assert (await connect.status_and_message("DELETE", f"{base}/offsets"))[0] == 400

    @EITHER
    async def test_a_running_connector_cannot_be_reset(
        self, connect: AskedService, base: str
    ) -> None:
        """Running tasks would overwrite the reset with their next commit."""
        assert (await connect.status_and_message("DELETE", f"{base}/offsets"))[0] == 400

    async def test_a_stopped_source_can_be_reset(self, connect: AskedService) -> None:
        """A reset leaves no offsets of a stopped source."""
        await connect.ask("PUT", f"{ORDERS}/stop")
        assert (await connect.status_and_message("DELETE", f"{ORDERS}/offsets"))[
            0
        ] == connect.reset_status
        assert await offsets_of(connect) == []

    async def test_a_stopped_sink_can_be_reset(self, connect: AskedService) -> None:
        """A reset leaves no offset of the consumer group."""
        await connect.ask("PUT", f"{SALES}/stop")
        at = {"kafka_topic": "t", "kafka_partition": 0}
        change = {"offsets": [{"partition": at, "offset": {"kafka_offset": 9}}]}
        await connect.ask("PATCH", f"{SALES}/offsets", change)
        assert await connect.beyond.group_offsets("connect-sales") == (("t", 0, 9),)
        assert (await connect.status_and_message("DELETE", f"{SALES}/offsets"))[
            0
        ] == connect.reset_status
        assert await connect.beyond.group_offsets("connect-sales") == ()

    @EITHER
    async def test_a_second_reset_succeeds_as_well(self, connect: AskedService, base: str) -> None:
        """A second reset gets the same answer."""
        await connect.ask("PUT", f"{base}/stop")
        first = await connect.status_and_message("DELETE", f"{base}/offsets")
        assert first[0] == connect.reset_status
        assert await connect.status_and_message("DELETE", f"{base}/offsets") == first

    @pytest.mark.parametrize("release", [KIP, "3.6", "4.3"])
    async def test_a_reset_deletes_the_group_that_the_sink_names(self, release: str) -> None:
        """`consumer.override.group.id` of the sink names the group."""
        config = {**SINK_CONFIG, "consumer.override.group.id": "mine"}
        async with serving(await log_of(configured("sales", config)), release) as service:
            await service.ask("PUT", f"{SALES}/stop")
            assert (await service.status_and_message("DELETE", f"{SALES}/offsets"))[
                0
            ] == service.reset_status
            assert isinstance(service.beyond, Beyond)
            assert service.beyond.performed == [DeleteGroup("sales", "mine")]

    @pytest.mark.parametrize("release", [KIP, "3.6", "4.3"])
    async def test_a_source_uses_a_topic_of_its_own(self, release: str) -> None:
        """GET and reset use the source's own offsets topic."""
        async with serving(await own_topic(), release) as service:
            assert await offsets_of(service) == [("{'table': 'a'}", "{'pos': 5}")]
            await service.ask("PUT", f"{ORDERS}/stop")
            assert (await service.status_and_message("DELETE", f"{ORDERS}/offsets"))[
                0
            ] == service.reset_status
            assert await offsets_of(service) == []
            assert not any(service.state.offsets["own"].values.values())

    @pytest.mark.parametrize("release", [KIP, "3.6", "4.3"])
    async def test_offsets_stay_here_if_the_records_go_to_another_cluster(
        self, release: str
    ) -> None:
        """The producer has other brokers, but GET and reset use the worker's offsets topic."""
        config = {**SOURCE_CONFIG, "producer.override.bootstrap.servers": "far:9092"}
        log = await running(configured("orders", config))
        near = DecisionSettings(bootstrap_servers="near:9092")
        async with serving(log, release, worker=near) as service:
            assert len(await offsets_of(service)) == 2
            await service.ask("PUT", f"{ORDERS}/stop")
            assert (await service.status_and_message("DELETE", f"{ORDERS}/offsets"))[
                0
            ] == service.reset_status
            assert await offsets_of(service) == []


async def own_topic() -> MemoryLog:
    """`orders` with its own offsets topic, and an old copy in the worker's topic."""
    return await log_of(
        configured("orders", OWN),
        *published("orders", {"table": "a"}),
        came_to("orders", {"table": "a"}, {"pos": 4}, OFFSETS),
        came_to("orders", {"table": "a"}, {"pos": 5}, "own"),
    )


class TestStopped:
    """Test Plan – Stopped state tests."""

    async def test_a_running_connector_can_be_stopped(self, connect: AskedService) -> None:
        """`stop` changes the target state from STARTED to STOPPED."""
        assert await connect.status_and_message("PUT", f"{ORDERS}/stop") == (204, "")
        assert views.target(connect.state, "orders") is Target.STOPPED

    async def test_a_paused_connector_can_be_stopped(self, connect: AskedService) -> None:
        """`stop` changes the target state from PAUSED to STOPPED."""
        await connect.ask("PUT", f"{ORDERS}/pause")
        assert await connect.status_and_message("PUT", f"{ORDERS}/stop") == (204, "")
        assert views.target(connect.state, "orders") is Target.STOPPED

    async def test_tasks_of_a_stopped_connector_are_hidden(self, connect: AskedService) -> None:
        """Task configs disappear at once; task statuses disappear when the leader removes them."""
        await connect.ask("PUT", f"{ORDERS}/stop")
        assert await connect.shows(f"{ORDERS}/tasks") == []
        await connect.write_foreign(*(reported("orders", None, task) for task in (0, 1)))
        assert (await connect.shows(f"{ORDERS}/status"))["tasks"] == []
        expected = (404, "No status found for task orders-0")
        assert await connect.status_and_message("GET", f"{ORDERS}/tasks/0/status") == expected

    async def test_a_stopped_connector_can_be_resumed(self, connect: AskedService) -> None:
        """`resume` changes STOPPED to STARTED; the connector's worker then publishes tasks."""
        await connect.ask("PUT", f"{ORDERS}/stop")
        assert await connect.status_and_message("PUT", f"{ORDERS}/resume") == (202, "")
        assert views.target(connect.state, "orders") is Target.STARTED
        published_ = await connect.ask("POST", f"{ORDERS}/tasks", [{}, {}], signed=True)
        assert published_.status == 204
        assert len(await connect.shows(f"{ORDERS}/tasks")) == 2

    async def test_a_stopped_connector_can_be_paused(self, connect: AskedService) -> None:
        """`pause` changes the target state from STOPPED to PAUSED."""
        await connect.ask("PUT", f"{ORDERS}/stop")
        assert await connect.status_and_message("PUT", f"{ORDERS}/pause") == (202, "")
        assert views.target(connect.state, "orders") is Target.PAUSED

    async def test_a_failed_connector_can_be_stopped(self, connect: AskedService) -> None:
        """A failed connector is STOPPED as soon as its worker reports it."""
        await connect.write_foreign(reported("orders", "FAILED"))
        assert await connect.status_and_message("PUT", f"{ORDERS}/stop") == (204, "")
        await connect.write_foreign(reported("orders", "STOPPED"))
        assert (await connect.shows(f"{ORDERS}/status"))["connector"]["state"] == "STOPPED"

    @pytest.mark.parametrize("before", ["FAILED", "RUNNING"])
    async def test_a_failed_connector_can_be_resumed(
        self, connect: AskedService, before: str
    ) -> None:
        """A connector that failed before or during the stop can be resumed."""
        await connect.write_foreign(reported("orders", before))
        await connect.ask("PUT", f"{ORDERS}/stop")
        await connect.write_foreign(reported("orders", "FAILED"))
        assert await connect.status_and_message("PUT", f"{ORDERS}/resume") == (202, "")
        assert views.target(connect.state, "orders") is Target.STARTED
