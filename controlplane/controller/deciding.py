"""Deciding with the world's help: what `decide` asks is answered here, until it has a plan."""

import asyncio

import msgspec

from controlplane.controller.outside import Outside, OutsideFailed
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    Done,
    HookOutcome,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.state import ClusterState


class Deciding:
    """Decides as one worker. Hooks of connectors are called in a thread: they may take long."""

    def __init__(self, context: Context, outside: Outside) -> None:
        self.context = context
        self._outside = outside

    async def decided(self, state: ClusterState, command: AnyCommand) -> Plan | Rejected:
        """What has to be done for a command, every question answered."""
        context = self.context
        while True:
            decision = decide(state, command, context)
            match decision:
                case Plan() | Rejected():
                    return decision
                case AskHook():
                    hooks = (*context.hooks, await self._hook(decision))
                    context = msgspec.structs.replace(context, hooks=hooks)
                case AskGroup():
                    try:
                        group = await self._outside.group_offsets(decision.group)
                    except OutsideFailed as failure:
                        return Rejected(Reason.FAILED, str(failure))
                    context = msgspec.structs.replace(context, group=group)

    async def _hook(self, question: AskHook) -> HookOutcome:
        hook = self.context.plugins.hook(question.config.get("connector.class"))
        if hook is None:
            return Done(definite=False)
        return await asyncio.to_thread(hook, question.config, question.offsets)
