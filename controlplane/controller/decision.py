"""Decisions with answers from outside: answers the questions of `decide` until it has a plan."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from controlplane.controller.external import ExternalActions
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    ResetOffsets,
    RestoreConnector,
    size_of,
)
from controlplane.core.context import Context
from controlplane.core.decide import decide, with_complete_outcome
from controlplane.core.decide.prediction import hook_assumption
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    HookOutcome,
    HookSuccess,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import in_thread_if_large


def _parts(state: ClusterState, command: AnyCommand) -> int:
    """Size of a decision: config keys and the like, of the command and of its connector."""
    present = state.config.connectors.get(getattr(command, "connector", ""), ())
    return len(present) + size_of(command)


def _offsets(state: ClusterState, command: AnyCommand) -> int:
    """Number of offsets in the log that a decision depends on."""
    if not isinstance(command, AlterOffsets | ResetOffsets | RestoreConnector):
        return 0
    return sum(len(topic.values) for topic in state.offsets.values())


def _unlisted(command: AnyCommand, cause: str) -> Rejected:
    """Refusal because a group's offsets cannot be read (`Worker#modifySinkConnectorOffsets`)."""
    if not isinstance(command, ResetOffsets):
        return Rejected(Reason.FAILED, cause)
    text = "Failed to list offsets prior to resetting offsets for sink connector"
    return Rejected(Reason.FAILED, f"{text} {command.connector}", cause)


class Decider:
    """Decides as one worker. Hooks of other authors are called in threads of their own."""

    def __init__(self, context: Context, outside: ExternalActions, hooks_at_once: int = 8) -> None:
        self.context = context
        self._outside = outside
        # Not the event loop's own threads: a slow hook must not delay reads of the log.
        self._threads = ThreadPoolExecutor(hooks_at_once, thread_name_prefix="alter offsets")

    def close(self) -> None:
        """Call no more hooks. A call that is running is not awaited."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def decided(
        self,
        state: ClusterState,
        command: AnyCommand,
        *,
        complete: bool = False,
        believe_hooks: bool = False,
    ) -> Plan | Rejected:
        """Decide a command for the state's release, and answer every question of the decision.

        With `complete` the plan's outcome is the whole answer. With `believe_hooks` a hook in
        Python is not called, and the plan says so. Cancelling this has no effect, except for what a
        hook has done.
        """
        context = self._as(state.profile)
        believed: list[AskHook] = []
        parts = _offsets(state, command) + _parts(state, command)
        while True:
            deciding = partial(decide, state, command, context, complete=complete)
            decision = await in_thread_if_large(deciding, parts)
            match decision:
                case Plan() if believed:
                    assumed = dict.fromkeys((*decision.assumed, *map(hook_assumption, believed)))
                    return msgspec.structs.replace(decision, assumed=tuple(assumed))
                case Plan() | Rejected():
                    return decision
                case AskHook():
                    if believe_hooks and context.plugins.may_block(decision.connector_class):
                        believed.append(decision)
                        outcome: HookOutcome = HookSuccess(definite=False)
                    else:
                        outcome = await self._hook(decision)
                    hooks = (*context.hooks, outcome)
                    context = msgspec.structs.replace(context, hooks=hooks)
                case AskGroup():
                    try:
                        group = await self._outside.group_offsets(decision.group, decision.admin)
                    except Exception as failure:  # noqa: BLE001 - it may fail in any way
                        return _unlisted(command, str(failure) or type(failure).__name__)
                    context = msgspec.structs.replace(context, group=group)

    async def with_complete_outcome(
        self, state: ClusterState, command: AnyCommand, plan: Plan
    ) -> Plan:
        """Return the plan with its complete answer in the outcome."""
        completing = partial(with_complete_outcome, state, command, plan, self.context.plugins)
        return await in_thread_if_large(completing, _parts(state, command))

    def _as(self, profile: Profile) -> Context:
        """The context of the same worker in another release."""
        context = self.context
        if profile.release == context.profile.release:
            return context
        return msgspec.structs.replace(context, profile=profile)

    async def _hook(self, question: AskHook) -> HookOutcome:
        plugins, named = self.context.plugins, question.connector_class
        hook = plugins.hook(named)
        if hook is None:
            return HookSuccess(definite=False)
        if not plugins.may_block(named):
            asking = partial(hook, question.config, question.offsets)
            return await in_thread_if_large(asking, len(question.config) + len(question.offsets))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, hook, question.config, question.offsets)
