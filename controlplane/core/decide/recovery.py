"""Decides the fate of a command that was accepted but never finished, as when a leader died.

Every step of a plan may be repeated, so most commands simply run again from their first step. There
are six exceptions:

1. A creation or deletion that has taken effect is only finished: the steps after its commit point
   run.
2. A command that would be refused now, because the connector has changed since, is given up.
3. An undo (`RestoreConnector`) is decided anew. It describes a goal, so the present state
   determines what is left to do. If the connector has been started since, the new plan stops it
   before it writes offsets.
4. A restart is never repeated. It is an event, and its client, which got no success, may repeat it.
5. A creation with initial offsets is decided anew: it must also remove the offsets that were
   written since. It is taken back (KIP-995) in two cases:
   - No such connector exists, and the creation would be refused now, for example because its class
     is gone.
   - No leader died: the log was unavailable for so long that the client got an error.
6. A put or patch whose config the connector already has is only finished, even if it would be
   refused now. A refusal is possible because recovery decides by the rules of the leader's release.
   The client may have chosen another release for its request (`?profile=3.9`), and the config may
   be valid there.

A command that the present leader's release lacks is still completed, under the `kip` profile.
"""

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from controlplane.core import commands
from controlplane.core.codec.offsets import frozen
from controlplane.core.commands import AnyCommand, CommandRequest
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.java.java_library import patched_hash_map
from controlplane.core.plan import (
    AskGroup,
    AskRemoteOffsets,
    Decision,
    HookSuccess,
    Plan,
    Reason,
    Rejected,
    Step,
    WriteOffsets,
)
from controlplane.core.records import CommandAccepted
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState, OffsetState

INTERRUPTED = "interrupted: the worker ended before the command did"
"""Message of a command that is not run again."""


class RecoveryKind(Enum):
    """Ways in which an unfinished command ends."""

    REPEATED = "repeated"
    FINISHED = "finished"
    GIVEN_UP = "given up"
    TAKEN_BACK = "taken back"


class Recovery(msgspec.Struct, frozen=True):
    """Decision on an unfinished command. A plan without steps ends it at once."""

    ending: RecoveryKind
    plan: Plan
    """Steps to run, or to take back."""
    rejected: Rejected | None = None
    """Reason for giving up or taking back."""


class ReportedFailure(msgspec.Struct, frozen=True):
    """Error that the client of an unfinished command got, and the last step that was tried."""

    text: str
    step: str | None


def recover(
    state: ClusterState,
    accepted: CommandAccepted,
    context: Context,
    failed: ReportedFailure | None = None,
) -> Recovery:
    """Decide to repeat, finish, give up or take back a command; `state` is the present state.

    `failed` is the error that its client got; None: the leader died before it could answer.
    """
    command = msgspec.convert(accepted.command, AnyCommand)
    plan = msgspec.convert(accepted.plan, Plan)
    happened = _HAPPENED.get(type(command), _never)
    if isinstance(command, _EVENTS):
        interrupted = _reported(failed) or Rejected(Reason.FAILED, INTERRUPTED)
        return Recovery(RecoveryKind.GIVEN_UP, Plan(()), interrupted)
    finished = Recovery(RecoveryKind.FINISHED, Plan(_steps_after_commit_point(plan), plan.outcome))
    if happened(state, command):
        return finished
    decision = _present_decision(state, command, context)
    undoable = any(step.undo for step in plan.steps)
    if isinstance(decision, Rejected):
        if _config_in_effect(state, command):
            return finished
        rejected = _reported(failed) or decision
        # Taking the creation back removes its offsets, and those that an earlier connector left.
        # A connector of that name, if one exists now, may use these offsets: they must stay.
        if undoable and command.connector not in state.config.connectors:
            return Recovery(RecoveryKind.TAKEN_BACK, plan, rejected)
        return Recovery(RecoveryKind.GIVEN_UP, Plan((), plan.outcome), rejected)
    if failed is not None and undoable:
        return Recovery(
            RecoveryKind.TAKEN_BACK, Plan(_steps_up_to(plan, failed.step)), _reported(failed)
        )
    # Exceptions 3 and 5: the present state determines the steps.
    decided_anew = isinstance(command, commands.RestoreConnector) or undoable
    # Offsets on another cluster are unknown here; the accepted plan lists the ones to remove.
    writes_remotely = any(isinstance(step.action, WriteOffsets) for step in plan.steps)
    if decided_anew and not writes_remotely:
        return Recovery(
            RecoveryKind.REPEATED, Plan(decision.steps, plan.outcome, decision.commit_point)
        )
    return Recovery(RecoveryKind.REPEATED, plan)


def _reported(failed: ReportedFailure | None) -> Rejected | None:
    return None if failed is None else Rejected(Reason.FAILED, failed.text)


_EVENTS = (commands.RestartConnector, commands.RestartTask)
"""Commands that recovery never repeats (exception 4)."""

_CHANGED_BY_WORKERS = (commands.ResetTopics, commands.RestoreConnector)
"""Commands whose records a worker may replace at any time, by records of the same keys.

For example, an undo may resume a connector, whose tasks then commit newer offsets.
"""


def may_end_later(request: CommandRequest, plan: Plan) -> bool:
    """True if a command may be answered before its end is recorded.

    If the leader dies in between, `recover` repeats or finishes the command, which must then have
    no further effect. So three kinds of commands return False:

    - Plans with an action outside of the log, or with a best-effort step.
    - Restarts, and commands whose records a worker may replace before the next command.
    - Commands with an idempotency key: their answer must be in the log, too.
    """
    if request.keyed or isinstance(request.command, (*_EVENTS, *_CHANGED_BY_WORKERS)):
        return False
    return all(step.action is None and not step.best_effort for step in plan.steps)


HasHappened = Callable[[ClusterState, AnyCommand], bool]


def _never(_state: ClusterState, _command: AnyCommand) -> bool:
    return False


def _created(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.CreateConnector)
    # The plan adds a missing name to the config.
    present = state.config.connectors.get(command.connector)
    return present is not None and dict(present) == {**command.config, "name": command.connector}


def _deleted(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.DeleteConnector)
    return command.connector not in state.config.connectors


def _deleted_by_undo(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.RestoreConnector)
    return command.config is None and command.connector not in state.config.connectors


def _config_in_effect(state: ClusterState, command: AnyCommand) -> bool:
    """True if a put or a patch would not change the present config."""
    if not isinstance(command, commands.PutConfig | commands.PatchConfig):
        return False
    present = state.config.connectors.get(command.connector)
    if present is None:
        return False
    if isinstance(command, commands.PatchConfig):
        config = patched_hash_map(dict(present), command.patch)
    else:
        config = dict(command.config)
        if config.get("name") is None:  # the plan adds it
            config["name"] = command.connector
    return frozen(config) == frozen(dict(present))


def _steps_after_commit_point(plan: Plan) -> tuple[Step, ...]:
    names = [step.name for step in plan.steps]
    return plan.steps[names.index(plan.commit_point) + 1 :] if plan.commit_point in names else ()


def _steps_up_to(plan: Plan, step: str | None) -> tuple[Step, ...]:
    names = [step.name for step in plan.steps]
    return plan.steps[: names.index(step) + 1] if step in names else plan.steps


_HAPPENED: Mapping[type, HasHappened] = {
    commands.CreateConnector: _created,
    commands.DeleteConnector: _deleted,
    commands.RestoreConnector: _deleted_by_undo,
}
"""Tests whether a command has taken effect; such a command must not run again."""


def _present_decision(
    state: ClusterState, command: AnyCommand, context: Context
) -> Plan | Rejected:
    """Decision on the present state; under `kip` if the context's release lacks the command."""
    decision = _decision_without_hooks(state, command, context)
    if isinstance(decision, Rejected) and decision.reason is Reason.NOT_OFFERED:
        kip_context = msgspec.structs.replace(context, profile=Profile.of(KIP))
        return _decision_without_hooks(state, command, kip_context)
    return decision


def _decision_without_hooks(
    state: ClusterState, command: AnyCommand, context: Context
) -> Plan | Rejected:
    """Decision on the present state. The hook was called before the command was accepted."""
    decision: Decision = decide(state, command, context)
    while not isinstance(decision, Plan | Rejected):
        if isinstance(decision, AskGroup):
            # Deleting a group removes all of its offsets, so they need not be read.
            context = msgspec.structs.replace(context, group=())
        elif isinstance(decision, AskRemoteOffsets):
            context = msgspec.structs.replace(context, remote=OffsetState())
        else:
            hooks = (*context.hooks, HookSuccess(definite=False))
            context = msgspec.structs.replace(context, hooks=hooks)
        decision = decide(state, command, context)
    return decision
