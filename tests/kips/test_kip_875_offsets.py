"""KIP-875, first-class offsets: the endpoints, sentence by sentence.

`test_kip_875_sinks` has the sentences about sinks, on a real broker.
`test_kip_875_running_plan` has those about running tasks.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controlplane.controller import NotWritten
from controlplane.core import views
from controlplane.core.plan import DeleteGroup, FenceProducers
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP
from controlplane.logs.log import Record
from tests.controller.scene import CONFIG, OFFSETS, raw
from tests.kips.service import (
    ORDERS,
    OWN,
    SOURCE_CONFIG,
    AskedService,
    Beyond,
    RefusingLog,
    came_to,
    configured,
    log_of,
    published,
    reported,
    running,
    serving,
    target_state,
)
from tests.patience import NEVER_RETRIED
from tests.scenario.playback import printed

AT, STOP = "/connectors/orders/offsets", "/connectors/orders/stop"
ALL = [
    {"partition": {"table": "b"}, "offset": {"pos": 7}},
    {"partition": {"table": "a"}, "offset": {"pos": 41}},
]
"""Offsets of `orders`, in the order of a worker's Java hash table."""
TABLES = [f'["orders",{{"table":"{table}"}}]' for table in "ab"]
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/orders/stop' "
    "endpoint"
)


@pytest.fixture
async def ours() -> AsyncIterator[AskedService]:
    """The small cluster under the KIP's profile, with both connectors stopped."""
    async with serving(await running()) as service:
        for name in ("orders", "sales"):
            assert (await service.status_and_message("PUT", f"/connectors/{name}/stop"))[0] == 204
        yield service


TWO_TOPICS = (
    configured("orders", OWN),
    *published("orders"),
    target_state("orders", state="PAUSED", v2="STOPPED"),
    came_to("orders", {"table": "a"}, {"pos": 1}),
    came_to("orders", {"table": "b"}, {"pos": 2}),
    came_to("orders", {"table": "a"}, {"pos": 3}, "own"),
)
"""`orders`, stopped, with its own offsets topic; only the worker's topic has table b's offset."""


class TestEndpoints:
    """Endpoints."""

    async def test_get_shows_the_offsets_of_existing_connectors(
        self, connect: AskedService
    ) -> None:
        """GET shows offsets of an existing connector, and 404 otherwise."""
        assert (await connect.status_and_message("GET", AT))[0] == 200
        assert (await connect.status_and_message("GET", "/connectors/nobody/offsets"))[0] == 404

    async def test_delete_needs_a_stopped_connector(self, connect: AskedService) -> None:
        """DELETE needs an existing, stopped connector."""
        assert (await connect.status_and_message("DELETE", "/connectors/nobody/offsets"))[0] == 404
        assert (await connect.status_and_message("DELETE", AT))[0] == 400
        await connect.ask("PUT", STOP)
        assert (await connect.status_and_message("DELETE", AT))[0] < 300
        assert views.source_offsets(connect.state, "orders") == []

    async def test_stop_does_not_delete(self, connect: AskedService) -> None:
        """Stopping keeps the connector; an unknown connector is 404."""
        before = await connect.shows("/connectors/orders/config")
        assert (await connect.status_and_message("PUT", STOP))[0] == 204
        assert await connect.shows("/connectors/orders/config") == before
        expected = (404, "Unknown connector nobody")
        assert await connect.status_and_message("PUT", "/connectors/nobody/stop") == expected

    @pytest.mark.parametrize(
        ("method", "target", "first", "without", "since"),
        [
            ("GET", AT, "3.5", (404, "HTTP 404 Not Found"), 200),
            ("PUT", STOP, "3.5", (404, "HTTP 404 Not Found"), 204),
            ("DELETE", AT, "3.6", (405, "HTTP 405 Method Not Allowed"), 400),
        ],
    )
    async def test_endpoints_exist_from_their_release_on(
        self, method: str, target: str, first: str, without: tuple[int, str], since: int
    ) -> None:
        """3.5 shows offsets but cannot change them; 3.6 can."""
        before = "3.5" if first == "3.6" else "3.4"
        async with serving(await running(), before) as old:
            assert await old.status_and_message(method, target) == without
        async with serving(await running(), first) as new:
            assert (await new.status_and_message(method, target))[0] == since


class TestResponseFormat:
    """Response format."""

    @pytest.mark.parametrize(
        ("release", "offsets"), [(KIP, {"source": ALL}), ("3.5", ALL), ("4.3", ALL)]
    )
    async def test_offsets_of_a_source_are_listed_as_in_the_kip(
        self, release: str, offsets: Any
    ) -> None:
        """The KIP lists offsets below the key `source`; releases leave out that key."""
        async with serving(await running(), release) as service:
            assert await service.shows(AT) == {"offsets": offsets}

    async def test_partitions_and_offsets_are_the_connectors_own(self, ours: AskedService) -> None:
        """Partitions and offsets may have any fields, in any order."""
        partition = {"db": "x", "shard": 3, "live": True, "none": None, "note": "ü\n"}
        offset = {"lsn": 2**62, "at": 1.5, "done": False}
        await ours.write_foreign(came_to("orders", partition, offset))
        shown = await ours.shows(AT)
        assert {"partition": partition, "offset": offset} in shown["offsets"]["source"]

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_no_offsets_are_an_empty_list(self, release: str) -> None:
        """A connector without offsets has an answer of the same form."""
        async with serving(await log_of(*ORDERS[:4]), release) as service:
            empty = {"source": []} if release == KIP else []
            assert await service.shows(AT) == {"offsets": empty}

    async def test_shown_offsets_can_be_sent_back(self, ours: AskedService) -> None:
        """A request takes offsets as the response shows them, and those of sinks as in the KIP."""
        shown = await ours.shows(AT)
        assert (await ours.status_and_message("PATCH", AT, shown))[0] == 200
        sink = {"partition": {"topic": "t", "partition": 0}, "offset": {"offset": 5}}
        body = {"offsets": {"sink": [sink]}}
        assert (await ours.status_and_message("PATCH", "/connectors/sales/offsets", body))[0] == 200
        assert await ours.beyond.group_offsets("connect-sales") == (("t", 0, 5),)


class TestGet:
    """Offsets endpoints behavior – GET."""

    async def test_get_shows_commits_of_running_tasks(self, connect: AskedService) -> None:
        """GET shows the commits of a running connector's tasks."""
        assert views.target(connect.state, "orders") is Target.STARTED
        await connect.write_foreign(came_to("orders", {"table": "a"}, {"pos": 42}))
        assert str((await connect.shows(AT))["offsets"]).count("'pos': 42") == 1

    async def test_the_config_decides_between_source_and_sink(self, ours: AskedService) -> None:
        """The connector's config decides between source and sink."""
        assert list((await ours.shows(AT))["offsets"]) == ["source"]
        status, message = await ours.status_and_message("GET", "/connectors/sales/offsets")
        assert (status, "sink connector sales" in message) == (500, True)

    async def test_a_deleted_connector_gets_404(self, connect: AskedService) -> None:
        """A deleted connector gets 404, although its offsets remain."""
        await connect.ask("DELETE", "/connectors/orders")
        assert await connect.status_and_message("GET", AT) == (404, "Connector orders not found")


class TestDelete:
    """Offsets endpoints behavior – DELETE."""

    async def test_delete_removes_the_offsets_of_one_connector(self, ours: AskedService) -> None:
        """A delete removes the offsets of this connector and no others."""
        await ours.write_foreign(came_to("users", {"table": "a"}, {"pos": 1}))
        assert await ours.status_and_message("DELETE", AT) == (204, "")
        assert await ours.shows(AT) == {"offsets": {"source": []}}
        assert views.offset_owners(ours.state) == ["users"]

    async def test_only_the_config_topic_makes_a_connector_exist(
        self, connect: AskedService
    ) -> None:
        """Offsets and statuses alone do not make a connector exist."""
        await connect.write_foreign(came_to("users", {"table": "a"}, {"pos": 1}))
        await connect.write_foreign(reported("users", "STOPPED"))
        expected = (404, "Connector users not found")
        assert await connect.status_and_message("DELETE", "/connectors/users/offsets") == expected

    @pytest.mark.parametrize(
        "records",
        [
            [],
            [target_state("orders", state="PAUSED", v2="PAUSED")],
            [target_state("orders", state="STARTED", v2="STARTED")],
            [target_state("orders", state="PAUSED", v2="STOPPED")],
        ],
        ids=["nothing said", "paused", "started", "stopped with tasks"],
    )
    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_a_connector_that_is_not_stopped_gets_400(
        self, release: str, records: list[Record]
    ) -> None:
        """A reset in any other state is refused and writes nothing, also on the way to STOPPED."""
        async with serving(await running(*records), release) as service:
            before = await service.everything()
            assert await service.status_and_message("DELETE", AT) == (400, NOT_STOPPED)
            assert await service.everything() == before

    @pytest.mark.parametrize("release", ["3.6", "3.9", "4.3"])
    async def test_releases_answer_with_a_message(self, release: str) -> None:
        """A reset gets 204 in the KIP, and 200 with a message in releases."""
        async with serving(await running(), release) as service:
            await service.ask("PUT", STOP)
            status, body = await service.status_and_message("DELETE", AT)
        assert (status, list(body)) == (200, ["message"])

    async def test_repeated_resets_succeed(self, ours: AskedService) -> None:
        """Repeated resets succeed; only the first one writes records."""
        assert await ours.status_and_message("DELETE", AT) == (204, "")
        once = await ours.everything()
        assert [await ours.status_and_message("DELETE", AT) for _ in range(3)] == [(204, "")] * 3
        assert await ours.everything() == once

    async def test_a_reset_writes_a_tombstone_for_each_partition(
        self, connect: AskedService
    ) -> None:
        """A reset writes one tombstone per partition."""
        await connect.ask("PUT", STOP)
        before = await connect.holds(OFFSETS)
        await connect.ask("DELETE", AT)
        written = (await connect.holds(OFFSETS))[len(before) :]
        assert sorted(written) == [(key, None) for key in TABLES]

    async def test_success_follows_the_read_back(self, ours: AskedService) -> None:
        """The answer comes after the tombstones have been read back."""
        plan = await ours.plan("DELETE", AT)
        assert [(step.name, step.read_back) for step in plan.steps] == [("wipe", (OFFSETS,))]
        await ours.ask("DELETE", AT)
        assert views.source_offsets(ours.state, "orders") == []

    async def test_releases_do_not_wait_for_the_read_back(self) -> None:
        """Releases rely on the broker's acknowledgement and read no record back."""
        async with serving(await running(), "3.9") as service:
            await service.ask("PUT", STOP)
            plan = await service.plan("DELETE", AT)
            assert [(step.name, step.read_back) for step in plan.steps] == [("wipe", ())]

    async def test_a_reset_clears_both_topics(self) -> None:
        """A reset removes offsets from the connector's own topic and from the worker's."""
        async with serving(await log_of(*TWO_TOPICS)) as service:
            assert await service.status_and_message("DELETE", AT) == (204, "")
            left = {topic: offsets.values for topic, offsets in service.state.offsets.items()}
        assert not any(left[OFFSETS].values())
        assert not any(left["own"].values())

    @pytest.mark.parametrize("away", [OFFSETS, "own"])
    async def test_a_partial_reset_fails(self, away: str) -> None:
        """A reset fails if one tombstone cannot be written."""
        log = RefusingLog()
        await log_of(*TWO_TOPICS, log=log)
        async with serving(log, limits=NEVER_RETRIED) as service:
            log.refuses = lambda record: record.topic == away
            with pytest.raises(NotWritten):
                await service.ask("DELETE", AT)
            log.refuses = None
            assert await service.status_and_message("DELETE", AT) == (204, "")


FENCED = raw(CONFIG, "tasks-fencing-orders", '{"task-count":2}')
"""The producers of two tasks were fenced, so two tasks may have run since."""


class TestDeleteExactlyOnce:
    """Offsets endpoints behavior – DELETE with exactly-once support."""

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_counted_tasks_are_fenced_before_the_reset(self, release: str) -> None:
        """Producers of the tasks are fenced before the first offset is removed."""
        async with serving(await running(FENCED), release, exactly_once=True) as service:
            await service.ask("PUT", STOP)
            plan = await service.plan("DELETE", AT)
            assert [step.name for step in plan.steps] == ["fence", "count", "wipe"]
            await service.ask("DELETE", AT)
            assert isinstance(service.beyond, Beyond)
            ids = ("connect-cluster-orders-0", "connect-cluster-orders-1")
            assert service.beyond.performed == [FenceProducers("orders", ids)]

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_tasks_without_a_count_are_not_fenced(self, release: str) -> None:
        """Without a task count in the config topic there is no task to fence."""
        async with serving(await running(), release, exactly_once=True) as service:
            await service.ask("PUT", STOP)
            await service.ask("DELETE", AT)
            assert isinstance(service.beyond, Beyond)
            assert service.beyond.performed == []

    async def test_the_tombstones_of_each_topic_are_one_transaction(self) -> None:
        """The tombstones of each topic form one batch."""
        async with serving(await log_of(*TWO_TOPICS), exactly_once=True) as service:
            plan = await service.plan("DELETE", AT)
        batches = {step.name: step.records for step in plan.steps if step.name.startswith("wipe")}
        keys = [
            (name, draft.topic, (draft.key or b"").decode())
            for name, batch in batches.items()
            for draft in batch
        ]
        assert keys == [
            ("wipe-copy", OFFSETS, TABLES[0]),
            ("wipe-copy", OFFSETS, TABLES[1]),
            ("wipe", "own", TABLES[0]),
            ("wipe", "own", TABLES[1]),
        ]


class TestDeleteOfSinks:
    """Offsets endpoints behavior – DELETE for sinks."""

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_the_whole_group_is_deleted(self, release: str) -> None:
        """The whole consumer group is deleted, even without committed offsets."""
        async with serving(await running(), release) as service:
            await service.ask("PUT", "/connectors/sales/stop")
            assert (await service.status_and_message("DELETE", "/connectors/sales/offsets"))[
                0
            ] < 300
            assert isinstance(service.beyond, Beyond)
            assert service.beyond.performed == [DeleteGroup("sales", "connect-sales")]

    async def test_no_record_is_written(self, ours: AskedService) -> None:
        """A reset of a sink writes no record to Connect's topics."""
        before = await ours.everything()
        assert await ours.status_and_message("DELETE", "/connectors/sales/offsets") == (204, "")
        assert await ours.everything() == before


class TestForwarding:
    """Offsets endpoints behavior – who carries it out."""

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    def test_other_workers_forward_to_the_leader(self, release: str) -> None:
        """Any other worker forwards the request to the leader."""
        reset = f"""\
cluster w1@{release} w2@{release} leader=w1
----

given config
connector-orders  {{"properties":{{"connector.class":"JdbcSource"}}}}
target-state-orders  {{"state":"PAUSED","state.v2":"STOPPED"}}
----

DELETE /connectors/orders/offsets via=w2
----
"""
        forwarded, answered = printed(reset)
        assert forwarded == "forwarded w2 -> w1"
        assert answered.startswith("204" if release == KIP else "200 ")


class TestFutureWork:
    """Future work."""

    @pytest.mark.parametrize("release", [KIP, "3.6", "4.3"])
    async def test_single_offsets_can_be_altered(self, release: str) -> None:
        """Single offsets can be altered and removed, in releases and here.

        KIP-875 left this for later; KIP-995 assumes it.
        """
        change = [
            {"partition": {"table": "a"}, "offset": {"pos": 100}},
            {"partition": {"table": "b"}, "offset": None},
        ]
        async with serving(await running(), release) as service:
            await service.ask("PUT", STOP)
            assert (await service.status_and_message("PATCH", AT, {"offsets": change}))[0] == 200
            shown = (await service.shows(AT))["offsets"]
        assert shown == ({"source": change[:1]} if release == KIP else change[:1])

    async def test_offsets_outlive_their_connector(self, connect: AskedService) -> None:
        """Offsets survive a deletion; the next connector of that name continues from them."""
        before = await connect.shows(AT)
        await connect.ask("DELETE", "/connectors/orders")
        made = {"name": "orders", "config": SOURCE_CONFIG}
        assert (await connect.status_and_message("POST", "/connectors", made))[0] == 201
        assert await connect.shows(AT) == before


class TestRejectedAlternatives:
    """Rejected Alternatives."""

    async def test_sinks_are_not_left_out(self, ours: AskedService) -> None:
        """Sources and sinks have the same interface."""
        for name in ("orders", "sales"):
            assert await ours.status_and_message("DELETE", f"/connectors/{name}/offsets") == (
                204,
                "",
            )

    async def test_a_running_connector_must_be_stopped_first(self, connect: AskedService) -> None:
        """A running connector must be stopped, then reset, then resumed."""
        assert (await connect.status_and_message("DELETE", AT))[0] == 400
        await connect.ask("PUT", STOP)
        assert (await connect.status_and_message("DELETE", AT))[0] < 300
        assert (await connect.status_and_message("PUT", "/connectors/orders/resume"))[0] == 202
        assert (await connect.status_and_message("DELETE", AT))[0] == 400
