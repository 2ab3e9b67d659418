"""Forecast of a command: its decision at a point of a log, with the assumptions behind it."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from controlplane.core.commands import (
    AnyCommand,
    ConnectorCommand,
    CreateConnector,
    PatchConfig,
    PutConfig,
    RestoreConnector,
)
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.decide.prediction import hook_assumption, predicted_state
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    AskRemoteOffsets,
    GroupOffsets,
    HookOutcome,
    HookSuccess,
    Plan,
    Rejected,
)
from controlplane.core.plugins import UNKNOWN_TYPE
from controlplane.core.state import ClusterState
from controlplane.core.views.diff import Change, diff
from controlplane.failure_text import shortened

_WITH_CONFIG = (CreateConnector, PutConfig, PatchConfig, RestoreConnector)


class Forecast(NamedTuple):
    """A decision, the state after it, and the assumptions behind it."""

    command: AnyCommand
    decision: Plan | Rejected
    before: ClusterState
    after: ClusterState
    assumed: tuple[str, ...] = ()

    def effects(self) -> list[Change]:
        """Return the changes that the plan would make to the connector's state."""
        if not isinstance(self.command, ConnectorCommand):
            return []  # logger levels are not part of the state
        return diff(self.before, self.after, self.command.connector)


def forecast(  # noqa: PLR0913 - options, by name only
    state: ClusterState,
    command: AnyCommand,
    context: Context,
    group: GroupOffsets | None = None,
    *,
    believe_hooks: bool = False,
    advises: bool = True,
) -> Forecast:
    """Decide a command; the known plugins and `group` answer the questions of the decision.

    No broker is contacted. Only hooks written in Python run, unless `believe_hooks` assumes their
    success. `advises`: an assumption names the command-line option that replaces it.
    """
    assumed: list[str] = []
    while True:
        decision = decide(state, command, context)
        if isinstance(decision, Plan | Rejected):
            after = state
            if isinstance(decision, Plan):
                after = predicted_state(state, decision)
                assumed += decision.assumed
                assumed += _class_assumption(command, after, context, advises=advises)
            return Forecast(command, decision, state, after, tuple(dict.fromkeys(assumed)))
        if isinstance(decision, AskRemoteOffsets):
            return Forecast(command, decision.refusal, state, state)
        if isinstance(decision, AskGroup):
            assumed.append(_group_assumption(decision.group, group, advises=advises))
            context = msgspec.structs.replace(context, group=group or ())
            continue
        blocks = context.plugins.may_block(decision.connector_class, context.profile)
        if believe_hooks and blocks:
            outcome: HookOutcome = HookSuccess(definite=False)
            assumed.append(hook_assumption(decision))
        else:
            outcome = _hook_outcome(decision, context)
            assumed.append(_hook_report(decision, outcome))
        context = msgspec.structs.replace(context, hooks=(*context.hooks, outcome))


def _hook_outcome(question: AskHook, context: Context) -> HookOutcome:
    """Return the outcome of a connector's hook: from its catalogue, or from its Python class.

    An unknown hook is assumed to return false: it does not promise that the offsets are used.
    """
    hook = context.plugins.hook(question.connector_class, context.profile)
    if hook is None:
        return HookSuccess(definite=False)
    return hook(question.config, question.offsets).excerpted(shortened)


def _class_assumption(
    command: AnyCommand, after: ClusterState, context: Context, *, advises: bool
) -> Iterator[str]:
    """Yield the assumption about an unknown connector class, if the config names one."""
    if isinstance(command, _WITH_CONFIG):
        name = after.config.connectors.get(command.connector, {}).get("connector.class")
        plugin_type = context.plugins.type_of(name, context.profile)
        if name is not None and plugin_type == UNKNOWN_TYPE:
            advice = "; check it with --plugins" if advises else ""
            yield f"{name} exists and accepts this config{advice}"


def _group_assumption(group: str, offsets: GroupOffsets | None, *, advises: bool) -> str:
    if offsets is None:
        advice = "; give its offsets with --group" if advises else ""
        return f"consumer group {group} has committed nothing{advice}"
    return f"consumer group {group} has committed the offsets of --group"


def _hook_report(question: AskHook, outcome: HookOutcome) -> str:
    if not isinstance(outcome, HookSuccess):
        return f"alterOffsets of {question.connector_class} throws"
    returned = "true" if outcome.definite else "false"
    return f"alterOffsets of {question.connector_class} returns {returned}"
