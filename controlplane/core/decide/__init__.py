"""Decides commands: command and state → plan, question or refusal. Pure and deterministic.

One table maps each kind of command to the function that decides it. The records of a plan are in
the order in which a worker of the context's profile writes them; each plan documents the reason for
its order. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.

A command whose records no worker could write or read back is refused first. A worker's config is a
map of text to text or null. Its REST interface converts numbers and booleans to text; a program
that embeds the control plane must do so itself.

A plan's outcome can be completed with everything that the answer shows. It is computed from the
state of the decision and the records of the plan, and stored with the record that marks the command
as finished. So a repeated idempotency key gets the first answer again, whatever has happened since.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from controlplane.core import commands, views
from controlplane.core.context import Context
from controlplane.core.decide import (
    connectors,
    create_with_offsets,
    offsets,
    restarts,
    restore_plan,
    target_states,
    task_configs,
    topics,
)
from controlplane.core.entry import Entry
from controlplane.core.fold.config import ConfigFold
from controlplane.core.java.jackson_tokens import NAME_BYTES, STRING_UNITS
from controlplane.core.plan import (
    ConnectorAfterCommand,
    Decision,
    LeftStatus,
    Outcome,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState, ConfigState

_TABLE: Mapping[type, restore_plan.DecideCommand] = {
    commands.CreateConnector: create_with_offsets.create,
    commands.PutConfig: connectors.put,
    commands.PatchConfig: connectors.patch,
    commands.DeleteConnector: connectors.delete,
    commands.PauseConnector: target_states.pause,
    commands.ResumeConnector: target_states.resume,
    commands.StopConnector: target_states.stop,
    commands.RestartConnector: restarts.restart,
    commands.RestartTask: restarts.restart_task,
    commands.AlterOffsets: offsets.alter,
    commands.ResetOffsets: offsets.reset,
    commands.ResetTopics: topics.reset,
    commands.SetLoggerLevel: topics.set_level,
    commands.PublishTasks: task_configs.publish,
    commands.FenceTasks: task_configs.fence,
    commands.RestoreConnector: restore_plan.restore,
}


def decide(
    state: ClusterState, command: commands.AnyCommand, context: Context, *, complete: bool = False
) -> Decision:
    """Decide a command: a plan of ordered steps, a question to ask first, or a refusal.

    `state` must include every record appended so far: the decision is only as current as its state.
    With `complete`, a plan's outcome is the whole answer.
    """
    decision = _malformed(command) or _TABLE[type(command)](state, command, context)
    decision = _oversized(command, decision, context) or decision
    if complete and isinstance(decision, Plan):
        return with_complete_outcome(state, command, decision, context.plugins)
    return decision


# --- commands and plans that no worker could write or read back -----------------------------------

_TEXTS = ("connector", "namespace", "level")
"""Fields of commands that are written to a log unchanged."""


def _malformed(command: commands.AnyCommand) -> Rejected | None:
    """Refuse a command with a value that is no text or too long to read back; None: fine."""
    faults = (
        *_texts(command),
        *(fault for config in _configs(command) for fault in _faults(config)),
    )
    return Rejected(Reason.INVALID, faults[0]) if faults else None


def _texts(command: commands.AnyCommand) -> Iterator[str]:
    for field in _TEXTS:
        value = getattr(command, field, "")
        if type(value) is not str:
            yield f"The {field} of a command must be text, and not {_kind(value)}"
        elif _is_too_long(value):
            yield f"The {field} of a command {_TOO_LONG}"


def _configs(command: commands.AnyCommand) -> tuple[Any, ...]:
    match command:
        case commands.CreateConnector(config=config) | commands.PutConfig(config=config):
            return (config,)
        case commands.PatchConfig(patch=patch):
            return (patch,)
        case commands.PublishTasks(configs=configs):
            return configs
    return ()  # an undo restores a config that was in the log: it is readable


def _faults(config: Any) -> Iterator[str]:
    """Faults of a config. Values are not quoted: they may be secrets."""
    if not isinstance(config, dict):
        yield f"A config must be a dict of texts, and not {_kind(config)}"
        return
    for key, value in config.items():
        if type(key) is not str:
            yield f"Every key of a config must be text, and {key!a} is {_kind(key)}"
        elif len(key.encode("utf-8", "surrogatepass")) > NAME_BYTES.maximum:
            size = f"more than {NAME_BYTES.maximum} bytes"
            fault = f"A key of the config, {key[:_SHOWN]!a}..., has {size}"
            yield f"{fault}, which nobody could read back: shorten it"
        elif value is not None and type(value) is not str:
            fault = "Every value of a config must be text or null, and that of"
            yield f"{fault} {key!a} is {_kind(value)}"
        elif value is not None and _is_too_long(value):
            yield f"The value of {key!a} in the config {_TOO_LONG}"


_TOO_LONG = (
    f"has more than {STRING_UNITS.maximum} characters, which nobody could read back: shorten it"
)

_SHOWN = 40
"""Characters of an overlong key that the refusal quotes."""


def _is_too_long(text: str) -> bool:
    """True if Jackson's limits refuse the string; its characters are UTF-16 units."""
    return (
        2 * len(text) > STRING_UNITS.maximum
        and len(text.encode("utf-16-le", "surrogatepass")) > 2 * STRING_UNITS.maximum
    )


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"


REQUEST_MAX_BYTES = 1_048_576
"""Size limit of one record with its overhead (default of a producer's `max.request.size`)."""

OVERHEAD_BYTES = 88
"""Overhead of a record of these sizes: batch header (61), largest record header (21), lengths of
key and value, number of headers (`DefaultRecord#recordSizeUpperBound`)."""

CONFIG_NOT_WRITTEN = "Error writing connector configuration to Kafka"
TASKS_NOT_WRITTEN = "Error writing task configurations to Kafka"

_NOT_WRITTEN: Mapping[type, str] = {
    commands.CreateConnector: CONFIG_NOT_WRITTEN,
    commands.PutConfig: CONFIG_NOT_WRITTEN,
    commands.PatchConfig: CONFIG_NOT_WRITTEN,
    commands.PublishTasks: TASKS_NOT_WRITTEN,
}
"""Commands whose records can exceed the limit, with the worker's error."""


def _oversized(command: commands.AnyCommand, decision: object, context: Context) -> Rejected | None:
    """Refuse a plan with a record that the release cannot send; our own logs take larger ones."""
    text = _NOT_WRITTEN.get(type(command))
    if text is None or not context.profile.records_bounded or not isinstance(decision, Plan):
        return None
    drafts = (draft for step in decision.steps for draft in step.records)
    fit = all(
        len(draft.key) + len(draft.value or b"") + OVERHEAD_BYTES <= REQUEST_MAX_BYTES
        for draft in drafts
    )
    return None if fit else Rejected(Reason.FAILED, text)


# --- the whole answer -----------------------------------------------------------------------------


def with_complete_outcome(
    state: ClusterState, command: commands.AnyCommand, plan: Plan, plugins: Plugins
) -> Plan:
    """The plan with its complete answer in the outcome; `state` is the one it was decided on."""
    outcome = msgspec.structs.replace(plan.outcome, release=state.profile.release)
    complete = _COMPLETE.get(type(command))
    if complete is not None and outcome.refusal is None:
        assert isinstance(command, commands.ConnectorCommand)
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
    commands.CreateConnector: _with_connector,
    commands.PutConfig: _with_connector,
    commands.PatchConfig: _with_connector,
    commands.RestoreConnector: _with_connector,
    commands.RestartConnector: _with_status,
}
"""Commands whose answer shows more than their plan contains."""
