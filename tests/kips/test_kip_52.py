"""KIP-52, Connector Control APIs: pause, resume and restart, sentence by sentence.

The last class tests sentences that Kafka implements differently.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.controller import ExternalActionFailed
from controlplane.core import views
from controlplane.core.fold import Fold
from controlplane.core.plan import AnyAction, RestartInstances
from controlplane.core.records import Target
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.logs.memory import MemoryLog
from tests.controller.scene import CONFIG, STATUS, Crash, entries
from tests.kips.service import (
    AskedService,
    Beyond,
    published,
    reported,
    running,
    serving,
    target_state,
)

PAUSE, RESUME = "/connectors/orders/pause", "/connectors/orders/resume"
RESTART, RESTART_1 = "/connectors/orders/restart", "/connectors/orders/tasks/1/restart"
PAUSED = '{"state":"PAUSED","state.v2":"PAUSED"}'


@pytest.fixture
async def ours() -> AsyncIterator[AskedService]:
    """The small cluster under the KIP's profile."""
    async with serving(await running()) as service:
        yield service


def restarts(service: AskedService) -> list[tuple[int | None, ...]]:
    """Restarts sent to workers: the connector as None, tasks by number."""
    assert isinstance(service.beyond, Beyond)
    return [
        done.instances for done in service.beyond.performed if isinstance(done, RestartInstances)
    ]


class TestPauseConnector:
    """Pause connector."""

    async def test_the_request_is_a_put(self, connect: AskedService) -> None:
        """The request is a PUT to the path `pause` below the connector; a POST gets 405."""
        assert (await connect.status_and_message("PUT", PAUSE))[0] == 202
        assert (await connect.status_and_message("POST", PAUSE))[0] == 405
        assert views.target(connect.state, "orders") is Target.PAUSED

    async def test_the_answer_does_not_wait_for_the_tasks(self, connect: AskedService) -> None:
        """Pausing answers before the connector or a task changes its state."""
        before = await connect.shows("/connectors/orders/status")
        assert (await connect.status_and_message("PUT", PAUSE))[0] == 202
        assert await connect.shows("/connectors/orders/status") == before

    async def test_a_second_pause_changes_nothing(self, connect: AskedService) -> None:
        """A second pause changes no config, target state or task count."""
        await connect.status_and_message("PUT", PAUSE)
        once = connect.state.config
        await connect.status_and_message("PUT", PAUSE)
        again = connect.state.config
        assert (again.targets, again.task_counts, again.tasks) == (
            once.targets,
            once.task_counts,
            once.tasks,
        )

    @pytest.mark.parametrize("release", [KIP, "3.9"])
    async def test_a_restarted_cluster_finds_it_paused(self, release: str) -> None:
        """Later processes find the target state in the log."""
        log = await running()
        async with serving(log, release) as first:
            await first.status_and_message("PUT", PAUSE)
        async with serving(log, release) as later:
            assert views.target(later.state, "orders") is Target.PAUSED

    async def test_the_answer_is_202(self, connect: AskedService) -> None:
        """A pause gets 202 with an empty body, also if the connector is already paused."""
        assert [await connect.status_and_message("PUT", PAUSE) for _ in range(2)] == [(202, "")] * 2

    async def test_missing_instances_get_404(self, connect: AskedService) -> None:
        """A pause of an unknown connector gets 404."""
        expected = (404, "Unknown connector nobody")
        assert await connect.status_and_message("PUT", "/connectors/nobody/pause") == expected


class TestResumeConnector:
    """Resume Connector."""

    async def test_the_request_is_a_put(self, connect: AskedService) -> None:
        """The request is a PUT to the path `resume` below the connector."""
        await connect.status_and_message("PUT", PAUSE)
        assert (await connect.status_and_message("PUT", RESUME))[0] == 202
        assert (await connect.status_and_message("POST", RESUME))[0] == 405
        assert views.target(connect.state, "orders") is Target.STARTED

    async def test_the_answer_does_not_wait_for_the_tasks(self, connect: AskedService) -> None:
        """`resume` gets 202 while the tasks are still paused."""
        await connect.status_and_message("PUT", PAUSE)
        await connect.write_foreign(reported("orders", "PAUSED"), reported("orders", "PAUSED", 0))
        assert (await connect.status_and_message("PUT", RESUME))[0] == 202
        shown = await connect.shows("/connectors/orders/status")
        assert shown["connector"]["state"] == shown["tasks"][0]["state"] == "PAUSED"

    async def test_resuming_a_running_connector_changes_nothing(
        self, connect: AskedService
    ) -> None:
        """Resuming a running connector changes no target state."""
        before = connect.state.config.targets
        await connect.status_and_message("PUT", RESUME)
        assert connect.state.config.targets == before

    async def test_the_answer_is_202(self, connect: AskedService) -> None:
        """A resume gets 202, also if the connector already runs."""
        await connect.status_and_message("PUT", PAUSE)
        assert [await connect.status_and_message("PUT", RESUME) for _ in range(2)] == [
            (202, "")
        ] * 2

    async def test_missing_instances_get_404(self, connect: AskedService) -> None:
        """A resume of an unknown connector gets 404."""
        expected = (404, "Unknown connector nobody")
        assert await connect.status_and_message("PUT", "/connectors/nobody/resume") == expected


class SlowRestarts(Beyond):
    """Workers whose restarts wait for `let`."""

    def __init__(self) -> None:
        super().__init__()
        self.restart_requested = asyncio.Event()
        self.let = asyncio.Event()

    async def perform(self, action: AnyAction) -> None:
        """Report that the restart was requested, then wait for `let`."""
        self.restart_requested.set()
        await self.let.wait()
        await super().perform(action)


async def answered_behind(target: str) -> None:
    """Check that a restart is answered once it is done, and not before."""
    slow = SlowRestarts()
    async with serving(await running(), beyond=slow) as service:
        asker = asyncio.create_task(service.status_and_message("POST", target))
        await slow.restart_requested.wait()
        assert not asker.done()
        slow.let.set()
        assert await asker == (204, "")
        assert len(restarts(service)) == 1


class TestRestartConnector:
    """Restart Connector."""

    async def test_the_request_is_a_post(self, connect: AskedService) -> None:
        """The request is a POST to the path `restart` below the connector."""
        assert (await connect.status_and_message("PUT", RESTART))[0] == 405
        assert (await connect.status_and_message("POST", RESTART))[0] == 204
        assert restarts(connect) == [(None,)]

    async def test_the_answer_follows_the_restart(self) -> None:
        """A restart is answered after the connector has restarted."""
        await answered_behind(RESTART)

    async def test_the_answer_is_204(self, connect: AskedService) -> None:
        """A restart gets 204 with an empty body."""
        assert await connect.status_and_message("POST", RESTART) == (204, "")

    async def test_missing_instances_get_404(self, connect: AskedService) -> None:
        """A restart of an unknown connector gets 404."""
        expected = (404, "Unknown connector: nobody")
        assert await connect.status_and_message("POST", "/connectors/nobody/restart") == expected

    async def test_a_concurrent_restart_gets_409(self, ours: AskedService) -> None:
        """A restart during another restart of the connector gets 409."""
        await ours.write_foreign(reported("orders", "RESTARTING"))
        expected = (409, "Connector orders is already being restarted")
        assert await ours.status_and_message("POST", RESTART) == expected
        assert restarts(ours) == []

    @pytest.mark.parametrize("forward", ["true", "false"])
    async def test_a_single_worker_ignores_forward(
        self, connect: AskedService, forward: str
    ) -> None:
        """A single worker ignores `forward`: it is the leader."""
        assert (await connect.status_and_message("POST", f"{RESTART}?forward={forward}"))[0] == 204
        assert restarts(connect) == [(None,)]


class TestRestartTask:
    """Restart Task."""

    async def test_the_request_is_a_post(self, connect: AskedService) -> None:
        """The request is a POST to `restart` below the task, and restarts that task alone."""
        assert (await connect.status_and_message("PUT", RESTART_1))[0] == 405
        assert (await connect.status_and_message("POST", RESTART_1))[0] == 204
        assert restarts(connect) == [(1,)]

    async def test_the_answer_follows_the_restart(self) -> None:
        """A restart is answered after the task has restarted."""
        await answered_behind(RESTART_1)

    async def test_the_answer_is_204(self, connect: AskedService) -> None:
        """A restart of a task gets 204 with an empty body."""
        assert await connect.status_and_message("POST", RESTART_1) == (204, "")

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("/connectors/nobody/tasks/0/restart", "Unknown connector: nobody"),
            ("/connectors/orders/tasks/2/restart", "Unknown task: orders-2"),
        ],
    )
    async def test_missing_instances_get_404(
        self, connect: AskedService, target: str, message: str
    ) -> None:
        """A missing task cannot be restarted, nor a task of a missing connector."""
        assert await connect.status_and_message("POST", target) == (404, message)

    async def test_a_concurrent_restart_gets_409(self, ours: AskedService) -> None:
        """A restart during another restart of the task gets 409; the other task can restart."""
        await ours.write_foreign(reported("orders", "RESTARTING", 1))
        expected = (409, "Task orders-1 is already being restarted")
        assert await ours.status_and_message("POST", RESTART_1) == expected
        assert (await ours.status_and_message("POST", "/connectors/orders/tasks/0/restart"))[
            0
        ] == 204

    @pytest.mark.parametrize("forward", ["true", "false"])
    async def test_a_single_worker_ignores_forward(
        self, connect: AskedService, forward: str
    ) -> None:
        """A single worker ignores `forward`: it is the leader."""
        assert (await connect.status_and_message("POST", f"{RESTART_1}?forward={forward}"))[
            0
        ] == 204
        assert restarts(connect) == [(1,)]


class TestPauseResumeConnector:
    """Pause/resume Connector."""

    async def test_a_pause_writes_one_record_to_the_config_topic(
        self, connect: AskedService
    ) -> None:
        """A pause writes one record to the config topic, and none to the status topic."""
        before, reports = await connect.holds(CONFIG), await connect.holds(STATUS)
        await connect.status_and_message("PUT", PAUSE)
        now = await connect.holds(CONFIG)
        assert now == [*before, ("target-state-orders", PAUSED)]
        assert await connect.holds(STATUS) == reports

    async def test_compaction_keeps_the_target_state(self) -> None:
        """Compaction keeps the last target state of each connector."""
        log = await running()
        async with serving(log) as first:
            await first.status_and_message("PUT", PAUSE)
            await first.status_and_message("PUT", RESUME)
            await first.status_and_message("PUT", PAUSE)
        assert await log.compact(CONFIG) == 2
        async with serving(log) as later:
            assert views.target(later.state, "orders") is Target.PAUSED

    async def test_the_value_is_a_small_object(self) -> None:
        """The value is an object with the property `state`; the first release wrote no other."""
        async with serving(await running(), "0.10.0") as first:
            await first.status_and_message("PUT", PAUSE)
            assert (await first.holds(CONFIG))[-1][1] == '{"state":"PAUSED"}'

    async def test_the_status_changes_when_workers_report(self, connect: AskedService) -> None:
        """The status changes when workers report; a client polls it."""
        await connect.status_and_message("PUT", PAUSE)
        await connect.write_foreign(*(reported("orders", "PAUSED", task) for task in (None, 0, 1)))
        shown = await connect.shows("/connectors/orders/status")
        states = [report["state"] for report in (shown["connector"], *shown["tasks"])]
        assert states == ["PAUSED"] * 3

    async def test_tasks_follow_one_by_one(self, connect: AskedService) -> None:
        """Some tasks are shown as paused before others.

        The target state is PAUSED before all tasks are.
        """
        await connect.status_and_message("PUT", PAUSE)
        await connect.write_foreign(reported("orders", "PAUSED"), reported("orders", "PAUSED", 0))
        shown = await connect.shows("/connectors/orders/status")
        assert [task["state"] for task in shown["tasks"]] == ["PAUSED", "RUNNING"]


class Failing(Beyond):
    """Workers that fail to start what they have stopped."""

    async def perform(self, action: AnyAction) -> None:
        """Perform the action, then raise ExternalActionFailed."""
        await super().perform(action)
        raise ExternalActionFailed("Failed to start connector: orders")


class Dying(Beyond):
    """Worker that performs a restart, and then crashes."""

    async def perform(self, action: AnyAction) -> None:
        """Perform the action, then raise Crash."""
        await super().perform(action)
        raise Crash


class TestRestartTasks:
    """Restart Tasks."""

    @pytest.mark.parametrize("target", [RESTART, RESTART_1])
    async def test_a_restart_writes_no_record(self, connect: AskedService, target: str) -> None:
        """A restart writes no record to Connect's topics."""
        before = await connect.everything()
        await connect.status_and_message("POST", target)
        assert await connect.everything() == before

    async def test_the_restart_request_reports_the_failure(self) -> None:
        """A failed restart is reported in the answer to its own request."""
        async with serving(await running(), beyond=Failing()) as service:
            expected = (500, "Failed to start connector: orders")
            assert await service.status_and_message("POST", RESTART) == expected

    async def test_a_crashed_restart_is_not_repeated(self) -> None:
        """A restart that crashed its worker is not repeated by the next process."""
        log = await running()
        async with serving(log, beyond=Dying()) as service:
            with pytest.raises(Crash):
                await service.status_and_message("POST", RESTART)
            assert [trace.unfinished for trace in service.state.commands.values()] == [True]
        async with serving(log) as later:
            assert restarts(later) == []
            assert [trace.unfinished for trace in later.state.commands.values()] == [False]

    async def test_a_refused_restart_may_be_repeated(self, ours: AskedService) -> None:
        """A restart is refused only while another restart of the instance is running."""
        await ours.write_foreign(
            reported("orders", "RESTARTING"), reported("orders", "RESTARTING", 1)
        )
        assert (await ours.status_and_message("POST", RESTART))[0] == 409
        assert (await ours.status_and_message("POST", RESTART_1))[0] == 409
        await ours.write_foreign(reported("orders", "RUNNING"), reported("orders", "RUNNING", 1))
        assert (await ours.status_and_message("POST", RESTART))[0] == 204
        assert (await ours.status_and_message("POST", RESTART_1))[0] == 204


class TestCompatibility:
    """Compatibility, Deprecation, and Migration Plan."""

    async def test_a_pause_changes_no_other_endpoint(self, connect: AskedService) -> None:
        """Pausing does not change the answers of the endpoints that existed before."""
        base = "/connectors/orders"
        paths = ("/connectors", base, f"{base}/config", f"{base}/tasks", f"{base}/status")
        before = [await connect.shows(path) for path in paths]
        await connect.status_and_message("PUT", PAUSE)
        assert [await connect.shows(path) for path in paths] == before

    async def test_without_a_target_state_a_connector_is_started(
        self, connect: AskedService
    ) -> None:
        """A connector without a target state in the config topic is started."""
        assert not [key for key, _ in await connect.holds(CONFIG) if "target" in key]
        assert views.target(connect.state, "orders") is Target.STARTED

    @pytest.mark.parametrize("release", ["0.10.0", "2.8", "3.9", KIP])
    async def test_an_upgraded_cluster_begins_started(self, release: str) -> None:
        """Connectors from 0.9, which had no target states, are started in every later release."""
        async with serving(await running(), release) as service:
            assert service.state.config.targets == {
                "orders": Target.STARTED,
                "sales": Target.STARTED,
            }

    async def test_an_old_worker_ignores_the_record(self) -> None:
        """0.9 does not know the key: it ignores the record and keeps its state."""
        log = await running(target_state("orders", state="PAUSED"))
        fold = Fold(Profile.of("0.9"))
        *others, last = await entries(log, [CONFIG])
        fold.apply_all(others)
        before = fold.snapshot().config
        outcome = fold.apply(last)
        after = fold.snapshot().config
        assert outcome.kind.value == "ignored"
        assert (after.connectors, after.tasks, after.targets) == (
            before.connectors,
            before.tasks,
            before.targets,
        )

    @pytest.mark.parametrize("release", ["0.10.0", "2.8", "3.9", KIP])
    async def test_upgraded_workers_read_the_target_state(self, release: str) -> None:
        """Upgraded workers read a target state that was written during the upgrade."""
        log = await running(target_state("orders", state="PAUSED"), *published("orders", {}, {}))
        async with serving(log, release) as service:
            assert views.target(service.state, "orders") is Target.PAUSED

    @pytest.mark.parametrize(
        ("method", "target"),
        [("PUT", PAUSE), ("PUT", RESUME), ("POST", RESTART), ("POST", RESTART_1)],
    )
    async def test_older_releases_answer_404(self, method: str, target: str) -> None:
        """0.9 answers these paths with 404."""
        async with serving(await running(), "0.9") as old:
            assert await old.status_and_message(method, target) == (404, "HTTP 404 Not Found")


class TestWhereKafkaDiffers:
    """Public Interfaces – where Kafka went another way."""

    @pytest.mark.parametrize("release", ["0.10.0", "2.8", "3.9", "4.3", KIP])
    async def test_the_key_differs_from_the_kips(self, release: str) -> None:
        """The KIP calls the key connector-state; every release and our service use another."""
        async with serving(await running(), release) as service:
            await service.status_and_message("PUT", PAUSE)
            keys = {key for key, _ in await service.holds(CONFIG)}
        assert "target-state-orders" in keys
        assert "connector-state-orders" not in keys

    @pytest.mark.parametrize("release", ["3.0", "3.9", "4.3"])
    @pytest.mark.parametrize(("target", "task"), [(RESTART, None), (RESTART_1, 1)])
    async def test_a_second_restart_is_accepted(
        self, release: str, target: str, task: int | None
    ) -> None:
        """A release accepts a restart during another one: it does not check for a conflict."""
        log: MemoryLog = await running(reported("orders", "RESTARTING", task))
        async with serving(log, release) as service:
            assert (await service.status_and_message("POST", target))[0] == 204
