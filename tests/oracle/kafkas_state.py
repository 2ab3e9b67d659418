"""Conversion of a comparable answer to a state, so that views can print Kafka's answers.

The state has only the facts that the views of a scenario show: no positions, ends or causes.
"""

import struct
from collections.abc import Mapping
from typing import Any

from controlplane.core.codec.offsets import decode_partition, identity
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, ListenerCall, RecordFate
from controlplane.core.records import (
    Activity,
    Invalid,
    RestartRequest,
    SessionKey,
    State,
    Status,
    Target,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, ConfigState, OffsetState, StatusState
from tests.oracle.case import OWN, TOPICS
from tests.oracle.comparable_answers import ComparableAnswer, in_order, typed


def state_of(common: ComparableAnswer, profile: Profile) -> ClusterState:
    """State of a worker whose stores gave this answer."""
    return ClusterState(
        profile,
        TOPICS,
        config=_config(common),
        status=_status(common),
        offsets={
            TOPICS.offsets: _offsets("offsets", common, profile),
            OWN: _offsets("own", common, profile),
        },
    )


def untyped(value: Any) -> Any:
    """Invert `comparable_answers.typed`."""
    match value:
        case {"boolean": bool(plain), **rest} if not rest:
            return plain
        case {"double": str(bits), **rest} if not rest:
            return struct.unpack(">d", bytes.fromhex(bits))[0]
        case Mapping():
            return {name: untyped(member) for name, member in value.items()}
        case list():
            return [untyped(element) for element in value]
    return value


# --- states ---------------------------------------------------------------------------------


def _config(common: ComparableAnswer) -> ConfigState:
    def config_field(name: str) -> Any:
        return common.get(f"config.{name}") or {}

    key = common.get("config.sessionKey")
    deferred = config_field("deferredTaskUpdates").items()
    return ConfigState(
        common["config.offset"],
        untyped(config_field("connectorConfigs")),
        {name: Target(state) for name, state in config_field("connectorTargetStates").items()},
        config_field("connectorTaskCounts"),
        _by_connector(config_field("taskConfigs")),
        {name: _by_connector(waiting).get(name, {}) for name, waiting in deferred},
        dict.fromkeys(config_field("inconsistent"), True),
        config_field("connectorTaskCountRecords"),
        config_field("connectorTaskConfigGenerations"),
        dict.fromkeys(config_field("connectorsPendingFencing"), True),
        untyped(config_field("appliedConnectorConfigs")),
        None if key is None else _session_key(key),
    )


def _by_connector(flat: Mapping[str, Any]) -> dict[str, dict[int, Any]]:
    """Convert `{"0/c": …}` to `{"c": {0: …}}`."""
    by_connector: dict[str, dict[int, Any]] = {}
    for place, config in flat.items():
        task, _, name = place.partition("/")
        by_connector.setdefault(name, {})[int(task)] = untyped(config)
    return by_connector


def _session_key(fields: Mapping[str, Any]) -> SessionKey:
    algorithm, key = fields["key"]
    return SessionKey(bytes.fromhex(key), algorithm, fields["creationTimestamp"])


def _status(common: ComparableAnswer) -> StatusState:
    connectors = common.get("status.connectors", {})
    tasks, topics = common.get("status.tasks", {}), common.get("status.topics", {})
    return StatusState(
        {name: _report(fields) for name, fields in connectors.items()},
        {
            name: {int(task): _report(fields) for task, fields in row.items()}
            for name, row in tasks.items()
        },
        {
            name: {topic: _activity(fields) for topic, fields in row.items()}
            for name, row in topics.items()
        },
    )


def _report(fields: Mapping[str, Any]) -> Status:
    return Status(
        State(fields["state"]),
        fields["trace"],
        fields["workerId"],
        fields["generation"],
        fields["version"],
    )


def _activity(fields: Mapping[str, Any]) -> Activity:
    return Activity(
        fields["topic"], fields["connector"], fields["task"], fields["discoverTimestamp"]
    )


def _offsets(store: str, common: ComparableAnswer, profile: Profile) -> OffsetState:
    """Offsets as raw bytes; partitions with a record that a worker does not list are hidden."""
    values = {_raw(key): _raw(value) for key, value in common[f"{store}.data"]}
    listed = common[f"{store}.partitions"]
    hidden = {}
    for key in values:
        subject = decode_partition(key, profile)
        if not isinstance(subject, Invalid):
            (partition,) = in_order([typed(subject.partition)])
            if partition not in listed.get(subject.connector, ()):
                hidden[identity(subject)] = True
    return OffsetState(values, hidden)


def _raw(hex_text: str | None) -> bytes | None:
    return None if hex_text is None else bytes.fromhex(hex_text)


# --- what became of each record -------------------------------------------------------------


def outcome_of(fate: Any, entry: Entry) -> RecordFate:
    """Fate and listener calls of one record; only our fold has the reason."""
    kind, thrown, calls = (fate, None, []) if isinstance(fate, str) else fate
    told_to = tuple(_call(name, arguments, entry) for name, arguments in calls)
    return RecordFate(FateKind(kind), "", thrown, told_to)


def _call(name: str, arguments: list[Any], entry: Entry) -> ListenerCall:
    match name, arguments:
        case "onConnectorConfig" | "onConnectorConfigUpdate" | "onConnectorConfigRemove", [subject]:
            # 0.9 has one callback for both: the record says which it was.
            gone = name.endswith("Remove") or (name == "onConnectorConfig" and not entry.value)
            return ListenerCall("connector removed" if gone else "connector config", subject)
        case "onConnectorTargetStateChange", [subject]:
            return ListenerCall("target state", subject)
        case "onTaskConfigUpdate", [tasks]:
            return ListenerCall("task configs", frozenset(map(tuple, tasks)))
        case "onSessionKeyUpdate", [key]:
            return ListenerCall("session key", _session_key(key))
        case "onRestartRequest", [fields]:
            flags = untyped(fields["includeTasks"]), untyped(fields["onlyFailed"])
            request = RestartRequest(fields["connectorName"], *flags)
            return ListenerCall("restart", request.connector, request)
        case "onLoggingLevelUpdate", [namespace, level]:
            return ListenerCall("logger level", namespace, level)
    return ListenerCall(name, arguments)
