"""Reports of connectors and tasks: which event writes which status, and how.

A *put* status is written always. A *safe* one is not written over a status of a newer worker
(`tests/laws/test_worker_reports.py`). Kafka: `AbstractHerder`, `StatusBackingStore#putSafe`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
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
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.worker import failure_reader
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import (
    SHORT,
    BadSource,
    BlockingText,
    blocked,
    ended,
    plan,
    released,
)
from tests.worker.noted_reports import reported, reports, until_reported
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import QUICK, config_of, running, until

pytestmark = pytest.mark.usefixtures("noted_reports")


class CalledSource(BadSource):
    """A BadSource whose newest instance the test may call.

    If the plan is `connector.METHOD fails`, that method reports a failure and returns. `returned`
    is the class of the failure.
    """

    newest: "CalledSource"

    def start(self, *arguments: Any) -> Any:
        """Keep the instance."""
        CalledSource.newest = self
        self._fail_as_planned("start")
        return super().start(*arguments)

    def stop(self) -> Any:
        """Report a failure if the plan says so."""
        self._fail_as_planned("stop")
        return super().stop()

    def _fail_as_planned(self, method: str) -> None:
        if plan.get("where") == f"connector.{method} fails":
            failure = plan["returned"] or ValueError
            self.context.fail(failure(f"found by {method}"))


PATIENT = msgspec.structs.replace(
    QUICK,
    task_shutdown_graceful_timeout_ms=1_000 * PATIENCE_S,
    connector_stop_timeout_ms=1_000 * PATIENCE_S,
)
"""Worker settings under which load alone abandons no task or connector."""

CONFIG = config_of(CalledSource)

COMMANDS: dict[str, AnyCommand] = {
    "create": CreateConnector("bad", CONFIG),
    "create paused": CreateConnector("bad", CONFIG, initial_state=Target.PAUSED),
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


class ReportStep(NamedTuple):
    """An event, and the reports that it causes."""

    event: str
    connector: Sequence[str] = ()
    task: Sequence[str] = ()


class StatusRule(NamedTuple):
    """Steps of a connector, which may misbehave."""

    steps: Sequence[ReportStep]
    where: str = ""
    """Method that misbehaves."""
    how: str = "raise"
    returned: Any = None


RUNNING, PAUSED, STOPPED = ["RUNNING put"], ["PAUSED put"], ["STOPPED put"]
UNASSIGNED, FAILED = ["UNASSIGNED safe"], ["FAILED safe, with trace"]
RESTARTING, REMOVED = ["RESTARTING put"], ["removed"]

CREATED = ReportStep("create", RUNNING, RUNNING)
PAUSE = ReportStep("pause", PAUSED, PAUSED)

RULES = {
    "started": StatusRule([CREATED]),
    "created while paused": StatusRule(
        [ReportStep("create paused", PAUSED), ReportStep("resume", RUNNING, RUNNING)]
    ),
    "paused and resumed": StatusRule([CREATED, PAUSE, ReportStep("resume", RUNNING, RUNNING)]),
    "stopped": StatusRule([CREATED, ReportStep("stop", STOPPED, UNASSIGNED + REMOVED)]),
    "stopped with an error": StatusRule(
        [CREATED, ReportStep("stop", STOPPED, UNASSIGNED + REMOVED)], "connector.stop"
    ),
    "stopped after a failure": StatusRule(
        [ReportStep("create", FAILED), ReportStep("stop", STOPPED)], "connector.start"
    ),
    "connector fails in its start": StatusRule([ReportStep("create", FAILED)], "connector.start"),
    "connector fails in a pause": StatusRule(
        [CREATED, ReportStep("pause", FAILED, PAUSED)], "connector.stop"
    ),
    "connector reports a failure": StatusRule([CREATED, ReportStep("fail", FAILED)]),
    "connector reports a failure in its start": StatusRule(
        [
            ReportStep("create", FAILED),
            ReportStep("pause"),
            ReportStep("stop", STOPPED),
            ReportStep("resume", FAILED),
        ],
        "connector.start fails",
    ),
    "connector reports a failure in a pause": StatusRule(
        [
            CREATED,
            ReportStep("pause", FAILED, PAUSED),
            ReportStep("resume", task=RUNNING),
            ReportStep("restart", UNASSIGNED + RUNNING),
        ],
        "connector.stop fails",
    ),
    # Its text is read until the connector has stopped: before, the failure could be reported.
    "connector reports a failure in its stop": StatusRule(
        [CREATED, ReportStep("stop", STOPPED, UNASSIGNED + REMOVED)],
        "connector.stop fails",
        returned=BlockingText,
    ),
    "connector has too many tasks": StatusRule(
        [ReportStep("create", RUNNING + FAILED)], "connector.task_configs", "return", [{}, {}]
    ),
    "connector restarted": StatusRule([CREATED, ReportStep("restart", UNASSIGNED + RUNNING)]),
    "connector restarted, with an error in its stop": StatusRule(
        [CREATED, ReportStep("restart", FAILED + RUNNING)], "connector.stop"
    ),
    "connector cancelled": StatusRule(
        [CREATED, ReportStep("restart", UNASSIGNED + RUNNING), ReportStep("release")],
        "connector.stop",
        "hang",
    ),
    "reconfigured": StatusRule(
        [CREATED, ReportStep("reconfigure", UNASSIGNED + RUNNING, UNASSIGNED + RUNNING)]
    ),
    "task cannot be made": StatusRule([ReportStep("create", RUNNING, FAILED)], "task.init"),
    "task fails in its start": StatusRule([ReportStep("create", RUNNING, FAILED)], "task.start"),
    "task fails": StatusRule([ReportStep("create", RUNNING, RUNNING + FAILED)], "task.poll"),
    "task created while paused": StatusRule(
        [
            CREATED,
            PAUSE,
            ReportStep("restart task", task=UNASSIGNED + PAUSED),
            ReportStep("resume", RUNNING, RUNNING),
        ]
    ),
    "task restarted": StatusRule([CREATED, ReportStep("restart task", task=UNASSIGNED + RUNNING)]),
    "task restarted, with an error in its stop": StatusRule(
        [CREATED, ReportStep("restart task", task=UNASSIGNED + RUNNING)], "task.stop"
    ),
    "task cancelled": StatusRule(
        [CREATED, ReportStep("restart task", task=RUNNING), ReportStep("release")],
        "task.poll",
        "hang",
    ),
    "restart with tasks": StatusRule(
        [
            CREATED,
            ReportStep(
                "restart all", UNASSIGNED + RESTARTING + RUNNING, UNASSIGNED + RESTARTING + RUNNING
            ),
        ]
    ),
    "restart of a failed task": StatusRule(
        [
            ReportStep("create", RUNNING, RUNNING + FAILED),
            ReportStep("restart failed", task=RESTARTING + RUNNING + FAILED),
        ],
        "task.poll",
    ),
    "restart of a failed connector": StatusRule(
        [
            CREATED,
            ReportStep("fail", FAILED),
            ReportStep("restart failed", UNASSIGNED + RESTARTING + RUNNING),
            ReportStep("restart task", task=UNASSIGNED + RUNNING),
        ]
    ),
    "restart of failed instances, of which there are none": StatusRule(
        [
            CREATED,
            ReportStep("restart failed"),
            ReportStep("restart task", task=UNASSIGNED + RUNNING),
        ]
    ),
    "restart of a paused connector": StatusRule(
        [
            CREATED,
            PAUSE,
            ReportStep(
                "restart all", UNASSIGNED + RESTARTING + PAUSED, UNASSIGNED + RESTARTING + PAUSED
            ),
        ]
    ),
    "deleted": StatusRule(
        [CREATED, ReportStep("delete", UNASSIGNED + REMOVED, UNASSIGNED + REMOVED)]
    ),
}
"""Rules by their event (KIP-745: the restarts with RESTARTING)."""


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
async def test_each_event_has_its_reports(
    rule: StatusRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event causes these reports and no others; FAILED alone has a trace."""
    monkeypatch.setattr(failure_reader, "TIMEOUT_S", PATIENCE_S)
    if rule.where:
        plan.update(where=rule.where, how=rule.how, returned=rule.returned)
    expected: dict[str, list[str]] = {"connector": [], "task 0": []}
    runtime = SHORT if rule.how == "hang" else PATIENT
    async with running(CalledSource, runtime=runtime) as worker:
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
    async with running(CalledSource, runtime=PATIENT) as worker:
        await act(worker, "create")
        await until_reported("connector", RUNNING)
        await until_reported("task 0", RUNNING)
    assert reported("connector") == reported("task 0") == RUNNING + UNASSIGNED


async def test_a_connector_that_is_abandoned_in_its_stop_reports_nothing() -> None:
    """A connector whose worker is replaced while it stops reports nothing once it has stopped."""
    plan.update(where="connector.stop", how="hang")
    async with running(CalledSource) as worker:
        await act(worker, "create")
        await until_reported("connector", RUNNING)
        await until_reported("task 0", RUNNING)
        await act(worker, "delete")
        await until(lambda: blocked)
        worker._abandon()
        released.set()
        await until(lambda: ended)
        await asyncio.sleep(0.05)
    assert reported("connector") == RUNNING


async def test_a_class_that_cannot_run_here_fails_safely() -> None:
    """A worker without the class reports connector and task as FAILED."""
    log = MemoryLog()
    async with running(CalledSource, runtime=PATIENT, log=log) as worker:
        await act(worker, "create")
        await until_reported("task 0", RUNNING)
    reports.clear()
    async with running(CountingSource, runtime=PATIENT, log=log):
        await until_reported("connector", FAILED)
        await until_reported("task 0", FAILED)


async def test_statuses_of_tasks_are_removed_before_that_of_their_connector() -> None:
    """A deletion removes the statuses of the tasks first."""
    plan.update(where="connector.task_configs", how="return", returned=[{}, {}])
    async with running(CalledSource, runtime=PATIENT) as worker:
        await worker.plane.execute(CreateConnector("bad", CONFIG | {"tasks.max": "2"}))
        await until_reported("task 1", RUNNING)
        await act(worker, "delete")
        await until(lambda: "removed" in reported("connector"))
    removed = [instance for instance, report in reports if report == "removed"]
    assert removed == ["task 0", "task 1", "connector"]


async def test_the_status_of_a_task_beyond_the_new_number_is_removed() -> None:
    """The status of a task that no longer exists is removed; the other task keeps its status."""
    plan.update(where="connector.task_configs", how="return", returned=[{}, {}])
    config = CONFIG | {"tasks.max": "2"}
    async with running(CalledSource, runtime=PATIENT) as worker:
        await worker.plane.execute(CreateConnector("bad", config))
        await until_reported("task 0", RUNNING)
        await until_reported("task 1", RUNNING)
        plan.update(returned=[{}])
        await worker.plane.execute(PutConfig("bad", config | {"other": "1"}))
        await until_reported("task 0", RUNNING + UNASSIGNED + RUNNING)
        await until_reported("task 1", RUNNING + UNASSIGNED + REMOVED)
