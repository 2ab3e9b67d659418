"""Completes the outcome of a plan with everything that its answer shows.

A repeated idempotency key gets the first answer again, whatever has happened since. So the answer
is computed from the state of the decision and the records of the plan, and is stored with the
record that says that the command has finished.
"""

from collections.abc import Callable, Mapping

import msgspec

from controlplane.core import views
from controlplane.core.commands import (
    AnyCommand,
    ConnectorCommand,
    CreateConnector,
    PatchConfig,
    PutConfig,
    RestartConnector,
    RestoreConnector,
)
from controlplane.core.entry import Entry
from controlplane.core.evolve.config import ConfigFold
from controlplane.core.plan import LeftConnector, LeftStatus, Outcome, Plan, Reason, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState, ConfigState


def answered(state: ClusterState, command: AnyCommand, plan: Plan, plugins: Plugins) -> Plan:
    """The plan with an outcome that holds all of its answer; `state` is what it was decided on."""
    outcome = msgspec.structs.replace(plan.outcome, release=state.profile.release)
    complete = _COMPLETE.get(type(command))
    if complete is not None and outcome.refusal is None:
        assert isinstance(command, ConnectorCommand)
        after = _after(state, command.connector, plan)
        try:
            outcome = complete(outcome, after, command.connector, plugins)
        except views.ReadFailed as error:  # a worker writes first, and then fails to answer
            refusal = Rejected(Reason.FAILED, str(error))
            outcome = msgspec.structs.replace(outcome, refusal=refusal)
    return msgspec.structs.replace(plan, outcome=outcome)


def without_answer(outcome: Outcome) -> Outcome:
    """The outcome as it was decided, without what `answered` has added."""
    return msgspec.structs.replace(outcome, release=None, connector=None, status=None)


def _after(state: ClusterState, connector: str, plan: Plan) -> ClusterState:
    """The state after the plan, of one connector alone: a copy of all of them would cost more."""
    fold = ConfigFold(state.profile)
    fold.adopt(_alone(state.config, connector))
    drafts = (draft for step in plan.steps for draft in step.records)
    for draft in drafts:
        if draft.topic == state.topics.config:
            fold.apply(Entry(draft.topic, 0, -1, -1, draft.key, draft.value))
    return msgspec.structs.replace(state, config=fold.publish())


def _alone(config: ConfigState, connector: str) -> ConfigState:
    """The rows of one connector."""
    tables = msgspec.structs.asdict(config).items()
    rows = {
        name: {connector: table[connector]} if connector in table else {}
        for name, table in tables
        if isinstance(table, Mapping)
    }
    return msgspec.structs.replace(config, **rows)


_Complete = Callable[[Outcome, ClusterState, str, Plugins], Outcome]


def _with_connector(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    found = views.connector(after, name, plugins)
    if found is None:
        return outcome
    left = LeftConnector(found.config, len(found.tasks), found.type)
    return msgspec.structs.replace(outcome, connector=left)


def _with_status(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    if "restarting" not in outcome.facts:
        return outcome
    found = views.status(after, name, plugins)
    assert found is not None  # else nothing would be restarted
    left = LeftStatus(found.type, found.connector, tuple(found.tasks.items()))
    return msgspec.structs.replace(outcome, status=left)


_COMPLETE: Mapping[type, _Complete] = {
    CreateConnector: _with_connector,
    PutConfig: _with_connector,
    PatchConfig: _with_connector,
    RestoreConnector: _with_connector,
    RestartConnector: _with_status,
}
"""Commands whose answer shows more than their plan says."""
