"""Restarts of connectors and tasks: their records, and refusals.

Labels such as R1 name laws: see `tests/laws/commands`.
"""

import msgspec
import pytest

from controlplane.core.commands import RestartConnector, RestartTask
from controlplane.core.decide.recovery import (
    INTERRUPTED,
    Recovery,
    RecoveryKind,
    ReportedFailure,
    recover,
)
from controlplane.core.entry import Entry
from controlplane.core.plan import Outcome, Plan, Reason, Rejected, RestartInstances
from controlplane.core.records import CommandAccepted
from tests.core.decisions import context_of, planned, refused, steps
from tests.core.logs import Pair, config, connector, read, report, status, tasks
from tests.core.offset_cases import SmallLog

A = connector("a")
STOPPED: Pair = ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}')
restart = RestartConnector("a")
with_tasks = RestartConnector("a", include_tasks=True)


def reported(*states: str) -> list[Entry]:
    """Statuses of the connector, and then of its tasks."""
    keys = ["status-connector-a", *(f"status-task-a-{task}" for task in range(len(states) - 1))]
    return status(*((key, report(state)) for key, state in zip(keys, states, strict=True)))


@pytest.mark.parametrize("release", ["0.10.0", "2.8", "3.9", "kip"])
def test_one_instance_is_restarted_where_it_runs(release: str) -> None:
    """R1: a restart of one instance writes no record, also for a STOPPED connector (R6)."""
    log = [A, *tasks("a", 2), STOPPED]
    plan = planned(log, restart, release)
    assert [step.action for step in plan.steps] == [RestartInstances("a", (None,))]
    assert steps(log, restart, release) == {"restart": []}
    plan = planned([A, *tasks("a", 2)], RestartTask("a", 1), release)
    assert [step.action for step in plan.steps] == [RestartInstances("a", (1,))]


FLAGS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("include_tasks", "only_failed"), FLAGS)
def test_several_instances_are_restarted_by_a_record(
    *, include_tasks: bool, only_failed: bool
) -> None:
    """A restart of several instances writes a record, which every worker obeys (KIP-745)."""
    log: SmallLog = [A, *reported("RUNNING")]
    command = RestartConnector("a", include_tasks, only_failed)
    value = f'{{"include-tasks":{include_tasks},"only-failed":{only_failed}}}'.lower()
    for release in ("3.0", "3.9", "kip"):
        assert steps(log, command, release) == {"restart": [f"restart-connector-a {value}"]}
    # Before 3.0 workers ignore both parameters, and restart the connector alone.
    assert steps(log, command, "2.8") == {"restart": []}


CONCERNED = [
    ((True, False), (None, 0, 1, 2)),
    ((True, True), (1,)),
    ((False, True), ()),
]


@pytest.mark.parametrize(("flags", "instances"), CONCERNED)
def test_the_answer_lists_the_restarted_instances(
    flags: tuple[bool, bool], instances: tuple[int | None, ...]
) -> None:
    """R4: the answer lists all or only failed instances; None stands for the connector itself."""
    log: SmallLog = [A, *reported("RUNNING", "RUNNING", "FAILED", "PAUSED")]
    outcome = planned(log, RestartConnector("a", *flags), "3.9").outcome
    assert outcome == Outcome(facts={"restarting": [*instances]})


def test_without_a_status_releases_write_first_and_refuse_then() -> None:
    """All workers read the request; the caller gets the error that there is no status."""
    rejected = Rejected(Reason.NO_STATUS, "Status for connector a not found")
    plan = planned([A], with_tasks, "3.9")
    assert [step.name for step in plan.steps] == ["restart"]
    assert plan.outcome == Outcome(refusal=rejected)
    assert refused([A], with_tasks) == rejected


@pytest.mark.parametrize("command", [restart, with_tasks, RestartTask("a", 0)])
@pytest.mark.parametrize("release", ["2.8", "3.9", "kip"])
def test_a_missing_connector_is_refused(
    command: RestartConnector | RestartTask, release: str
) -> None:
    """A connector that only has a status cannot be restarted."""
    gone = Rejected(Reason.NO_SUCH_CONNECTOR, "Unknown connector: a")
    assert refused(reported("RUNNING", "RUNNING"), command, release) == gone


@pytest.mark.parametrize("task", [1, -1])
@pytest.mark.parametrize("release", ["2.8", "3.9", "kip"])
def test_a_missing_task_is_refused(release: str, task: int) -> None:
    """Task numbers are those of the commit."""
    gone = Rejected(Reason.NO_SUCH_TASK, f"Unknown task: a-{task}")
    assert refused([A, *tasks("a", 1)], RestartTask("a", task), release) == gone


@pytest.mark.parametrize(
    "log",
    [
        [A, *tasks("a", 1), *tasks("a", 0), STOPPED],
        [A, *tasks("a", 1), ("commit-a", '{"tasks":2}')],
    ],
)
def test_releases_answer_409_for_tasks_without_a_worker(log: list[Pair]) -> None:
    """Releases look for the worker of a stopped connector's task; `kip` has no such task."""
    rejected = refused(log, RestartTask("a", 0), "3.9")
    assert rejected.reason is Reason.CONFLICT
    assert (rejected.text or "").endswith("likely because a rebalance was underway.")
    gone = Rejected(Reason.NO_SUCH_TASK, "Unknown task: a-0")
    assert refused(log, RestartTask("a", 0)) == gone


def test_a_restarting_instance_is_not_restarted_again() -> None:
    """KIP-52 requires a conflict; no release checks for it."""
    log: SmallLog = [A, *tasks("a", 2), *reported("RESTARTING", "RESTARTING", "RUNNING")]
    conflict = Rejected(Reason.CONFLICT, "Connector a is already being restarted")
    assert refused(log, restart) == conflict
    conflict = Rejected(Reason.CONFLICT, "Task a-0 is already being restarted")
    assert refused(log, RestartTask("a", 0)) == conflict
    assert planned(log, RestartTask("a", 1)).steps
    for command in (restart, RestartTask("a", 0)):
        assert planned(log, command, "3.9").steps


@pytest.mark.parametrize("command", [restart, RestartTask("a", 0)])
def test_releases_without_restarts_refuse_one(command: RestartConnector | RestartTask) -> None:
    """0.9 refuses restarts, which came with KIP-52."""
    assert refused([A], command, "0.9") == Rejected(Reason.NOT_OFFERED, None)


@pytest.mark.parametrize("command", [restart, with_tasks, RestartTask("a", 0)])
def test_an_interrupted_restart_has_failed(command: RestartConnector | RestartTask) -> None:
    """A restart that may never have happened is not repeated, and its stored end is a failure."""
    log = [*config(A, *tasks("a", 1)), *reported("RUNNING", "RUNNING")]
    plan = planned(log, command)
    accepted = CommandAccepted("id", 0, "me", *map(msgspec.to_builtins, (command, plan)))
    state = read(log, "kip")
    recovery = recover(state, accepted, context_of("kip"))
    assert recovery == Recovery(
        RecoveryKind.GIVEN_UP, Plan(()), Rejected(Reason.FAILED, INTERRUPTED)
    )
    reported_failure = recover(state, accepted, context_of("kip"), ReportedFailure("away", None))
    assert reported_failure.rejected == Rejected(Reason.FAILED, "away")
