"""Codec of the status topic. Kafka: `KafkaStatusBackingStore`."""

from functools import cache
from typing import Any

from controlplane.core.codec.config import NULL_POINTER, STACK_OVERFLOW, parsed_task_key
from controlplane.core.java import java_library, json_codec
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    ConnectorStatus,
    Invalid,
    State,
    Status,
    StatusRecord,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile

_CONNECTOR = "status-connector-"
_TASK = "status-task-"
_TOPIC = "status-topic-"
_TOPIC_SEPARATOR = ":connector-"
_TASK_PREFIX_PARTS = 2
_FIRST_STATES = ("UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "DESTROYED")
"""States of every release that has statuses."""


def decode_status(
    key: bytes | None, value: bytes | None, profile: Profile
) -> StatusRecord | Invalid:
    """Decode a record of the status topic as a worker of this release does.

    Only Kafka's null is a tombstone here, unlike in the config topic. JSON `null` is malformed. A
    malformed record is ignored and the previous status stays.
    """
    if not profile.statuses:
        return Invalid("this release has no status topic")
    if key is None:
        return Invalid("null key", NULL_POINTER)
    text = json_codec.decode_key(key)
    try:
        if text.startswith(_CONNECTOR):
            return _connector(text, value, profile)
        if text.startswith(_TASK):
            return _task(text, value, profile)
        if text.startswith(_TOPIC) and profile.status_topics:
            return _topic(text, value, profile)
    except _MalformedError as error:
        return Invalid(str(error), about=text)
    except json_codec.Undecodable as error:
        return Invalid(f"undecodable value: {error}", about=text)
    except json_codec.StackOverflow as error:
        return Invalid(str(error), STACK_OVERFLOW, about=text)
    return Invalid("unknown key", about=text)


class _MalformedError(Exception):
    """A field of a status is missing or wrong. The message names it."""


def _connector(key: str, value: bytes | None, profile: Profile) -> StatusRecord | Invalid:
    name = key[len(_CONNECTOR) :]
    if not name:
        return Invalid("no connector name", about=key)
    return ConnectorStatus(name, None if value is None else _status(value, profile))


def _task(key: str, value: bytes | None, profile: Profile) -> StatusRecord | Invalid:
    task_key = parsed_task_key(key, _TASK_PREFIX_PARTS)
    if isinstance(task_key, Invalid):
        return task_key
    return TaskStatus(*task_key, None if value is None else _status(value, profile))


def _status(value: bytes, profile: Profile) -> Status:
    """Decode the value of a status; a state that the release lacks is malformed."""
    content = _object(json_codec.decode(value, profile), "value")
    state_names = _states(profile.status_restarting, profile.status_stopped)
    name = _text(content, "state")
    state = state_names.get(name)
    if state is None:
        raise _MalformedError(f"unknown state {name!r}")
    generation = _integer(content, "generation")
    return Status(
        state,
        _optional_text(content, "trace"),
        _optional_text(content, "worker_id"),
        java_library.narrow_int(generation),
        _optional_text(content, "version") if profile.status_version else None,
    )


@cache
def _states(restarting: bool, stopped: bool) -> dict[str, State]:
    """States by name, in a release with or without RESTARTING and STOPPED."""
    names = (*_FIRST_STATES, *["RESTARTING"] * restarting, *["STOPPED"] * stopped)
    return {name: State(name) for name in names}


def _topic(key: str, value: bytes | None, profile: Profile) -> StatusRecord | Invalid:
    """Decode an active topic, `status-topic-<topic>:connector-<name>` (KIP-558)."""
    colon = key.find(":")
    topic = key[len(_TOPIC) : colon] if colon >= 0 else ""
    # Kafka does not compare the separator. It skips the colon and the next ten UTF-16 units,
    # whatever they are: `:connector-` has this length.
    separated = java_library.substring(key[colon:], len(_TOPIC_SEPARATOR)) if colon >= 0 else None
    connector = separated or ""
    if not topic or not connector:
        return Invalid("no topic or no connector name", about=key)
    if value is None:
        return ActiveTopic(connector, topic, None)
    content = _object(json_codec.decode(value, profile), "value")
    inner = _object(content.get("topic"), "topic")
    activity = Activity(
        _text(inner, "name"),
        _text(inner, "connector"),
        java_library.narrow_int(_integer(inner, "task")),
        _integer(inner, "discoverTimestamp"),
    )
    return ActiveTopic(connector, topic, activity)


def _object(content: Any, noun: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise _MalformedError(f"{noun} is not an object")
    return content


def _integer(content: dict[str, Any], field: str) -> int:
    number = content.get(field)
    if type(number) is not int:
        raise _MalformedError(f"{field} is missing or not an integer")
    return number


def _text(content: dict[str, Any], field: str) -> str:
    text = _optional_text(content, field)
    if text is None:
        raise _MalformedError(f"{field} is missing")
    return text


def _optional_text(content: dict[str, Any], field: str) -> str | None:
    text = content.get(field)
    if text is not None and not isinstance(text, str):
        raise _MalformedError(f"{field} is not a string")
    return text


def encode_status(record: StatusRecord, profile: Profile) -> tuple[bytes, bytes | None]:
    """Encode a status record to key and value, in the same bytes as a worker of this release."""
    match record:
        case ConnectorStatus(name, status):
            key, content = f"{_CONNECTOR}{name}", _status_content(status, profile)
        case TaskStatus(name, task, status):
            key, content = f"{_TASK}{name}-{task}", _status_content(status, profile)
        case ActiveTopic(name, topic, activity):
            key = f"{_TOPIC}{topic}{_TOPIC_SEPARATOR}{name}"
            content = None if activity is None else {"topic": _activity_content(activity)}
    encoded = None if content is None else json_codec.encode(content)
    return json_codec.encode_key(key), encoded


def _status_content(status: Status | None, profile: Profile) -> dict[str, Any] | None:
    if status is None:
        return None
    content: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
    }
    return content | ({"version": status.version} if profile.status_version else {})


def _activity_content(activity: Activity) -> dict[str, Any]:
    return {
        "name": activity.topic,
        "connector": activity.connector,
        "task": activity.task,
        "discoverTimestamp": activity.discovered_at_ms,
    }
