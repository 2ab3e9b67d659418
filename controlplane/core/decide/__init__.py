"""Decides commands: command and state → plan, question or refusal. Pure and deterministic.

One table maps each kind of command to the function that decides it. The records of a plan are in
the order in which a worker of the context's profile writes them. Each module documents the reason
for its order. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.

A command whose records no worker could write or read back is refused first. A config is a map
of text to text or null. A worker's REST interface converts numbers and booleans to text. A program
that embeds the control plane must do so itself.

With `complete`, a plan's outcome holds the whole answer to the client. `decide` computes it from
the state and the plan's records. If the client chose an idempotency key, the record that marks the
command as finished stores this answer. A repeated key then gets the first answer again, whatever
has happened since.
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
from controlplane.core.state import ClusterState, part_of

_DECIDERS: Mapping[type, restore_plan.DecideCommand] = {
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
    decision = _malformed(command) or _DECIDERS[type(command)](state, command, context)
    decision = _oversized(command, decision, context) or decision
    if complete and isinstance(decision, Plan):
        return with_complete_outcome(state, command, decision, context.plugins)
    return decision


# --- commands and plans that no worker could write or read back -----------------------------------

_VERBATIM_FIELDS = ("connector", "namespace", "level")
"""Fields of commands that are written to a log unchanged."""


def _malformed(command: commands.AnyCommand) -> Rejected | None:
    """Refuse a command with a value that is not text or too long to read back; None: no fault."""
    faults = (
        *_field_faults(command),
        *(fault for config in _configs_of(command) for fault in _config_faults(config)),
    )
    return Rejected(Reason.INVALID, faults[0]) if faults else None


def _field_faults(command: commands.AnyCommand) -> Iterator[str]:
    """Faults of the fields in `_VERBATIM_FIELDS`."""
    for field in _VERBATIM_FIELDS:
        value = getattr(command, field, "")
        if type(value) is not str:
            yield f"The {field} of a command must be text, and not {_type_text(value)}"
        elif _is_too_long(value):
            yield f"The {field} of a command {_TOO_LONG}"


def _configs_of(command: commands.AnyCommand) -> tuple[Any, ...]:
    """Configs that a command writes. Their types are unchecked, as clients supply them."""
    match command:
        case commands.CreateConnector(config=config) | commands.PutConfig(config=config):
            return (config,)
        case commands.PatchConfig(patch=patch):
            return (patch,)
        case commands.PublishTasks(configs=configs):
            return configs
    return ()  # An undo restores a config from the log, so the config is readable.


def _config_faults(config: Any) -> Iterator[str]:
    """Faults of a config. Values are not quoted: they may be secrets."""
    if not isinstance(config, dict):
        yield f"A config must be a dict of texts, and not {_type_text(config)}"
        return
    for key, value in config.items():
        if type(key) is not str:
            yield f"Every key of a config must be text, and {key!a} is {_type_text(key)}"
        elif len(key.encode("utf-8", "surrogatepass")) > NAME_BYTES.maximum:
            size = f"more than {NAME_BYTES.maximum} bytes"
            fault = f"A key of the config, {key[:_QUOTED_CHARACTERS]!a}..., has {size}"
            yield f"{fault}, which no reader accepts: shorten it"
        elif value is not None and type(value) is not str:
            fault = "Every value of a config must be text or null, and that of"
            yield f"{fault} {key!a} is {_type_text(value)}"
        elif value is not None and _is_too_long(value):
            yield f"The value of {key!a} in the config {_TOO_LONG}"


_TOO_LONG = f"has more than {STRING_UNITS.maximum} characters, which no reader accepts: shorten it"

_QUOTED_CHARACTERS = 40
"""Characters of an overlong key that the refusal quotes."""


def _is_too_long(text: str) -> bool:
    """True if Jackson's limits refuse the string; its characters are UTF-16 units."""
    # A code point has at most two units, so short texts need no encoding.
    return (
        2 * len(text) > STRING_UNITS.maximum
        and len(text.encode("utf-16-le", "surrogatepass")) > 2 * STRING_UNITS.maximum
    )


def _type_text(value: Any) -> str:
    return f"of type {type(value).__name__}"


REQUEST_MAX_BYTES = 1_048_576
"""Size limit of one record with its overhead (default of a producer's `max.request.size`)."""

_OVERHEAD_BYTES = 83
"""Overhead of a record besides the lengths of key and value: batch header (61), largest record
header (21), number of headers (1)."""

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
    """Refuse a plan with a record that the release cannot send; None: no such record.

    Profiles without `records_bounded` write larger records.
    """
    text = _NOT_WRITTEN.get(type(command))
    if text is None or not context.profile.records_bounded or not isinstance(decision, Plan):
        return None
    drafts = (draft for step in decision.steps for draft in step.records)
    all_fit = all(
        _OVERHEAD_BYTES + _field_size(draft.key) + _field_size(draft.value) <= REQUEST_MAX_BYTES
        for draft in drafts
    )
    return None if all_fit else Rejected(Reason.FAILED, text)


def _field_size(field: bytes | None) -> int:
    """Size of a key or value with its length, a varint (`DefaultRecord#recordSizeUpperBound`)."""
    size = len(field or b"")
    return size + ((2 * size + 1).bit_length() + 6) // 7  # the length -1 of null takes a byte, too


# --- the whole answer -----------------------------------------------------------------------------


def with_complete_outcome(
    state: ClusterState, command: commands.AnyCommand, plan: Plan, plugins: Plugins
) -> Plan:
    """Complete the outcome of a plan; `state` is the state on which the plan was decided."""
    outcome = msgspec.structs.replace(plan.outcome, release=state.profile.release)
    complete = _COMPLETIONS.get(type(command))
    if complete is not None and outcome.refusal is None:
        assert isinstance(command, commands.ConnectorCommand)
        after = _state_after(state, command.connector, plan)
        try:
            outcome = complete(outcome, after, command.connector, plugins)
        except views.ReadFailed as error:
            # A worker writes first and then fails to answer, so the plan itself stays.
            refusal = Rejected(Reason.FAILED, str(error))
            outcome = msgspec.structs.replace(outcome, refusal=refusal)
    return msgspec.structs.replace(plan, outcome=outcome)


def _state_after(state: ClusterState, connector: str, plan: Plan) -> ClusterState:
    """State after the plan's config records. Only the connector's own rows are copied."""
    fold = ConfigFold(state.profile)
    fold.adopt(part_of(state.config, connector))
    drafts = (draft for step in plan.steps for draft in step.records)
    for draft in drafts:
        if draft.topic == state.topics.config:
            fold.apply(Entry(draft.topic, 0, -1, -1, draft.key, draft.value))
    return msgspec.structs.replace(state, config=fold.publish())


_CompleteOutcome = Callable[[Outcome, ClusterState, str, Plugins], Outcome]
"""Completes an outcome from the state after the plan, the connector's name and the plugins."""


def _with_connector(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    """Add the connector that the command leaves, if it exists."""
    view = views.connector(after, name, plugins)
    if view is None:
        return outcome
    connector = ConnectorAfterCommand(view.config, len(view.tasks), view.type)
    return msgspec.structs.replace(outcome, connector=connector)


def _with_status(outcome: Outcome, after: ClusterState, name: str, plugins: Plugins) -> Outcome:
    """Add the reported status to the answer of a restart request."""
    if "restarting" not in outcome.facts:
        return outcome
    view = views.status(after, name, plugins)
    assert view is not None  # A plan with `restarting` requires a reported status.
    status = LeftStatus(view.type, view.connector, tuple(view.tasks.items()))
    return msgspec.structs.replace(outcome, status=status)


_COMPLETIONS: Mapping[type, _CompleteOutcome] = {
    commands.CreateConnector: _with_connector,
    commands.PutConfig: _with_connector,
    commands.PatchConfig: _with_connector,
    commands.RestoreConnector: _with_connector,
    commands.RestartConnector: _with_status,
}
"""Commands whose answer shows more than their plan contains."""
