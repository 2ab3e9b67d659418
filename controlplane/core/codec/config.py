"""Codec of the config topic. Kafka: `KafkaConfigBackingStore` (0.9: `KafkaConfigStorage`)."""

from base64 import b64encode
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from controlplane.core.java import java_library, json_codec
from controlplane.core.records import (
    ConfigRecord,
    ConnectorConfig,
    Invalid,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskCount,
)
from controlplane.core.releases.profiles import Profile

# Java exceptions, as `Invalid.thrown` names them.
NULL_POINTER = "NullPointerException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
STACK_OVERFLOW = "StackOverflowError"
CONNECT = "ConnectException"

DecodeKind = Callable[[str, Any, Profile], ConfigRecord | Invalid]
"""Decodes the rest of a key after its prefix, and the JSON value, as a release does."""


def decode_config(
    key: bytes | None, value: bytes | None, profile: Profile
) -> ConfigRecord | Invalid:
    """Decode a record of the config topic as a worker of this release does.

    The value is decoded before the key is read, as in Kafka. So a value that is no JSON is skipped,
    whatever its key is. The worker's config offset does not move.
    """
    try:
        content = None if value is None else json_codec.decode(value, profile)
    except json_codec.Undecodable as error:
        return Invalid(f"undecodable value: {error}", advances=False, about=_text(key))
    except json_codec.StackOverflow as error:
        return Invalid(str(error), STACK_OVERFLOW, advances=False, about=_text(key))
    if key is None:
        return Invalid("null key", NULL_POINTER)
    return _by_prefix(json_codec.decode_key(key), content, profile)


def _text(key: bytes | None) -> str:
    return "" if key is None else json_codec.decode_key(key)


def _by_prefix(key: str, content: Any, profile: Profile) -> ConfigRecord | Invalid:
    """Decode by the prefix of the key. A kind that the release lacks is an unknown key."""
    for prefix, has_kind, decoder in _KINDS:
        if key.startswith(prefix) and has_kind(profile):
            if prefix == _SESSION_KEY and key != prefix:
                break  # this key is compared whole
            return decoder(key[len(prefix) :], content, profile)
    return Invalid("unknown key", about=key)


def _connector(name: str, content: Any, profile: Profile) -> ConfigRecord | Invalid:
    key = f"connector-{name}"
    if content is None:
        return ConnectorConfig(name, None)
    properties = _properties(key, content, profile, _CONNECTOR_POISONS)
    return properties if isinstance(properties, Invalid) else ConnectorConfig(name, properties)


_CONNECTOR_POISONS = attrgetter("connector_properties_required")
_TASK_POISONS = attrgetter("task_properties_required")


def _properties(
    key: str, content: Any, profile: Profile, poisons: Callable[[Profile], bool]
) -> dict[str, Any] | Invalid:
    """The properties of a value. `poisons` tells if the release throws when they are missing."""
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=key)
    properties = content.get("properties")
    if isinstance(properties, dict):
        return properties
    thrown = NULL_POINTER if properties is None and poisons(profile) else None
    return Invalid("properties is missing or not an object", thrown, about=key)


def _task(rest: str, content: Any, profile: Profile) -> ConfigRecord | Invalid:
    """Decode a task config, `task-<connector>-<task>`."""
    key = f"task-{rest}"
    task_key = parsed_task_key(key, _TASK_PREFIX_PARTS)
    if isinstance(task_key, Invalid):
        return task_key
    if content is None:
        return Invalid("value is unexpectedly null", about=key)
    properties = _properties(key, content, profile, _TASK_POISONS)
    if isinstance(properties, Invalid):
        return properties
    return TaskConfig(*task_key, properties)


def parsed_task_key(key: str, prefix_parts: int) -> tuple[str, int] | Invalid:
    """Connector and task of a key `<prefix>-<connector>-<task>`; the connector may have dashes.

    `prefix_parts`: the number of the prefix's parts between dashes.
    """
    parts = java_library.split_dashes(key)
    task = java_library.parse_int(parts[-1]) if len(parts) > prefix_parts + 1 else None
    if task is None:
        return Invalid("task id cannot be parsed", about=key)
    return "-".join(parts[prefix_parts:-1]), task


def _target(name: str, content: Any, profile: Profile) -> ConfigRecord | Invalid:
    key = f"target-state-{name}"
    if content is None:
        return TargetState(name, None)
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=key)
    # A string under state.v2 decides, even an unknown one: there is no fallback to `state`.
    state = content.get("state.v2") if profile.target_state_v2 else None
    if not isinstance(state, str):
        state = content.get("state")
    if not isinstance(state, str):
        return Invalid("state is missing or not a string", about=key)
    if state not in (_TARGETS_V2 if profile.target_state_v2 else _TARGETS_V1):
        return Invalid(f"unknown target state {state!r}", about=key)
    return TargetState(name, Target(state))


def _commit(name: str, content: Any, _: Profile) -> ConfigRecord | Invalid:
    count = _count(f"commit-{name}", content, "tasks")
    return count if isinstance(count, Invalid) else TaskCommit(name, count)


def _fencing(name: str, content: Any, _: Profile) -> ConfigRecord | Invalid:
    count = _count(f"tasks-fencing-{name}", content, "task-count")
    return count if isinstance(count, Invalid) else TaskCount(name, count)


def _count(key: str, content: Any, field: str) -> int | Invalid:
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=key)
    number = content.get(field)
    if type(number) is not int:
        return Invalid(f"{field} is missing or not an integer", CONNECT, about=key)
    return number if number in _INT_RANGE else java_library.narrow_int(number)


def _session_key(_: str, content: Any, profile: Profile) -> ConfigRecord | Invalid:
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=_SESSION_KEY)
    # Kafka checks the fields in this order, so the first wrong one decides the record's fate.
    thrown_if_missing = NULL_POINTER if profile.session_key_fields_required else None
    secret = content.get("key")
    if not isinstance(secret, str):
        return _bad_session_key("key", secret, thrown_if_missing)
    decoded = java_library.decode_base64(secret)
    if decoded is None:
        return Invalid("key is not base64", ILLEGAL_ARGUMENT, about=_SESSION_KEY)
    algorithm, created = content.get("algorithm"), content.get("creation-timestamp")
    if not isinstance(algorithm, str):
        return _bad_session_key("algorithm", algorithm, thrown_if_missing)
    if type(created) is not int:
        return _bad_session_key("creation-timestamp", created, thrown_if_missing)
    if not decoded:
        return Invalid("key is empty", ILLEGAL_ARGUMENT, about=_SESSION_KEY)
    return SessionKey(decoded, algorithm, created)


def _bad_session_key(field: str, content: Any, thrown_if_missing: str | None) -> Invalid:
    thrown = thrown_if_missing if content is None else None
    return Invalid(f"{field} is missing or of a wrong type", thrown, about=_SESSION_KEY)


def _restart(name: str, content: Any, _: Profile) -> ConfigRecord | Invalid:
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=f"restart-connector-{name}")
    # Flags that are not booleans count as false.
    flags = (content.get(field) is True for field in ("include-tasks", "only-failed"))
    return RestartRequest(name, *flags)


def _logger(namespace: str, content: Any, _: Profile) -> ConfigRecord | Invalid:
    key = f"logger-cluster-{namespace}"
    if not isinstance(content, dict):
        return Invalid("value is not an object", about=key)
    level = content.get("level")
    if not isinstance(level, str):
        return Invalid("level is missing or not a string", about=key)
    return LoggerLevel(namespace, level)


_INT_RANGE: Final = range(-(2**31), 2**31)
_SESSION_KEY = "session-key"
_TASK_PREFIX_PARTS = 1
_TARGETS_V1 = ("STARTED", "PAUSED")
_TARGETS_V2 = ("STARTED", "PAUSED", "STOPPED")

# No prefix is the beginning of another: `task-` and `tasks-fencing-` differ at the fifth letter. So
# their order is irrelevant, and no connector name can turn a record into one of another kind.
_KINDS: tuple[tuple[str, Callable[[Profile], bool], DecodeKind], ...] = (
    ("target-state-", lambda profile: profile.target_states, _target),
    ("connector-", lambda _: True, _connector),
    ("task-", lambda _: True, _task),
    ("commit-", lambda _: True, _commit),
    ("restart-connector-", lambda profile: profile.restart_requests, _restart),
    ("tasks-fencing-", lambda profile: profile.fencing, _fencing),
    (_SESSION_KEY, lambda profile: profile.session_keys, _session_key),
    ("logger-cluster-", lambda profile: profile.logger_levels, _logger),
)


def encode_config(record: ConfigRecord, profile: Profile) -> tuple[bytes, bytes | None]:
    """Encode a config record to key and value, in the same bytes as a worker of this release.

    A kind of record that the release lacks is written as later releases do. The caller decides
    which kinds it writes.
    """
    key, content = _content(record, profile)
    value = None if content is None else json_codec.encode(content)
    return json_codec.encode_key(key), value


def _content(record: ConfigRecord, profile: Profile) -> tuple[str, dict[str, Any] | None]:
    """Key and JSON value of a record; None: a tombstone. The order of fields is Kafka's."""
    match record:
        case ConnectorConfig(name, properties):
            return f"connector-{name}", None if properties is None else {"properties": properties}
        case TargetState(name, state):
            return f"target-state-{name}", None if state is None else _both_states(state, profile)
        case TaskConfig(name, task, properties):
            return f"task-{name}-{task}", {"properties": properties}
        case TaskCommit(name, tasks):
            return f"commit-{name}", {"tasks": tasks}
        case TaskCount(name, tasks):
            return f"tasks-fencing-{name}", {"task-count": tasks}
        case SessionKey(key, algorithm, created):
            secret = b64encode(key).decode("ascii")
            return _SESSION_KEY, {
                "key": secret,
                "algorithm": algorithm,
                "creation-timestamp": created,
            }
        case RestartRequest(name, include_tasks, only_failed):
            flags = {"include-tasks": include_tasks, "only-failed": only_failed}
            return f"restart-connector-{name}", flags
        case LoggerLevel(namespace, level):
            return f"logger-cluster-{namespace}", {"level": level}


def _both_states(state: Target, profile: Profile) -> dict[str, str]:
    """Fields of a target state (KIP-875).

    `state` is for workers that do not know STOPPED: it holds PAUSED instead.
    """
    nearest = Target.PAUSED if state is Target.STOPPED else state
    if not profile.target_state_v2:
        return {"state": nearest.value}
    return {"state": nearest.value, "state.v2": state.value}
