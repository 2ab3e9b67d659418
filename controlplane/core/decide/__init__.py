"""Decides commands: command and state → plan, question or refusal. Pure and deterministic.

One table maps each kind of command to the function that decides it. The records of a plan are in
the order in which a worker of the context's profile writes them; each plan documents the reason for
its order. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.

A command whose records no worker could write or read back is refused first. A worker's config is a
map of text to text or null. Its REST interface converts numbers and booleans to text; a program
that embeds the control plane must do so itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core import commands
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
from controlplane.core.java.jackson_tokens import NAME_BYTES, STRING_UNITS
from controlplane.core.plan import Decision, Plan, Reason, Rejected
from controlplane.core.state import ClusterState

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


def decide(state: ClusterState, command: commands.AnyCommand, context: Context) -> Decision:
    """Decide a command: a plan of ordered steps, a question to ask first, or a refusal.

    `state` must include every record appended so far: the decision is only as current as its state.
    """
    decision = _malformed(command) or _TABLE[type(command)](state, command, context)
    return _oversized(command, decision, context) or decision


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
