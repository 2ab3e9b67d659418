"""A decision at a point of a log, with what had to be assumed of the world for it."""

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
from controlplane.core.decide.assumptions import hook_assumption
from controlplane.core.decide.prediction import predicted_state
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    GroupOffsets,
    HookOutcome,
    HookSuccess,
    Plan,
    Rejected,
)
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.state import ClusterState
from controlplane.core.views.diff import Change, diff

_WITH_CONFIG = (CreateConnector, PutConfig, PatchConfig, RestoreConnector)


class Forecast(NamedTuple):
    """A decision, the state after it, and the assumptions behind it."""

    command: AnyCommand
    decision: Plan | Rejected
    before: ClusterState
    after: ClusterState
    assumed: tuple[str, ...] = ()

    def effects(self) -> list[Change]:
        """Changes that the plan would make to the connector's state."""
        if not isinstance(self.command, ConnectorCommand):
            return []  # loggers are no state
        return diff(self.before, self.after, self.command.connector)


def foresee(  # noqa: PLR0913 - options, by name only
    state: ClusterState,
    command: AnyCommand,
    context: Context,
    group: GroupOffsets | None = None,
    *,
    believe_hooks: bool = False,
    advises: bool = True,
) -> Forecast:
    """Decide a command. What the decision asks is answered by the known plugins and `group`.

    Nothing is asked of the world but hooks that are written in Python, unless those are believed:
    no broker is reached. Where it `advises`, what is assumed names the option that tells otherwise.
    """
    assumed: list[str] = []
    while True:
        decision = decide(state, command, context)
        if isinstance(decision, Plan | Rejected):
            after = state
            if isinstance(decision, Plan):
                after = predicted_state(state, decision)
                assumed += decision.assumed
                assumed += _of_class(command, after, context.plugins, advises=advises)
            return Forecast(command, decision, state, after, tuple(dict.fromkeys(assumed)))
        if isinstance(decision, AskGroup):
            assumed.append(_of_group(decision.group, group, advises=advises))
            context = msgspec.structs.replace(context, group=group or ())
            continue
        if believe_hooks and context.plugins.may_block(decision.connector_class):
            outcome: HookOutcome = HookSuccess(definite=False)
            assumed.append(hook_assumption(decision))
        else:
            outcome = _hooked(decision, context.plugins)
            assumed.append(_of_hook(decision, outcome))
        context = msgspec.structs.replace(context, hooks=(*context.hooks, outcome))


def _hooked(question: AskHook, plugins: Plugins) -> HookOutcome:
    """Answer of a connector's hook: from its catalogue, or from the class itself in Python.

    One that nobody knows, or has written, returns and promises nothing.
    """
    hook = plugins.hook(question.connector_class)
    return HookSuccess(definite=False) if hook is None else hook(question.config, question.offsets)


def _of_class(
    command: AnyCommand, after: ClusterState, plugins: Plugins, *, advises: bool
) -> Iterator[str]:
    """A config of a class that nobody knows is believed."""
    if isinstance(command, _WITH_CONFIG):
        name = after.config.connectors.get(command.connector, {}).get("connector.class")
        if name is not None and plugins.type_of(name) == UNKNOWN_TYPE:
            advice = "; --plugins could tell" if advises else ""
            yield f"{name} is there and takes this config{advice}"


def _of_group(group: str, told: GroupOffsets | None, *, advises: bool) -> str:
    if told is None:
        advice = "; say otherwise with --group" if advises else ""
        return f"consumer group {group} has committed nothing{advice}"
    return f"consumer group {group} has committed what --group says"


def _of_hook(question: AskHook, outcome: HookOutcome) -> str:
    if not isinstance(outcome, HookSuccess):
        return f"alterOffsets of {question.connector_class} throws"
    returned = "true" if outcome.definite else "false"
    return f"alterOffsets of {question.connector_class} returns {returned}"
