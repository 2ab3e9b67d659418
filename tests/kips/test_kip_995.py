"""KIP-995, initial offsets while creating connectors, sentence by sentence; no release has it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controlplane.core import views
from controlplane.core.records import Target
from tests.controller.scene import CONFIG, OFFSETS
from tests.kips.creation import AT_100, LEFT_OVER, NEW, SET_HERE, creation_body, left_of, offsets_of
from tests.kips.service import (
    SINK_CONFIG,
    SOURCE_CONFIG,
    SURE_SOURCE,
    AskedService,
    configured,
    running,
    serving,
)

T_0 = {"kafka_topic": "t", "kafka_partition": 0}
SET = "The offsets for this connector have been set successfully"


@pytest.fixture
async def connect() -> AsyncIterator[AskedService]:
    """The small cluster; an earlier connector `new` has left offsets."""
    async with serving(await running(*LEFT_OVER)) as service:
        yield service


class TestPost:
    """Public Interfaces – POST /connectors."""

    async def test_a_creation_may_have_initial_offsets(self, connect: AskedService) -> None:
        """A creation with initial offsets writes the connector and its offsets."""
        assert (await connect.status_and_message("POST", "/connectors", creation_body()))[0] == 200
        assert await offsets_of(connect) == AT_100

    @pytest.mark.parametrize(
        "offsets",
        [
            [],
            {},
            {"source": []},
            "earliest",
            100,
            [100],
            [None],
            [{"partition": 0, "offset": 100}],
            [{"partition": {"table": "a"}, "position": {"pos": 100}}],
            [{"partition": {"table": ["a"]}, "offset": {"pos": 100}}],
            [{"partition": {"table": "a"}, "offset": {"pos": {"at": 100}}}],
            {"sink": AT_100},
            {"table": AT_100},
        ],
        ids=str,
    )
    async def test_another_form_of_offsets_gets_400(
        self, connect: AskedService, offsets: Any
    ) -> None:
        """Offsets that are not a list in the form of KIP-875 get 400."""
        before = await connect.everything()
        assert (await connect.status_and_message("POST", "/connectors", creation_body(offsets)))[
            0
        ] == 400
        assert await connect.everything() == before

    @pytest.mark.parametrize("offsets", [{}, {"initial_offsets": None}], ids=["absent", "null"])
    async def test_a_creation_without_the_field_is_unchanged(
        self, connect: AskedService, offsets: Any
    ) -> None:
        """A creation without the field has the former answer and records, and keeps old offsets."""
        before = await connect.everything()
        body = {"name": "new", "config": SOURCE_CONFIG, **offsets}
        answer = await connect.ask("POST", "/connectors", body)
        assert answer.status == 201
        assert answer.headers == {"location": NEW}
        assert answer.body == {
            "name": "new",
            "config": {**SOURCE_CONFIG, "name": "new"},
            "tasks": [],
            "type": "source",
        }
        (record,) = (entry for entry in await connect.everything() if entry not in before)
        assert record[0] == "connector-new"
        left = [offset["offset"] for offset in await offsets_of(connect)]
        assert left == [{"pos": 2}, {"pos": 1}], "the order of a worker"

    @pytest.mark.parametrize(
        ("plugin", "message"), [(SURE_SOURCE, SET), (SOURCE_CONFIG["connector.class"], SET_HERE)]
    )
    async def test_the_connectors_hook_decides_the_message(
        self, connect: AskedService, plugin: str, message: str
    ) -> None:
        """The answer is 200; its text depends on the connector's hook."""
        config = {**SOURCE_CONFIG, "connector.class": plugin}
        answer = await connect.ask("POST", "/connectors", creation_body(config=config))
        assert answer.status == 200
        assert answer.body["initial_offsets_response"] == message
        assert answer.body["name"] == "new"
        assert answer.body["config"] == {**config, "name": "new"}

    async def test_the_answer_keeps_its_former_fields(self, connect: AskedService) -> None:
        """The KIP's example omits `tasks` and `type`; a general client needs them."""
        answer = await connect.ask("POST", "/connectors", creation_body())
        assert list(answer.body) == ["name", "config", "tasks", "type", "initial_offsets_response"]
        assert answer.headers == {"location": NEW}

    @pytest.mark.parametrize("release", ["3.9", "4.3"])
    async def test_releases_refuse_the_field(self, release: str) -> None:
        """A release answers the unknown field with an error and creates nothing."""
        async with serving(await running(), release) as service:
            before = await service.everything()
            status, message = await service.status_and_message(
                "POST", "/connectors", creation_body()
            )
            assert status == 500
            assert message.startswith('Unrecognized field "initial_offsets"')
            assert await service.everything() == before


class TestSteps:
    """Proposed Changes."""

    async def test_the_steps_are_wipe_set_create(self, connect: AskedService) -> None:
        """The steps are wipe, set and create; each is read back before the next."""
        plan = await connect.plan("POST", "/connectors", creation_body(initial_state="PAUSED"))
        assert [(step.name, step.read_back) for step in plan.steps] == [
            ("wipe", (OFFSETS,)),
            ("write", (OFFSETS,)),
            ("create", (CONFIG,)),
        ]
        assert plan.commit_point == "create"

    async def test_1_the_config_is_checked(self, connect: AskedService) -> None:
        """The config is checked first: with two errors, the answer names the config's."""
        before = await connect.everything()
        config = {**SOURCE_CONFIG, "name": "other"}
        broken: Any = [{"partition": {"table": []}, "offset": None}]
        status, message = await connect.status_and_message(
            "POST", "/connectors", creation_body(broken, config)
        )
        assert (status, "(other)" in message) == (400, True)
        assert await connect.everything() == before

    @pytest.mark.parametrize(
        ("config", "offsets"),
        [
            (SOURCE_CONFIG, [{"partition": {"a": []}, "offset": {"pos": 1}}]),
            (SOURCE_CONFIG, [{"partition": {"a": 1}, "offset": {"pos": {}}}]),
            (SOURCE_CONFIG, [{"partition": {"a": 2**63}, "offset": {}}]),
            (SINK_CONFIG, [{"partition": None, "offset": None}]),
            (SINK_CONFIG, [{"partition": {"topic": "t"}, "offset": None}]),
            (SINK_CONFIG, [{"partition": {"kafka_topic": None, "kafka_partition": 0}}]),
            (SINK_CONFIG, [{"partition": {"kafka_topic": "t", "kafka_partition": None}}]),
            (SINK_CONFIG, [{"partition": {"kafka_topic": "t", "kafka_partition": "x"}}]),
            (SINK_CONFIG, [{"partition": T_0, "offset": {}}]),
            (SINK_CONFIG, [{"partition": T_0, "offset": {"kafka_offset": 1.5}}]),
        ],
        ids=str,
    )
    async def test_2_offsets_are_checked_as_by_alteration(
        self, connect: AskedService, config: Any, offsets: Any
    ) -> None:
        """A creation refuses the same offsets as `PATCH`; the message also names the step."""
        await connect.write_foreign(configured("other", config))
        await connect.ask("PUT", "/connectors/other/stop")
        altered = {"offsets": offsets}
        status, message = await connect.status_and_message(
            "PATCH", "/connectors/other/offsets", altered
        )
        assert status == 400
        before = await connect.everything()
        step = "Failed to validate the initial offsets of connector new: "
        expected = (400, step + message)
        assert (
            await connect.status_and_message("POST", "/connectors", creation_body(offsets, config))
            == expected
        )
        assert await connect.everything() == before

    @pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED", None])
    async def test_2_the_connector_need_not_exist_and_be_stopped(
        self, connect: AskedService, state: str | None
    ) -> None:
        """The new connector passes the checks for existence and STOPPED, in any initial state."""
        got = await connect.status_and_message(
            "POST", "/connectors", creation_body(initial_state=state)
        )
        assert got[0] == 200

    async def test_3_old_offsets_are_wiped(self, connect: AskedService) -> None:
        """Partitions that the request does not name have no offset afterwards."""
        await connect.ask("POST", "/connectors", creation_body())
        assert await offsets_of(connect) == AT_100
        assert left_of(connect) == {'["new",{"table":"a"}]': '{"pos":100}'}

    async def test_4_the_requested_offsets_are_set(self, connect: AskedService) -> None:
        """Each requested offset is set; the last one for a partition wins."""
        others = [{"partition": {"table": name}, "offset": {"pos": 5}} for name in "cd"]
        first = [{"partition": {"table": "a"}, "offset": {"pos": 99}}]
        await connect.ask("POST", "/connectors", creation_body([*first, *others, *AT_100]))
        shown = await offsets_of(connect)
        assert len(shown) == 3
        assert all(offset in shown for offset in [*AT_100, *others])

    async def test_4_a_null_sets_no_offset(self, connect: AskedService) -> None:
        """A null offset leaves the partition without an offset."""
        nothing = [{"partition": {"table": "a"}, "offset": None}]
        assert (await connect.status_and_message("POST", "/connectors", creation_body(nothing)))[
            0
        ] == 200
        assert await offsets_of(connect) == []

    @pytest.mark.parametrize(
        ("state", "target", "record"),
        [
            ("RUNNING", Target.STARTED, '{"state":"STARTED","state.v2":"STARTED"}'),
            ("PAUSED", Target.PAUSED, '{"state":"PAUSED","state.v2":"PAUSED"}'),
            ("STOPPED", Target.STOPPED, '{"state":"PAUSED","state.v2":"STOPPED"}'),
            (None, Target.STARTED, None),
        ],
    )
    async def test_5_config_and_state_come_last(
        self, connect: AskedService, state: str | None, target: Target, record: str | None
    ) -> None:
        """The target state, if requested, precedes the config; both are in the last step."""
        plan = await connect.plan("POST", "/connectors", creation_body(initial_state=state))
        *states, config = plan.steps[-1].records
        assert config.key == b"connector-new"
        assert [draft.value for draft in states] == ([record.encode()] if record else [])
        await connect.ask("POST", "/connectors", creation_body(initial_state=state))
        assert views.target(connect.state, "new") is target
