"""Completes the outcome of a plan with everything that its answer shows.

A repeated idempotency key gets the first answer again, whatever has happened since. So the answer
is computed from the state of the decision and the records of the plan. It is stored with the record
that marks the command as finished.
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
from controlplane.core.fold.config import ConfigFold
from controlplane.core.plan import (
    ConnectorAfterCommand,
    LeftStatus,
    Outcome,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState, ConfigState


def with_complete_outcome(
    state: ClusterState, command: AnyCommand, plan: Plan, plugins: Plugins
) -> Plan:
    """The plan with its complete answer in the outcome; `state` is the one it was decided on."""
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


def _after(state: ClusterState, connector: str, plan: Plan) -> ClusterState:
    """State after the plan, for one connector alone: copying all of them would cost more."""
    fold = ConfigFold(state.profile)
    fold.adopt(_alone(state.config, connector))
    drafts = (draft for step in plan.steps for draft in step.records)
    for draft in drafts:
        if draft.topic == state.topics.config:
            fold.apply(Entry(draft.topic, 0, -1, -1, draft.key, draft.value))
    return msgspec.structs.replace(state, config=fold.publish())


def _alone(config: ConfigState, connector: str) -> ConfigState:
    """The connector's rows of the config tables."""
    tables = msgspec.structs.asdict(config).items()
    rows = {
        name: {connector: table[connector]} if connector in table else {}
        for name, table in tables
        if isinstance(table, Mapping)
    }
    return msgspec.structs.replace(config, **rows)


_Complete = Callable[[Outcome, ClusterState, str, Plugins], Outcome]


def _with_connector(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    view = views.connector(after, name, plugins)
    if view is None:
        return outcome
    left = ConnectorAfterCommand(view.config, len(view.tasks), view.type)
    return msgspec.structs.replace(outcome, connector=left)


def _with_status(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    if "restarting" not in outcome.facts:
        return outcome
    view = views.status(after, name, plugins)
    assert view is not None  # else nothing would be restarted
    left = LeftStatus(view.type, view.connector, tuple(view.tasks.items()))
    return msgspec.structs.replace(outcome, status=left)


_COMPLETE: Mapping[type, _Complete] = {
    CreateConnector: _with_connector,
    PutConfig: _with_connector,
    PatchConfig: _with_connector,
    RestoreConnector: _with_connector,
    RestartConnector: _with_status,
}
"""Commands whose answer shows more than their plan contains."""
