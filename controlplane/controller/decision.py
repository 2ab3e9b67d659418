"""Decisions: answers the questions of `decide` about hooks and groups until it has a plan."""

from functools import partial

import msgspec

from controlplane.controller.admission import CommandLimits
from controlplane.controller.external import ExternalActions, remote_reader
from controlplane.controller.hook_calls import HookCalls
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    ResetOffsets,
    RestoreConnector,
    size_of,
    size_of_config,
)
from controlplane.core.context import Context
from controlplane.core.decide import decide, with_complete_outcome
from controlplane.core.decide.prediction import hook_assumption
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    AskRemoteOffsets,
    GroupOffsets,
    HookOutcome,
    HookSuccess,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import in_thread_if_large


def _decision_size(state: ClusterState, command: AnyCommand) -> int:
    """Size of a decision: config of the connector, plus the size of the command."""
    present = state.config.connectors.get(getattr(command, "connector", ""), {})
    return size_of_config(present) + size_of(command)


def _offset_count(state: ClusterState, command: AnyCommand) -> int:
    """Number of offsets in the log that a decision depends on."""
    if not isinstance(command, AlterOffsets | ResetOffsets | RestoreConnector):
        return 0
    return sum(len(topic.values) for topic in state.offsets.values())


def _group_unreadable(command: AnyCommand, cause: str) -> Rejected:
    """Refusal for a group whose offsets cannot be read (`Worker#modifySinkConnectorOffsets`)."""
    if not isinstance(command, ResetOffsets):
        return Rejected(Reason.FAILED, cause)
    text = "Failed to list offsets prior to resetting offsets for sink connector"
    return Rejected(Reason.FAILED, f"{text} {command.connector}", cause)


def _returned(offsets: GroupOffsets | None) -> GroupOffsets:
    """Return the offsets of a group that a program has returned.

    Raises:
        TypeError: they are None, which would be asked for again without end, or no list.
    """
    if offsets is None:
        raise TypeError("group_offsets returned None")
    return tuple(offsets)


def _remote_unreadable(question: AskRemoteOffsets, cause: str) -> Rejected:
    """Refusal for offsets on another cluster that cannot be read."""
    text = f"Failed to read the offsets of source connector {question.connector}"
    return Rejected(Reason.FAILED, text, cause)


class Decider:
    """Decides as one worker does. Hooks that may block run in threads of their own."""

    def __init__(
        self,
        context: Context,
        outside: ExternalActions,
        hook_timeout_ms: int = CommandLimits().hook_timeout_ms,
    ) -> None:
        self.context = context
        self.outside = outside
        self._hook_calls = HookCalls(hook_timeout_ms, outside)

    def close(self, closed: Exception | None = None) -> None:
        """Give running hooks a short time; then end the decisions that wait for them.

        Their callers get `closed`. None: they are cancelled.
        """
        self._hook_calls.close(closed)

    async def decided(
        self,
        state: ClusterState,
        command: AnyCommand,
        *,
        complete: bool = False,
        believe_hooks: bool = False,
    ) -> Plan | Rejected:
        """Decide a command for the state's release; answer every question of the decision.

        With `complete`, the plan's outcome holds the whole answer to the client. With
        `believe_hooks`, a hook that may block is not called; the plan lists this assumption
        (`assumed`). A cancelled decision leaves no trace, except for what a hook has done.
        """
        context = self._context_of(state.profile)
        believed: list[AskHook] = []
        size = _offset_count(state, command) + _decision_size(state, command)
        while True:
            deciding = partial(decide, state, command, context, complete=complete)
            decision = await in_thread_if_large(deciding, size)
            match decision:
                case Plan() if believed:
                    assumed = dict.fromkeys((*decision.assumed, *map(hook_assumption, believed)))
                    return msgspec.structs.replace(decision, assumed=tuple(assumed))
                case Plan() | Rejected():
                    return decision
                case AskHook():
                    blocks = context.plugins.may_block(decision.connector_class, context.profile)
                    if believe_hooks and blocks:
                        believed.append(decision)
                        outcome: HookOutcome = HookSuccess(definite=False)
                    else:
                        outcome = await self._call_hook(decision, context)
                    hooks = (*context.hooks, outcome)
                    context = msgspec.structs.replace(context, hooks=hooks)
                case AskGroup():
                    try:
                        offsets = await self.outside.group_offsets(decision.group, decision.admin)
                        group = _returned(offsets)
                    except Exception as failure:  # noqa: BLE001 - any failure is a refusal
                        return _group_unreadable(command, str(failure) or type(failure).__name__)
                    context = msgspec.structs.replace(context, group=group)
                case AskRemoteOffsets():
                    reader = remote_reader(self.outside)
                    if reader is None:
                        return decision.refusal
                    try:
                        remote = await reader.remote_offsets(decision, context.profile)
                    except Exception as failure:  # noqa: BLE001 - any failure is a refusal
                        return _remote_unreadable(decision, str(failure) or type(failure).__name__)
                    context = msgspec.structs.replace(context, remote=remote)
                    size += len(remote.values)

    async def with_complete_outcome(
        self, state: ClusterState, command: AnyCommand, plan: Plan
    ) -> Plan:
        """Return the plan with its complete answer in the outcome."""
        completing = partial(with_complete_outcome, state, command, plan, self.context.plugins)
        return await in_thread_if_large(completing, _decision_size(state, command))

    def _context_of(self, profile: Profile) -> Context:
        """Context of the same worker under another release."""
        context = self.context
        if profile.release == context.profile.release:
            return context
        return msgspec.structs.replace(context, profile=profile)

    async def _call_hook(self, question: AskHook, context: Context) -> HookOutcome:
        plugins, connector_class = context.plugins, question.connector_class
        hook = plugins.hook(connector_class, context.profile)
        if hook is None:
            return HookSuccess(definite=False)
        if not plugins.may_block(connector_class, context.profile):
            call = partial(hook, question.config, question.offsets)
            return await in_thread_if_large(call, len(question.config) + len(question.offsets))
        return await self._hook_calls.outcome(hook, question)
