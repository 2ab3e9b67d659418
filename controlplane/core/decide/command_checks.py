"""Checks for commands whose records no worker can write, or none should. They run first.

A worker's config is a map of text to text or null. Its REST interface converts numbers and booleans
to text; a program that embeds the control plane must do so itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core import commands
from controlplane.core.context import Context
from controlplane.core.java.jackson_tokens import NAME_BYTES, STRING_UNITS
from controlplane.core.java.java_library import encode_key
from controlplane.core.plan import Plan, Reason, Rejected
from controlplane.core.records import Properties
from controlplane.core.state import ClusterState
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC
from controlplane.core.topics.topic_names import ALLOWED, is_legal

_TEXTS = ("connector", "namespace", "level")
"""Fields of commands that are written to a log unchanged."""


# --- whatever the release -----------------------------------------------------------------------


def malformed(command: commands.AnyCommand) -> Rejected | None:
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


# --- what a worker cannot send ------------------------------------------------------------------

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


def oversized(command: commands.AnyCommand, decision: object, context: Context) -> Rejected | None:
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


# --- what releases do, to their harm ------------------------------------------------------------


def harmful(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Rejected | None:
    """Refuse a config that the release accepts but that does harm; None: harmless."""
    fault = None
    if not context.profile.names_lose_surrogates:
        fault = _key_of_another(name)
    if fault is None and not context.profile.own_offsets_anywhere:
        fault = _misplaced_offsets(state, config, context)
    return None if fault is None else Rejected(Reason.INVALID, fault)


def _key_of_another(name: str) -> str | None:
    """Error for a name with half a surrogate pair; None: none.

    Java writes such a half as a question mark, so the key would be that of another connector.
    """
    written = encode_key(name).decode()
    if written == name:
        return None
    return (
        f"The name {name!a} holds half a surrogate pair, which no record can have in its key: it "
        f"would be written as connector {written}; choose another name"
    )


def _misplaced_offsets(state: ClusterState, config: Properties, context: Context) -> str | None:
    """Error for an offsets topic that is one of the cluster's other topics or has no legal name."""
    topic, topics = config.get(OFFSETS_TOPIC), state.topics
    if not isinstance(topic, str) or _provided(topic, context):
        return None
    if not is_legal(topic):
        return f"{OFFSETS_TOPIC} is {topic!a}, which cannot be the name of a topic: use {ALLOWED}"
    if topic in {topics.config, topics.status, topics.commands}:
        return (
            f"{OFFSETS_TOPIC} is {topic}, which is the cluster's {topics.short(topic)} topic: "
            "choose a topic of its own for offsets"
        )
    return None


def _provided(value: str, context: Context) -> bool:
    """True if a config provider supplies the value (KIP-297)."""
    return any(f"${{{name}:" in value for name in context.worker.config_providers)
