"""Plans about offsets on the cluster of a source's producer (KIP-618)."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from controlplane.core import views
from controlplane.core.commands import CreateConnector, OffsetChange, RestoreConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.decide.recovery import RecoveryKind, ReportedFailure, recover
from controlplane.core.plan import (
    AskRemoteOffsets,
    FenceProducers,
    HookSuccess,
    Plan,
    Reason,
    Rejected,
    Step,
    WriteOffsets,
)
from controlplane.core.records import CommandAccepted, Target
from controlplane.core.releases.profiles import KIP
from controlplane.core.state import OffsetState
from controlplane.core.topics.remote_offsets import with_remote
from tests.core.decisions import PROPERTIES, context_of, decided, planned, refused, text
from tests.core.logs import config as config_records
from tests.core.logs import offsets, read, tasks
from tests.core.offset_cases import RESET, STOPPED, after, alter, connector, key, page

FAR = '"producer.override.bootstrap.servers":"far:9092"'
OWN = '"offsets.storage.topic":"own"'
NEAR = DecisionSettings(bootstrap_servers="near:9092")
SURE = HookSuccess(definite=True)
CLIENTS = {"producer.override.bootstrap.servers": "far:9092"}


def remote(*pairs: tuple[str, str | None]) -> OffsetState:
    """Offsets that the other cluster has."""
    values: dict[bytes | None, bytes | None]
    values = {at.encode(): None if value is None else value.encode() for at, value in pairs}
    return OffsetState(values)


def answered(*pairs: tuple[str, str | None], **further: Any) -> dict[str, Any]:
    """Inputs of a decision that has asked all its questions."""
    return {"worker": NEAR, "remote": remote(*pairs), "hooks": (SURE, SURE)} | further


def step_records(plan: Plan) -> list[tuple[str, list[str]]]:
    """Step names and records of a plan in order; those for the other cluster begin with `@`."""
    return [(step.name, [*_records(step)]) for step in plan.steps]


def _records(step: Step) -> list[str]:
    if isinstance(step.action, WriteOffsets):
        return [f"@{draft.topic} {text((draft.key, draft.value))}" for draft in step.action.records]
    return [f"{draft.topic} {text((draft.key, draft.value))}" for draft in step.records]


COPY = offsets((key(0), '{"row":1}'), (key(1), '{"row":9}'))


def test_values_go_to_the_other_cluster_first() -> None:
    """The copy in the worker's topic comes last, and may fail."""
    plan = planned([connector(FAR, OWN), STOPPED], alter((page(0), {"row": 7})), **answered())
    assert step_records(plan) == [
        ("write", [f'@own {key(0)} {{"row":7}}']),
        ("write-copy", [f'connect-offsets {key(0)} {{"row":7}}']),
    ]
    assert [step.best_effort for step in plan.steps] == [False, True]
    action = plan.steps[0].action
    assert isinstance(action, WriteOffsets)
    assert (action.connector, dict(action.clients), action.transactional_id) == ("a", CLIENTS, "")


def test_a_reset_removes_the_copy_first() -> None:
    """Every partition of both clusters is removed; a crash revives no old offset (KAFKA-15018)."""
    log = after([connector(FAR, OWN), STOPPED], *COPY)
    plan = planned(log, RESET, **answered((key(0), '{"row":5}'), (key(2), '{"row":2}')))
    assert step_records(plan) == [
        ("wipe-copy", [f"connect-offsets {key(number)} " for number in (0, 1, 2)]),
        ("wipe", [f"@own {key(number)} " for number in (0, 1, 2)]),
    ]
    assert plan.commit_point == "wipe"


def test_a_reset_without_offsets_has_no_steps() -> None:
    """The plan is empty if both clusters have no offset of the connector."""
    assert planned([connector(FAR, OWN), STOPPED], RESET, **answered()).steps == ()


def test_exactly_once_writes_a_transaction_of_the_first_task() -> None:
    """The transactional id is that of task 0.

    Without `offsets.storage.topic`, the topic has the same name on both clusters.
    """
    log = [connector(FAR), STOPPED]
    plan = planned(log, alter((page(0), None)), exactly_once=True, **answered())
    assert step_records(plan) == [
        ("wipe-copy", [f"connect-offsets {key(0)} "]),
        ("write", [f"@connect-offsets {key(0)} "]),
    ]
    action = plan.steps[1].action
    assert isinstance(action, WriteOffsets)
    assert action.transactional_id == "connect-cluster-a-0"


def test_brokers_of_the_workers_producers_select_the_cluster() -> None:
    """A connector's override wins over `producer.bootstrap.servers` of the worker."""
    worker = DecisionSettings(
        bootstrap_servers="near:9092", producer_bootstrap_servers="other:9092"
    )
    question = decided([connector(OWN), STOPPED], RESET, worker=worker)
    assert question == AskRemoteOffsets("a", "own", "other:9092", {})
    near = '"producer.override.bootstrap.servers":"near:9092"'
    assert isinstance(
        decided([connector(near, OWN), STOPPED], RESET, "kip", worker=worker, hooks=(SURE,)), Plan
    )


def test_a_creation_can_be_taken_back() -> None:
    """The undo of each step writes to the same cluster as the step."""
    config = PROPERTIES | CLIENTS | {"offsets.storage.topic": "own"}
    command = CreateConnector("a", config, initial_offsets=(OffsetChange(page(0), {"row": 1}),))
    plan = planned(COPY, command, **answered((key(2), '{"row":2}')))
    assert [name for name, _ in step_records(plan)] == [
        *("wipe-copy", "wipe", "write", "write-copy", "create")
    ]
    undone = {step.name: _records(step.undo) for step in plan.steps if step.undo is not None}
    assert undone["wipe"] == [f"@own {key(number)} " for number in (0, 1, 2)]
    assert undone["write"] == [f"@own {key(0)} "]
    assert undone["write-copy"] == [f"connect-offsets {key(0)} "]


@pytest.mark.parametrize("fails", [False, True])
def test_recovery_repeats_the_accepted_plan(fails: bool) -> None:
    """Recovery cannot read the other cluster, so the plan has the partitions to remove.

    If the client has got an error, recovery undoes the steps instead.
    """
    config = PROPERTIES | CLIENTS | {"offsets.storage.topic": "own"}
    command = CreateConnector("a", config, initial_offsets=(OffsetChange(page(0), {"row": 1}),))
    settings = answered((key(2), '{"row":2}'))
    plan = planned(COPY, command, **settings)
    parts = map(msgspec.to_builtins, (command, plan))
    accepted = CommandAccepted("id", 0, "me", *parts)
    failed = ReportedFailure("away", "wipe") if fails else None
    recovery = recover(read(COPY, KIP), accepted, context_of(KIP, worker=NEAR), failed)
    kinds = RecoveryKind.TAKEN_BACK, RecoveryKind.REPEATED
    assert recovery.ending is kinds[0 if fails else 1]
    assert recovery.plan.steps == (plan.steps[:2] if fails else plan.steps)


def test_readers_prefer_the_other_cluster() -> None:
    """The copy supplies a partition that the other cluster lacks."""
    copies = offsets((key(0), '{"row":1}'), (key(1), "{}"))
    log = [*config_records(connector(FAR, OWN)), *copies]
    state = with_remote(read(log, KIP), "own", remote((key(0), '{"row":5}')))
    shown = {view.raw: view.offset for view in views.source_offsets(state, "a")}
    assert shown == {key(0).encode(): {"row": 5}, key(1).encode(): {}}
    assert views.offsets_topics(state, "a") == ["@own", "connect-offsets"]


def test_an_undo_of_offsets_on_another_cluster_is_refused() -> None:
    """The log has no earlier values of these offsets."""
    log = after([connector(FAR, OWN), STOPPED], *COPY)
    config = {
        "connector.class": PROPERTIES["connector.class"],
        **CLIENTS,
        "offsets.storage.topic": "own",
    }
    command = RestoreConnector("a", config, Target.STOPPED, (OffsetChange(page(0), {"row": 0}),))
    refusal = refused(log, command, worker=NEAR)
    assert refusal.reason is Reason.INVALID
    assert "which writes them to its producer's cluster" in str(refusal.text)


def test_zombies_are_fenced_on_the_cluster_of_their_producers() -> None:
    """The action has the connector's client overrides if they name another cluster."""
    log = [
        connector(FAR),
        *tasks("a", 2),
        ("tasks-fencing-a", '{"task-count":2}'),
        *tasks("a", 0),
        STOPPED,
    ]
    settings = answered()
    plan = planned(log, alter((page(0), None)), exactly_once=True, **settings)
    (fence,) = [step.action for step in plan.steps if isinstance(step.action, FenceProducers)]
    assert fence.transactional_ids == ("connect-cluster-a-0", "connect-cluster-a-1")
    assert fence.clients == CLIENTS
    near = planned(log, alter((page(0), None)), exactly_once=True, hooks=(SURE,))
    (fence,) = [step.action for step in near.steps if isinstance(step.action, FenceProducers)]
    assert fence.clients is UNSET


def test_zombies_of_a_deleted_connector_are_fenced_on_their_cluster() -> None:
    """A creation with initial offsets takes the overrides from the new config."""
    far = [connector(FAR), *tasks("a", 2), ("tasks-fencing-a", '{"task-count":2}')]
    log = [*far, ("connector-a", None), ("target-state-a", None)]
    create = CreateConnector(
        "a", {**PROPERTIES, **CLIENTS}, None, (OffsetChange(page(0), {"row": 1}),)
    )
    plan = planned(log, create, exactly_once=True, **answered())
    (fence,) = [step.action for step in plan.steps if isinstance(step.action, FenceProducers)]
    assert fence.clients == CLIENTS


def test_a_plane_of_one_cluster_refuses() -> None:
    """The refusal names the brokers."""
    question = decided([connector(FAR, OWN), STOPPED], RESET, worker=NEAR)
    assert isinstance(question, AskRemoteOffsets)
    assert isinstance(question.refusal, Rejected)
    assert "lie on another Kafka cluster, far:9092:" in str(question.refusal.text)
