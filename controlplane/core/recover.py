"""What becomes of a command that was accepted and never finished: a leader died in between.

Every step of a plan may be repeated, so most commands are simply carried out again from the first
step on. Five things are different. What has happened already (its commit point is in the log) is
only finished, with the steps behind that point. What would be refused now, because somebody else
has changed the connector since, is given up. An undo is decided anew: it says how a connector is to
be, so what is left to do follows from how it is; and its offsets must not be written where somebody
has started it since. A restart is never repeated: it is an event, and whoever asked for it has seen
for himself whether it took place. And a creation with first offsets is decided anew, too, for it
wipes all others, also those that came since; it is taken back (KIP-995) where it would be refused
now though no such connector is there – its class is gone –, or where no leader died, but the log
was away for so long that its asker was told of a failure.

That the release of whoever leads now has no such command is no reason to leave one half-done.
"""

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from controlplane.core import commands
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.plan import AskGroup, Done, Outcome, Plan, Question, Reason, Rejected, Step
from controlplane.core.profiles import KIP, Profile
from controlplane.core.records import CommandAccepted
from controlplane.core.state import ClusterState

INTERRUPTED = "interrupted: the worker ended before the command did"
"""What is told of a command that is not taken up again."""


class Ending(Enum):
    """How an unfinished command ends."""

    REPEATED = "repeated"
    FINISHED = "finished"
    GIVEN_UP = "given up"
    TAKEN_BACK = "taken back"


class Recovery(msgspec.Struct, frozen=True):
    """What has to be done, and what is told of the command then. A plan without steps is done."""

    ending: Ending
    plan: Plan
    """What is done, or what is taken back."""
    rejected: Rejected | None = None
    """Why it was given up, or is taken back."""


class Failed(msgspec.Struct, frozen=True):
    """What the asker of an unfinished command was told, and behind which step nothing was done."""

    text: str
    step: str | None


def recover(
    state: ClusterState, accepted: CommandAccepted, context: Context, failed: Failed | None = None
) -> Recovery:
    """Finish, give up or take back a command; `state` is what the log says now.

    `failed` is what its asker was told; None: nothing, for the leader died.
    """
    command = msgspec.convert(accepted.command, AnyCommand)
    plan = msgspec.convert(accepted.plan, Plan)
    happened = _HAPPENED.get(type(command), _never)
    if isinstance(command, _EVENTS):
        return Recovery(Ending.GIVEN_UP, Plan((), Outcome(message=INTERRUPTED)))
    if happened(state, command):
        return Recovery(Ending.FINISHED, Plan(_behind_commit_point(plan), plan.outcome))
    now, undoable = _decided(state, command, context), any(step.undo for step in plan.steps)
    if isinstance(now, Rejected):
        now = _told(failed) or now
        if undoable and command.connector not in state.config.connectors:  # nobody else's offsets
            return Recovery(Ending.TAKEN_BACK, plan, now)
        return Recovery(Ending.GIVEN_UP, Plan((), plan.outcome), now)
    if failed is not None and undoable:
        return Recovery(Ending.TAKEN_BACK, Plan(_up_to(plan, failed.step)), _told(failed))
    if isinstance(command, commands.RestoreConnector) or undoable:
        return Recovery(Ending.REPEATED, Plan(now.steps, plan.outcome, now.commit_point))
    return Recovery(Ending.REPEATED, plan)


def _told(failed: Failed | None) -> Rejected | None:
    return None if failed is None else Rejected(Reason.FAILED, failed.text)


_EVENTS = (commands.RestartConnector, commands.RestartTask)

Happened = Callable[[ClusterState, AnyCommand], bool]


def _never(_state: ClusterState, _command: AnyCommand) -> bool:
    return False


def _created(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.CreateConnector)
    present = state.config.connectors.get(command.connector)
    return present is not None and dict(present) == {**command.config, "name": command.connector}


def _deleted(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.DeleteConnector)
    return command.connector not in state.config.connectors


def _taken_away(state: ClusterState, command: AnyCommand) -> bool:
    assert isinstance(command, commands.RestoreConnector)
    return command.config is None and command.connector not in state.config.connectors


def _behind_commit_point(plan: Plan) -> tuple[Step, ...]:
    names = [step.name for step in plan.steps]
    return plan.steps[names.index(plan.commit_point) + 1 :] if plan.commit_point in names else ()


def _up_to(plan: Plan, step: str | None) -> tuple[Step, ...]:
    names = [one.name for one in plan.steps]
    return plan.steps[: names.index(step) + 1] if step in names else plan.steps


_HAPPENED: Mapping[type, Happened] = {
    commands.CreateConnector: _created,
    commands.DeleteConnector: _deleted,
    commands.RestoreConnector: _taken_away,
}
"""Commands that would be refused now because they have happened, or would do harm once more."""


def _decided(state: ClusterState, command: AnyCommand, context: Context) -> Plan | Rejected:
    """What would be decided now, by us where the release of the context does not offer it."""
    now = _answered(state, command, context)
    if isinstance(now, Rejected) and now.reason is Reason.NOT_OFFERED:
        ours = msgspec.structs.replace(context, profile=Profile.of(KIP))
        return _answered(state, command, ours)
    return now


def _answered(state: ClusterState, command: AnyCommand, context: Context) -> Plan | Rejected:
    """What would be decided. The hook has been asked before and is not asked again."""
    decision: Plan | Question | Rejected = decide(state, command, context)
    while not isinstance(decision, Plan | Rejected):
        if isinstance(decision, AskGroup):
            context = msgspec.structs.replace(context, group=())
        else:
            hooks = (*context.hooks, Done(definite=False))
            context = msgspec.structs.replace(context, hooks=hooks)
        decision = decide(state, command, context)
    return decision
