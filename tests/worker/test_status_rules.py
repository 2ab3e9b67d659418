"""Reports of connectors and tasks: which event writes which status, and how.

A *put* status is written always. A *safe* one is not written over a status of a newer worker
(`tests/laws/test_worker_reports.py`). The events are those of Kafka's `StatusBackingStore` and of
its listeners.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.logs.memory import MemoryLog
from controlplane.worker.worker import ConnectWorker
from tests.worker.bad_connectors import SHORT, BadSource, plan, released
from tests.worker.noted_reports import reported, reports, until_reported
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import config_of, running, until

pytestmark = pytest.mark.usefixtures("noted_reports")


class CalledSource(BadSource):
    """A BadSource whose newest instance the test may call."""

    newest: "CalledSource"

    def start(self, *arguments: Any) -> Any:
        """Keep the instance."""
        CalledSource.newest = self
        return super().start(*arguments)


CONFIG = config_of(CalledSource)

COMMANDS: dict[str, AnyCommand] = {
    "create": CreateConnector("bad", CONFIG),
    "pause": PauseConnector("bad"),
    "resume": ResumeConnector("bad"),
    "stop": StopConnector("bad"),
    "restart": RestartConnector("bad"),
    "restart task": RestartTask("bad", 0),
    "restart all": RestartConnector("bad", include_tasks=True),
    "restart failed": RestartConnector("bad", include_tasks=True, only_failed=True),
    "reconfigure": PutConfig("bad", CONFIG | {"other": "1"}),
    "delete": DeleteConnector("bad"),
}


async def act(worker: ConnectWorker, event: str) -> None:
    """Carry out a command, or let the connector act."""
    if event == "fail":
        CalledSource.newest.context.fail(ValueError("found by the connector"))
    elif event == "release":
        released.set()
    else:
        await worker.plane.execute(COMMANDS[event])


class Step(NamedTuple):
    """An event, and the reports that it causes."""

    event: str
    connector: Sequence[str] = ()
    task: Sequence[str] = ()


class Rule(NamedTuple):
    """Steps of a connector, which may misbehave."""

    steps: Sequence[Step]
    where: str = ""
    """Method that misbehaves."""
    how: str = "raise"
    returned: Any = None


RUNNING, PAUSED, STOPPED = ["RUNNING put"], ["PAUSED put"], ["STOPPED put"]
UNASSIGNED, FAILED = ["UNASSIGNED safe"], ["FAILED safe, with trace"]
RESTARTING, REMOVED = ["RESTARTING put"], ["removed"]

CREATED = Step("create", RUNNING, RUNNING)
PAUSE = Step("pause", PAUSED, PAUSED)

RULES = {
    "started": Rule([CREATED]),
    "paused and resumed": Rule([CREATED, PAUSE, Step("resume", RUNNING, RUNNING)]),
    "stopped": Rule([CREATED, Step("stop", STOPPED, UNASSIGNED + REMOVED)]),
    "stopped with an error": Rule(
        [CREATED, Step("stop", STOPPED, UNASSIGNED + REMOVED)], "connector.stop"
    ),
    "stopped after a failure": Rule(
        [Step("create", FAILED), Step("stop", STOPPED)], "connector.start"
    ),
    "connector fails in its start": Rule([Step("create", FAILED)], "connector.start"),
    "connector fails in a pause": Rule([CREATED, Step("pause", FAILED, PAUSED)], "connector.stop"),
    "connector reports a failure": Rule([CREATED, Step("fail", FAILED)]),
    "connector has too many tasks": Rule(
        [Step("create", RUNNING + FAILED)], "connector.task_configs", "return", [{}, {}]
    ),
    "connector restarted": Rule([CREATED, Step("restart", UNASSIGNED + RUNNING)]),
    "connector restarted, with an error in its stop": Rule(
        [CREATED, Step("restart", FAILED + RUNNING)], "connector.stop"
    ),
    "connector cancelled": Rule(
        [CREATED, Step("restart", UNASSIGNED + RUNNING), Step("release")], "connector.stop", "hang"
    ),
    "reconfigured": Rule(
        [CREATED, Step("reconfigure", UNASSIGNED + RUNNING, UNASSIGNED + RUNNING)]
    ),
    "task cannot be made": Rule([Step("create", RUNNING, FAILED)], "task.init"),
    "task fails in its start": Rule([Step("create", RUNNING, FAILED)], "task.start"),
    "task fails": Rule([Step("create", RUNNING, RUNNING + FAILED)], "task.poll"),
    "task created while paused": Rule(
        [
            CREATED,
            PAUSE,
            Step("restart task", task=UNASSIGNED + PAUSED),
            Step("resume", RUNNING, RUNNING),
        ]
    ),
    "task restarted": Rule([CREATED, Step("restart task", task=UNASSIGNED + RUNNING)]),
    "task restarted, with an error in its stop": Rule(
        [CREATED, Step("restart task", task=UNASSIGNED + RUNNING)], "task.stop"
    ),
    "task cancelled": Rule(
        [CREATED, Step("restart task", task=RUNNING), Step("release")], "task.poll", "hang"
    ),
    "restart with tasks": Rule(
        [
            CREATED,
            Step(
                "restart all", UNASSIGNED + RESTARTING + RUNNING, UNASSIGNED + RESTARTING + RUNNING
            ),
        ]
    ),
    "restart of a failed task": Rule(
        [
            Step("create", RUNNING, RUNNING + FAILED),
            Step("restart failed", task=RESTARTING + RUNNING + FAILED),
        ],
        "task.poll",
    ),
    "restart of a failed connector": Rule(
        [
            CREATED,
            Step("fail", FAILED),
            Step("restart failed", UNASSIGNED + RESTARTING + RUNNING),
            Step("restart task", task=UNASSIGNED + RUNNING),
        ]
    ),
    "restart of failed instances, of which there are none": Rule(
        [CREATED, Step("restart failed"), Step("restart task", task=UNASSIGNED + RUNNING)]
    ),
    "restart of a paused connector": Rule(
        [
            CREATED,
            PAUSE,
            Step("restart all", UNASSIGNED + RESTARTING + PAUSED, UNASSIGNED + RESTARTING + PAUSED),
        ]
    ),
    "deleted": Rule([CREATED, Step("delete", UNASSIGNED + REMOVED, UNASSIGNED + REMOVED)]),
}
"""Rules by their event (KIP-745: the restarts with RESTARTING)."""


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
async def test_each_event_has_its_reports(rule: Rule) -> None:
    """Each event causes these reports and no others; FAILED alone has a trace."""
    if rule.where:
        plan.update(where=rule.where, how=rule.how, returned=rule.returned)
    expected: dict[str, list[str]] = {"connector": [], "task 0": []}
    async with running(CalledSource, runtime=SHORT) as worker:
        for step in rule.steps:
            await act(worker, step.event)
            for instance, caused in (("connector", step.connector), ("task 0", step.task)):
                expected[instance] += caused
                await until_reported(instance, expected[instance])
        plan.clear()
        released.set()
    for instance, caused in expected.items():
        last = reported(instance)[len(caused) :]
        assert last in ([], UNASSIGNED), f"{instance} at the end of its worker"


async def test_the_end_of_a_worker_unassigns() -> None:
    """A worker that ends reports its connectors and tasks as UNASSIGNED, safely."""
    async with running(CalledSource, runtime=SHORT) as worker:
        await act(worker, "create")
        await until_reported("connector", RUNNING)
        await until_reported("task 0", RUNNING)
    assert reported("connector") == reported("task 0") == RUNNING + UNASSIGNED


async def test_a_class_that_cannot_run_here_fails_safely() -> None:
    """A worker without the class reports connector and task as FAILED."""
    log = MemoryLog()
    async with running(CalledSource, runtime=SHORT, log=log) as worker:
        await act(worker, "create")
        await until_reported("task 0", RUNNING)
    reports.clear()
    async with running(CountingSource, runtime=SHORT, log=log):
        await until_reported("connector", FAILED)
        await until_reported("task 0", FAILED)


async def test_statuses_of_tasks_are_removed_before_that_of_their_connector() -> None:
    """A deletion removes the statuses of the tasks first."""
    plan.update(where="connector.task_configs", how="return", returned=[{}, {}])
    async with running(CalledSource, runtime=SHORT) as worker:
        await worker.plane.execute(CreateConnector("bad", CONFIG | {"tasks.max": "2"}))
        await until_reported("task 1", RUNNING)
        await act(worker, "delete")
        await until(lambda: "removed" in reported("connector"))
    removed = [instance for instance, report in reports if report == "removed"]
    assert removed == ["task 0", "task 1", "connector"]


async def test_the_status_of_a_task_beyond_the_new_number_is_removed() -> None:
    """A task that the connector has no more loses its status; the other one keeps it."""
    plan.update(where="connector.task_configs", how="return", returned=[{}, {}])
    config = CONFIG | {"tasks.max": "2"}
    async with running(CalledSource, runtime=SHORT) as worker:
        await worker.plane.execute(CreateConnector("bad", config))
        await until_reported("task 0", RUNNING)
        await until_reported("task 1", RUNNING)
        plan.update(returned=[{}])
        await worker.plane.execute(PutConfig("bad", config | {"other": "1"}))
        await until_reported("task 0", RUNNING + UNASSIGNED + RUNNING)
        await until_reported("task 1", RUNNING + UNASSIGNED + REMOVED)
