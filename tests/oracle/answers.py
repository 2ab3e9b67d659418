"""Two answers to one case, Kafka's and ours, in one form, so that they can be compared with `==`.

What became of a record is taken from Kafka by this rule, which our fold adopts:

* an exception left the store: it *loses the batch* if it is a `KafkaException`, which is all that
  `KafkaBasedLog#poll` catches; anything else is *poison*;
* the config store logged that it could not convert the value: the record is *undecodable*, and the
  config offset stays where it was;
* a store logged anything else at WARN or ERROR: the record is *ignored* (an offset with an odd key
  is kept under its raw bytes all the same, but never listed);
* otherwise it is *accepted*, whether or not it changed anything. So is a record of which only one
  field is complained about (`DEFECTS`).
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from controlplane.core import views
from controlplane.core.codec.offsets import decode_partition, identity
from controlplane.core.entry import Entry
from controlplane.core.evolve import Call, Fold, Kind, Outcome
from controlplane.core.profiles import Profile
from controlplane.core.records import Activity, Invalid, SessionKey, Status
from controlplane.core.state import ClusterState, ConfigState, OffsetState, StatusState
from tests.oracle.case import TOPICS, Case
from tests.oracle.kafka import Answer

Common = dict[str, Any]
"""An answer by dotted names: `record 3`, `config.tasks`, `offsets.data`, …"""

UNDECODABLE = "error: Failed to convert config data"

DEFECTS = ("defaulting to", "'state.v2' field should be")
"""In complaints about one field, after which the record is read on without it."""

NO_TOPIC = "this release has no status topic"

LISTS_CONNECTORS_ONLY = "onConnectorConfig"
"""0.9 has one callback for configured and removed connectors; the worker looks which it was."""


# --- what Kafka said ------------------------------------------------------------------------


def of_kafka(answer: Answer) -> Common:
    """Kafka's answer in the common form."""
    fates = enumerate(answer["records"])
    common: Common = {f"record {number}": _fate(fate) for number, fate in fates}
    config = {name: value or None for name, value in answer["config"].items()}
    for name in ("inconsistent", "connectorsPendingFencing"):
        config[name] = sorted(config[name] or ()) or None
    config["offset"] = answer["config"]["offset"]
    config["tasks"] = {name: _task_ids(ids) for name, ids in answer["config"]["tasks"].items()}
    config["sessionKey"] = config.get("sessionKey")
    common |= {f"config.{name}": value for name, value in config.items()}
    common |= {f"status.{name}": _rows(rows) for name, rows in (answer["status"] or {}).items()}
    common["offsets.data"] = sorted(answer["offsets"]["data"], key=str)
    partitions = answer["offsets"]["partitions"] or {}
    common["offsets.partitions"] = _rows({name: _sorted(all_) for name, all_ in partitions.items()})
    common["offsets.offsets"] = _found(answer["offsets"].get("offsets") or {})
    return common


def _found(offsets: Mapping[str, list[Any]]) -> Any:
    return _rows({name: _sorted(found) for name, found in offsets.items()})


def _fate(fate: Mapping[str, Any] | None) -> Any:
    if fate is None:
        return Kind.ACCEPTED.value
    thrown = fate.get("thrown")
    calls = [[name, _announced(arguments)] for name, arguments in fate["calls"]]
    return _compact(_kind(fate), thrown, calls)


def _kind(fate: Mapping[str, Any]) -> Kind:
    if "thrown" in fate:
        return Kind.LOSES_BATCH if fate["caught"]["boolean"] else Kind.POISON
    complaints = fate["complaints"]
    if any(complaint.startswith(UNDECODABLE) for complaint in complaints):
        return Kind.UNDECODABLE
    serious = [one for one in complaints if not any(defect in one for defect in DEFECTS)]
    return Kind.IGNORED if serious else Kind.ACCEPTED


def _compact(kind: Kind, thrown: str | None, calls: list[Any]) -> Any:
    """Most records are accepted and nobody is told: they are one word."""
    return [kind.value, thrown, calls] if thrown or calls else kind.value


def _announced(arguments: list[Any]) -> list[Any]:
    """Task ids come in the order of a HashMap, which nobody relies on."""
    return [sorted(one) if isinstance(one, list) else one for one in arguments]


def _task_ids(ids: Any) -> Any:
    return ids if isinstance(ids, str) else [number for _, number in ids]


def _rows(rows: Mapping[str, Any] | None) -> Any:
    """Without rows that are empty: nobody can tell them from rows that never were."""
    return {name: row for name, row in (rows or {}).items() if row}


def _sorted(items: list[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


# --- what we say ----------------------------------------------------------------------------


def of_fold(case: Case, profile: Profile) -> Common:
    """Our fold's answer in the common form."""
    if case.batch:
        return _polled(case, profile)
    fold = Fold(profile)
    common: Common = {}
    for number, entry in enumerate(case.entries):
        fold.live = number >= case.startup
        common[f"record {number}"] = _outcome(fold.apply(entry), profile)
    return common | _state(fold.snapshot())


def _polled(case: Case, profile: Profile) -> Common:
    """What a running worker is left with: batches lose their ends, and its thread may die."""
    fold = Fold(profile, live=True)
    for start in range(0, len(case.entries), case.batch):
        fate = _read_batch(fold, case.entries[start : start + case.batch])
        if fate is Kind.POISON and not profile.log_thread_survives:
            break
    return _state(fold.snapshot())


def _read_batch(fold: Fold, entries: tuple[Entry, ...]) -> Kind:
    """Fold entries up to the first that costs the rest of the batch; what became of the last."""
    kind = Kind.ACCEPTED
    for entry in entries:
        kind = fold.apply(entry).kind
        if kind in (Kind.POISON, Kind.LOSES_BATCH):
            break
    return kind


def _outcome(outcome: Outcome, profile: Profile) -> Any:
    if outcome.reason == NO_TOPIC:
        return Kind.ACCEPTED.value
    calls = [_call(call, profile) for call in outcome.calls]
    return _compact(outcome.kind, outcome.thrown, calls)


def _call(call: Call, profile: Profile) -> list[Any]:
    one_for_both = not profile.target_states
    match call.name:
        case "connector config":
            return [LISTS_CONNECTORS_ONLY + ("" if one_for_both else "Update"), [call.subject]]
        case "connector removed":
            return [LISTS_CONNECTORS_ONLY + ("" if one_for_both else "Remove"), [call.subject]]
        case "target state":
            return ["onConnectorTargetStateChange", [call.subject]]
        case "task configs":
            return ["onTaskConfigUpdate", [sorted(map(list, call.subject))]]
        case "session key":
            return ["onSessionKeyUpdate", [_session_key(call.subject)]]
        case "restart":
            return ["onRestartRequest", [_restart(call)]]
        case "logger level":
            return ["onLoggingLevelUpdate", [call.subject, call.detail]]
        case unknown:
            return [unknown]


def _restart(call: Call) -> Any:
    request = call.detail
    flags = {"includeTasks": request.include_tasks, "onlyFailed": request.only_failed}
    return {"connectorName": request.connector, **_plain(flags)}


def _session_key(key: SessionKey | None) -> Any:
    if key is None:
        return None
    return {"key": [key.algorithm, key.key.hex()], "creationTimestamp": key.created_at_ms}


def _state(state: ClusterState) -> Common:
    common = {f"config.{name}": value for name, value in _config(state).items()}
    if state.profile.statuses:
        common |= {f"status.{name}": value for name, value in _status(state.status).items()}
    offsets = state.offsets[TOPICS.offsets]
    common["offsets.data"] = sorted(map(_raw, offsets.values.items()), key=str)
    common["offsets.partitions"] = _partitions(offsets, state.profile)
    common["offsets.offsets"] = _found(_offsets(state))
    return common


def _config(state: ClusterState) -> Common:
    config = state.config
    common: Common = {
        "connectorConfigs": _plain(config.connectors),
        "connectorTargetStates": {name: one.value for name, one in config.targets.items()},
        "connectorTaskCounts": dict(config.task_counts),
        "taskConfigs": _flat(config.tasks),
        "deferredTaskUpdates": {name: _flat({name: row}) for name, row in config.deferred.items()},
        "inconsistent": sorted(config.inconsistent),
        "connectorTaskCountRecords": dict(config.fenced_counts),
        "connectorTaskConfigGenerations": dict(config.generations),
        "connectorsPendingFencing": sorted(config.pending_fencing),
        "sessionKey": _session_key(config.session_key),
        "appliedConnectorConfigs": _plain(config.applied),
    }
    common = {name: value or None for name, value in common.items()}
    return common | {"offset": config.offset, "tasks": _tasks(config, state.profile)}


def _tasks(config: ConfigState, profile: Profile) -> Common:
    names = config.connectors.keys() | config.task_counts.keys()
    return {name: _ids(config, name, profile) for name in names}


def _ids(config: ConfigState, name: str, profile: Profile) -> Any:
    negative = config.task_counts.get(name, 0) < 0 and name not in config.inconsistent
    if negative and profile.negative_count_throws:
        return "IllegalArgumentException"
    return list(config.task_ids(name))


def _flat(tasks: Mapping[str, Mapping[int, Any]]) -> Common:
    rows = tasks.items()
    return {f"{id_}/{name}": _plain(one) for name, row in rows for id_, one in row.items()}


def _status(status: StatusState) -> Common:
    rows = status.tasks.items()
    tasks = {name: {str(id_): _shown(one) for id_, one in row.items()} for name, row in rows}
    topics = status.active_topics.items()
    active = {name: {topic: _active(one) for topic, one in row.items()} for name, row in topics}
    connectors = {name: _shown(one) for name, one in status.connectors.items()}
    return {"connectors": connectors, "tasks": _rows(tasks), "topics": _rows(active)}


def _shown(status: Status) -> Common:
    return {
        "state": status.state.value,
        "trace": status.trace,
        "workerId": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def _active(activity: Activity) -> Common:
    return {
        "topic": activity.topic,
        "connector": activity.connector,
        "task": activity.task,
        "discoverTimestamp": activity.discovered_at_ms,
    }


def _raw(item: tuple[bytes | None, bytes | None]) -> list[str | None]:
    return [None if one is None else one.hex() for one in item]


def _partitions(offsets: OffsetState, profile: Profile) -> Common:
    """What a worker lists: partitions with a record that no tombstone has hidden."""
    found: dict[str, list[Any]] = {}
    seen = set(offsets.hidden)
    for key, value in offsets.values.items() if profile.offset_partitions else ():
        subject = decode_partition(key, profile)
        if value is None or isinstance(subject, Invalid) or identity(subject) in seen:
            continue
        seen.add(identity(subject))
        found.setdefault(subject.connector, []).append(_plain(subject.partition))
    return {name: _sorted(partitions) for name, partitions in found.items()}


def _offsets(state: ClusterState) -> Mapping[str, list[Any]]:
    """What a worker answers when it is asked for the offsets of each connector."""
    owners = views.offset_owners(state) if state.profile.offset_partitions else ()
    found = ((name, views.source_offsets(state, name)) for name in owners)
    return {name: [_plain([one.partition, one.offset]) for one in all_] for name, all_ in found}


def _plain(value: Any) -> Any:
    """A value with its type: Python thinks that `1`, `1.0` and `True` are equal, Java does not."""
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, float):
        return {"double": struct.pack(">d", value).hex()}
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def differences(kafka: Common, ours: Common) -> Mapping[str, tuple[Any, Any]]:
    """Where the two differ: name → (Kafka's, ours)."""
    if kafka == ours:
        return {}
    names = [*kafka, *(name for name in ours if name not in kafka)]
    pairs = ((name, (kafka.get(name), ours.get(name))) for name in names)
    return {name: pair for name, pair in pairs if pair[0] != pair[1]}
