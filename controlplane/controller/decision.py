"""Decisions: answers the questions of `decide` about hooks and groups until it has a plan."""

import asyncio
from functools import partial
from typing import NamedTuple

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
    Decision,
    GroupOffsets,
    HookOutcome,
    HookSuccess,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import LARGE, in_thread_if_large


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


class _EarlyDecision(NamedTuple):
    """Complete decision on a state that was perhaps not the state at the end of the log."""

    state: ClusterState
    command: AnyCommand
    decision: Decision


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
        self._early: _EarlyDecision | None = None
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
        decision = self._take_early(state, command) if complete else None
        size = _offset_count(state, command) + _decision_size(state, command)
        while True:
            if decision is None:
                deciding = partial(decide, state, command, context, complete=complete)
                decision = await in_thread_if_large(deciding, size)
            match decision:
                case Plan() if believed:
                    assumed = dict.fromkeys((*decision.assumed, *map(hook_assumption, believed)))
                    return msgspec.structs.replace(decision, assumed=tuple(assumed))
                case Plan() | Rejected():
                    return decision
                case AskHook():
                    if believe_hooks:
                        believed.append(decision)
                        outcome: HookOutcome = HookSuccess(definite=False)
                    else:
                        hook = context.plugins.hook(decision.connector_class, context.profile)
                        assert hook is not None  # `decide` calls the hooks of unknown classes
                        outcome = await self._hook_calls.outcome(hook, decision)
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
            decision = None

    async def decide_early(self, state: ClusterState, command: AnyCommand) -> None:
        """Decide while a request for the end of the log is under way, unless this takes long.

        If the state is still the same at the end of the log, `decided` need not decide again. A
        decision is pure, so an early one has no other effect.
        """
        if _offset_count(state, command) + _decision_size(state, command) > LARGE:
            return
        await asyncio.sleep(0)  # lets the request be sent
        context = self._context_of(state.profile)
        decision = decide(state, command, context, complete=True)
        self._early = _EarlyDecision(state, command, decision)

    def _take_early(self, state: ClusterState, command: AnyCommand) -> Decision | None:
        """Return the early decision on this very state and command, at most once."""
        early, self._early = self._early, None
        if early is None or early.state is not state or early.command is not command:
            return None
        return early.decision

    async def with_complete_outcome(
        self, state: ClusterState, command: AnyCommand, plan: Plan
    ) -> Plan:
        """Return the plan with its complete answer in the outcome."""
        completing = partial(with_complete_outcome, state, command, plan, self.context.plugins)
        return await in_thread_if_large(completing, _decision_size(state, command))

    def _context_of(self, profile: Profile) -> Context:
        """Context of the same worker under a release, whose decisions call pure hooks."""
        if profile.release == self.context.profile.release:
            profile = self.context.profile
        return msgspec.structs.replace(self.context, profile=profile, calls_pure_hooks=True)
