"""KIP-875, the target state STOPPED: its meaning, and its effect on older workers."""

import pytest

from controlplane.core import views
from controlplane.core.fold import Fold, ListenerCall
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ConfigState
from tests.controller.scene import CONFIG, entries
from tests.kips.service import (
    SOURCE_CONFIG,
    AskedService,
    came_to,
    reported,
    running,
    serving,
    target_state,
)

ORDERS = "/connectors/orders"
STOP, PAUSE, RESUME = f"{ORDERS}/stop", f"{ORDERS}/pause", f"{ORDERS}/resume"
CLEVER = ("target-state-orders", '{"state":"PAUSED","state.v2":"STOPPED"}')
BOTH = pytest.mark.parametrize("way", [RESUME, PAUSE])


@pytest.fixture
async def stopped(connect: AskedService) -> AskedService:
    """The service of `connect`, with `orders` stopped."""
    assert await connect.status_and_message("PUT", STOP) == (204, "")
    return connect


async def read_by(release: str, *states: str) -> ConfigState:
    """Config state of a worker of this release after these target states."""
    records = [target_state("orders", **_fields(state)) for state in states]
    fold = Fold(Profile.of(release))
    fold.apply_all(await entries(await running(*records), [CONFIG]))
    return fold.snapshot().config


def _fields(state: str) -> dict[str, str]:
    """Fields of `PAUSED` or `PAUSED/STOPPED`: `state`, then `state.v2` after the slash."""
    first, _, second = state.partition("/")
    return {"state": first} | ({"v2": second} if second else {})


class TestTargetStatesToday:
    """Background: target states today."""

    async def test_running_is_the_default(self, connect: AskedService) -> None:
        """The target is STARTED if there is no record of a target state."""
        assert views.target(connect.state, "orders") is Target.STARTED

    async def test_resume_and_pause_choose(self, connect: AskedService) -> None:
        """PAUSE and RESUME each set one of the two states."""
        await connect.ask("PUT", PAUSE)
        assert views.target(connect.state, "orders") is Target.PAUSED
        await connect.ask("PUT", RESUME)
        assert views.target(connect.state, "orders") is Target.STARTED

    async def test_a_paused_connector_keeps_its_tasks(self, connect: AskedService) -> None:
        """A paused connector's tasks stay allocated and idle; STOPPED avoids this."""
        before = await connect.shows(f"{ORDERS}/tasks")
        await connect.ask("PUT", PAUSE)
        assert len(before) == 2
        assert await connect.shows(f"{ORDERS}/tasks") == before


class TestNewState:
    """A new STOPPED state."""

    async def test_the_config_stays_in_the_config_topic(self, connect: AskedService) -> None:
        """Stopping neither rewrites nor removes the config."""
        before = [
            record for record in await connect.holds(CONFIG) if record[0] == "connector-orders"
        ]
        await connect.ask("PUT", STOP)
        after = [
            record for record in await connect.holds(CONFIG) if record[0] == "connector-orders"
        ]
        assert len(before) == 1
        assert after == before

    async def test_the_config_stays_visible(self, connect: AskedService) -> None:
        """Every endpoint that shows the config still shows it."""
        before = await connect.shows(f"{ORDERS}/config")
        await connect.ask("PUT", STOP)
        assert await connect.shows(f"{ORDERS}/config") == before
        assert (await connect.shows(ORDERS))["config"] == before
        assert "orders" in await connect.shows("/connectors")

    async def test_an_empty_task_set_is_published(self, connect: AskedService) -> None:
        """The config topic gets an empty task set, which replaces the former one."""
        before = len(await connect.holds(CONFIG))
        await connect.ask("PUT", STOP)
        assert (await connect.holds(CONFIG))[before:] == [("commit-orders", '{"tasks":0}'), CLEVER]
        assert views.task_ids(connect.state, "orders") == range(0)

    @pytest.mark.parametrize("release", [KIP, "3.5", "4.3"])
    async def test_the_empty_task_set_calls_the_listener(self, release: str) -> None:
        """The empty task set calls the listener for task configs: workers then rebalance."""
        log = await running()
        async with serving(log, release) as service:
            await service.ask("PUT", STOP)
        *before, commit, state = await entries(log, [CONFIG])
        worker = Fold(Profile.of(release), live=True)
        worker.apply_all(before)
        assert [call.name for call in worker.apply(commit).calls] == ["task configs"]
        assert worker.apply(state).calls == (ListenerCall("target state", "orders"),)

    async def test_nothing_shows_tasks_any_more(self, stopped: AskedService) -> None:
        """Once workers have followed, every endpoint shows the connector without tasks."""
        await stopped.write_foreign(*(reported("orders", None, task) for task in (0, 1)))
        await stopped.write_foreign(reported("orders", "STOPPED"))
        assert (await stopped.shows(ORDERS))["tasks"] == []
        assert await stopped.shows(f"{ORDERS}/tasks") == []
        assert (await stopped.shows(f"{ORDERS}/status"))["tasks"] == []
        expanded = (await stopped.shows("/connectors?expand=status&expand=info"))["orders"]
        assert (expanded["status"]["tasks"], expanded["info"]["tasks"]) == ([], [])

    @pytest.mark.parametrize("before", ["RUNNING", "PAUSED", "FAILED", "UNASSIGNED"])
    async def test_a_stopped_report_replaces_any_other(
        self, connect: AskedService, before: str
    ) -> None:
        """A STOPPED report replaces any earlier report, also a failure."""
        await connect.write_foreign(reported("orders", before))
        assert (await connect.status_and_message("PUT", STOP))[0] == 204
        await connect.write_foreign(reported("orders", "STOPPED"))
        shown = await connect.shows(f"{ORDERS}/status")
        assert shown["connector"]["state"] == "STOPPED"

    async def test_a_stopped_connector_refuses_tasks(self, stopped: AskedService) -> None:
        """A stopped connector refuses task configs that its worker sends late."""
        before = await stopped.everything()
        late = await stopped.ask("POST", f"{ORDERS}/tasks", [{"table": "a"}], signed=True)
        assert late.status == 400
        message = "Cannot submit non-empty set of task configs for stopped connector orders"
        assert late.body["message"] == message
        assert await stopped.everything() == before


class TestOutOfIt:
    """A new STOPPED state – and out of it again."""

    @BOTH
    async def test_tasks_may_be_made_again(self, stopped: AskedService, way: str) -> None:
        """A resumed or paused connector may publish tasks again, also in releases.

        Only under the KIP does a worker ask a paused connector for tasks.
        """
        assert (await stopped.status_and_message("PUT", way))[0] == 202
        made = await stopped.ask("POST", f"{ORDERS}/tasks", [{"table": "c"}], signed=True)
        assert made.status == 204

    @BOTH
    async def test_tasks_are_published_after_a_resume_or_pause(
        self, stopped: AskedService, way: str
    ) -> None:
        """Task configs and then a commit are written to the config topic."""
        await stopped.ask("PUT", way)
        before = len(await stopped.holds(CONFIG))
        await stopped.ask("POST", f"{ORDERS}/tasks", [{"table": "c"}], signed=True)
        assert (await stopped.holds(CONFIG))[before:] == [
            ("task-orders-0", '{"properties":{"table":"c"}}'),
            ("commit-orders", '{"tasks":1}'),
        ]
        shown = await stopped.shows(f"{ORDERS}/tasks")
        assert [task["config"] for task in shown] == [{"table": "c"}]

    @BOTH
    async def test_published_tasks_are_like_any_others(
        self, stopped: AskedService, way: str
    ) -> None:
        """The records are the same as after any change of the config."""
        await stopped.ask("PUT", way)
        before = len(await stopped.holds(CONFIG))
        await stopped.ask("POST", f"{ORDERS}/tasks", [{"table": "c"}], signed=True)
        written = (await stopped.holds(CONFIG))[before:]
        await stopped.ask("PUT", RESUME)
        await stopped.ask("PUT", f"{ORDERS}/config", SOURCE_CONFIG | {"tasks.max": "1"})
        before = len(await stopped.holds(CONFIG))
        await stopped.ask("POST", f"{ORDERS}/tasks", [{"table": "c"}], signed=True)
        assert (await stopped.holds(CONFIG))[before:] == written

    @BOTH
    async def test_a_target_state_alone_restores_no_tasks(
        self, stopped: AskedService, way: str
    ) -> None:
        """The new target state alone restores no tasks."""
        await stopped.ask("PUT", way)
        assert await stopped.shows(f"{ORDERS}/tasks") == []


class TestCompatibilityOfOffsets:
    """Compatibility, Deprecation, and Migration Plan – Offsets endpoints."""

    @pytest.mark.parametrize("release", [KIP, "3.5", "3.9"])
    async def test_nothing_has_to_be_migrated(self, release: str) -> None:
        """Offsets that an older release wrote are visible to a newer worker."""
        log = await running()
        async with serving(log, "2.8") as old:
            assert (await old.status_and_message("GET", f"{ORDERS}/offsets"))[0] == 404
            await old.write_foreign(came_to("orders", {"table": "c"}, {"pos": 1}))
        async with serving(log, release) as new:
            assert len(views.source_offsets(new.state, "orders")) == 3


class TestCompatibilityOfStopped:
    """Compatibility, Deprecation, and Migration Plan – STOPPED target state."""

    async def test_the_naive_record_is_never_written(self, connect: AskedService) -> None:
        """No request writes STOPPED into the field `state`, which older workers read."""
        for way in (STOP, PAUSE, STOP, RESUME, STOP, STOP):
            await connect.ask("PUT", way)
        values = [value for key, value in await connect.holds(CONFIG) if key == CLEVER[0]]
        assert len(values) == 6
        assert not any('"state":"STOPPED"' in (value or "") for value in values)

    async def test_an_older_worker_does_not_obey_the_naive_record(self) -> None:
        """With STOPPED in `state`, an older worker would go on running the connector."""
        assert (await read_by("3.4", "STOPPED")).targets["orders"] is Target.STARTED

    async def test_the_written_record_has_both_states(self, stopped: AskedService) -> None:
        """The exact record: `state.v2` is STOPPED, `state` is PAUSED."""
        assert (await stopped.holds(CONFIG))[-1] == CLEVER

    @pytest.mark.parametrize("release", ["0.10.0", "1.1", "2.8", "3.4"])
    async def test_older_workers_pause(self, release: str) -> None:
        """Older workers read `state`, ignore `state.v2` and pause."""
        config = await read_by(release, "PAUSED/STOPPED")
        assert config.targets["orders"] is Target.PAUSED

    @pytest.mark.parametrize("release", ["3.5", "3.9", "4.3", KIP])
    async def test_newer_workers_stop(self, release: str) -> None:
        """Newer workers prefer `state.v2` to `state` and stop the connector."""
        config = await read_by(release, "PAUSED/STOPPED")
        assert config.targets["orders"] is Target.STOPPED

    @pytest.mark.parametrize("release", ["3.5", "3.9", "4.3", KIP])
    @pytest.mark.parametrize(
        ("state", "target"), [("PAUSED", Target.PAUSED), ("STARTED", Target.STARTED)]
    )
    async def test_newer_workers_fall_back_to_the_field_state(
        self, release: str, state: str, target: Target
    ) -> None:
        """Without `state.v2` the field `state` counts, also after a record that has both."""
        assert (await read_by(release, state)).targets["orders"] is target
        assert (await read_by(release, "PAUSED/STOPPED", state)).targets["orders"] is target
