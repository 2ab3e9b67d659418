"""What a worker could never write, or should not: told before anything else is looked at.

A worker's configs are maps of text to text or null. Its REST interface makes text of numbers and
truths; who asks from within a program must do so himself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.core import commands
from controlplane.core.context import Context
from controlplane.core.jackson import MAX_NAME_BYTES, MAX_STRING_UNITS
from controlplane.core.java import encode_key
from controlplane.core.plan import Plan, Reason, Rejected
from controlplane.core.records import Properties
from controlplane.core.source_partitions import OFFSETS_TOPIC
from controlplane.core.state import ClusterState
from controlplane.core.topic_names import ALLOWED, is_legal

_TEXTS = ("connector", "namespace", "level")
"""Fields of commands that go into a log as they are."""


# --- whatever the release -----------------------------------------------------------------------


def malformed(command: commands.AnyCommand) -> Rejected | None:
    """What in a command is no text that can be read back; None if all is as it should be."""
    faults = (*_texts(command), *(one for config in _configs(command) for one in _faults(config)))
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
    return ()  # what an undo puts back was in the log once, whatever it is


def _faults(config: Any) -> Iterator[str]:
    """Values are not repeated: they may be secrets."""
    if not isinstance(config, dict):
        yield f"A config must be a dict of texts, and not {_kind(config)}"
        return
    for key, value in config.items():
        if type(key) is not str:
            yield f"Every key of a config must be text, and {key!a} is {_kind(key)}"
        elif len(key.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            told = f"A key of the config, {key[:_SHOWN]!a}..., has more than {MAX_NAME_BYTES} bytes"
            yield f"{told}, which nobody could read back: shorten it"
        elif value is not None and type(value) is not str:
            told = "Every value of a config must be text or null, and that of"
            yield f"{told} {key!a} is {_kind(value)}"
        elif value is not None and _is_too_long(value):
            yield f"The value of {key!a} in the config {_TOO_LONG}"


_TOO_LONG = f"has more than {MAX_STRING_UNITS} characters, which nobody could read back: shorten it"

_SHOWN = 40
"""Characters of a key that is too long, as they are repeated."""


def _is_too_long(text: str) -> bool:
    """Whether a reader with Jackson's limits takes it for no string; characters are Java's."""
    return (
        2 * len(text) > MAX_STRING_UNITS
        and len(text.encode("utf-16-le", "surrogatepass")) > 2 * MAX_STRING_UNITS
    )


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"


# --- what a worker cannot send ------------------------------------------------------------------

REQUEST_MAX_BYTES = 1_048_576
"""Of one record, with all that goes with it (`max.request.size` of a producer, by default)."""

OVERHEAD_BYTES = 88
"""What goes with it, in these sizes: the head of a batch (61), the most that a record takes (21),
the lengths of key and value, the number of headers (`DefaultRecord#recordSizeUpperBound`)."""

CONFIG_NOT_WRITTEN = "Error writing connector configuration to Kafka"
TASKS_NOT_WRITTEN = "Error writing task configurations to Kafka"

_NOT_WRITTEN: Mapping[type, str] = {
    commands.CreateConnector: CONFIG_NOT_WRITTEN,
    commands.PutConfig: CONFIG_NOT_WRITTEN,
    commands.PatchConfig: CONFIG_NOT_WRITTEN,
    commands.PublishTasks: TASKS_NOT_WRITTEN,
}
"""What can be that large, and what a worker says of it."""


def oversized(command: commands.AnyCommand, decision: object, context: Context) -> Rejected | None:
    """Why a plan cannot be carried out by a release, though our own logs take larger records."""
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
    """Why a config that a release would take is not written by us; None: it may be."""
    told = None
    if not context.profile.names_lose_surrogates:
        told = _key_of_another(name)
    if told is None and not context.profile.own_offsets_anywhere:
        told = _misplaced_offsets(state, config, context)
    return None if told is None else Rejected(Reason.INVALID, told)


def _key_of_another(name: str) -> str | None:
    """In Java's UTF-8 half a surrogate is a question mark: the key is that of another connector."""
    written = encode_key(name).decode()
    if written == name:
        return None
    return (
        f"The name {name!a} holds half a surrogate pair, which no record can have in its key: it "
        f"would be written as connector {written}; choose another name"
    )


def _misplaced_offsets(state: ClusterState, config: Properties, context: Context) -> str | None:
    """Offsets among records that mean something else, or where no topic can be."""
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
    """Whether a config provider will say what the value is (KIP-297)."""
    return any(f"${{{name}:" in value for name in context.worker.config_providers)
