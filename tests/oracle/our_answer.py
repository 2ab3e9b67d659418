"""Our fold's answer to a case, in the common form: record by record, and loaded in bulk."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.core import views
from controlplane.core.codec.offsets import decode_partition, identity
from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import FateKind, Fold, ListenerCall, RecordFate
from controlplane.core.fold.bulk import load
from controlplane.core.records import Activity, Invalid, SessionKey, Status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, ConfigState, OffsetState, StatusState
from tests.oracle.case import OWN, TOPICS, Case
from tests.oracle.comparable_answers import (
    UNREAD,
    ComparableAnswer,
    compact,
    each_in_order,
    in_order,
    rows_of,
    typed,
)

NO_TOPIC = "this release has no status topic"

LISTS_CONNECTORS_ONLY = "onConnectorConfig"
"""0.9 has one callback for configured and removed connectors; the worker finds out which."""


def of_fold(case: Case, profile: Profile) -> ComparableAnswer:
    """Our fold's answer in the common form."""
    if case.batch:
        return _polled(case, profile)
    fold = Fold(profile, exactly_once=case.exactly_once)
    record_fates = []
    for number, entry in enumerate(case.entries):
        fold.live = number >= case.startup
        outcome = fold.apply(entry)
        if not case.drops(entry):
            record_fates.append(told_of(outcome, profile))
    return _with_fates(record_fates, fold, died=False)


def _with_fates(record_fates: Sequence[Any], fold: Fold, *, died: bool) -> ComparableAnswer:
    fates: ComparableAnswer = {f"record {number}": fate for number, fate in enumerate(record_fates)}
    return {**fates, "died": died, **_state(fold.snapshot())}


def of_loader(case: Case, profile: Profile) -> ComparableAnswer:
    """Answer of our bulk loader, without fates: entries at start-up first, then the rest."""
    fold = Fold(profile, exactly_once=case.exactly_once)
    for entries in (case.entries[: case.startup], case.entries[case.startup :]):
        partitions: dict[tuple[str, int], list[Entry]] = {}
        for entry in entries:
            partitions.setdefault((entry.topic, entry.partition), []).append(entry)
        load(fold, map(batch_of, partitions.values()))
    return _state(fold.snapshot())


def _polled(case: Case, profile: Profile) -> ComparableAnswer:
    """State after reading in batches. A record may end its batch, the worker or the log thread."""
    fold, (early, late) = Fold(profile), case.batches
    record_fates: list[Any] = []
    died = FateKind.POISON in (_read_batch(fold, batch, record_fates) for batch in early)
    fold.live = True
    for batch in () if died else late:
        fate = _read_batch(fold, batch, record_fates)
        if fate is FateKind.POISON and not profile.log_thread_survives:
            break
    record_fates += [UNREAD] * (len(case.visible_entries) - len(record_fates))
    return _with_fates(record_fates, fold, died=died)


def _read_batch(fold: Fold, entries: tuple[Entry, ...], record_fates: list[Any]) -> FateKind:
    """Fold entries up to the first that loses the rest of the batch; return the last fate."""
    kind, end = FateKind.ACCEPTED, len(record_fates) + len(entries)
    for entry in entries:
        outcome = fold.apply(entry)
        kind = outcome.kind
        record_fates.append(told_of(outcome, fold.profile))
        if kind in (FateKind.POISON, FateKind.LOSES_BATCH):
            break
    record_fates += [UNREAD] * (end - len(record_fates))
    return kind


def told_of(outcome: RecordFate, profile: Profile) -> Any:
    """Fate of a record, in the common form."""
    if outcome.reason == NO_TOPIC:
        return FateKind.ACCEPTED.value
    calls = [_call(call, profile) for call in outcome.calls]
    return compact(outcome.kind, outcome.thrown, calls)


def _call(call: ListenerCall, profile: Profile) -> list[Any]:
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


def _restart(call: ListenerCall) -> Any:
    request = call.detail
    flags = {"includeTasks": request.include_tasks, "onlyFailed": request.only_failed}
    return {"connectorName": request.connector, **typed(flags)}


def _session_key(key: SessionKey | None) -> Any:
    if key is None:
        return None
    return {"key": [key.algorithm, key.key.hex()], "creationTimestamp": key.created_at_ms}


def _state(state: ClusterState) -> ComparableAnswer:
    common = {f"config.{name}": value for name, value in _config(state).items()}
    if state.profile.statuses:
        common |= {f"status.{name}": value for name, value in _status(state.status).items()}
    for store, topic in (("offsets", TOPICS.offsets), ("own", OWN)):
        offsets = state.offsets.get(topic, OffsetState())
        common[f"{store}.data"] = sorted(map(_raw, offsets.values.items()), key=str)
        common[f"{store}.partitions"] = _partitions(offsets, state.profile)
    common["offsets.offsets"] = each_in_order(_offsets(state))
    return common


def _config(state: ClusterState) -> ComparableAnswer:
    config = state.config
    common: ComparableAnswer = {
        "connectorConfigs": typed(config.connectors),
        "connectorTargetStates": {name: target.value for name, target in config.targets.items()},
        "connectorTaskCounts": dict(config.task_counts),
        "taskConfigs": _flat(config.tasks),
        "deferredTaskUpdates": {name: _flat({name: row}) for name, row in config.deferred.items()},
        "inconsistent": sorted(config.inconsistent),
        "connectorTaskCountRecords": dict(config.fenced_counts),
        "connectorTaskConfigGenerations": dict(config.generations),
        "connectorsPendingFencing": sorted(config.pending_fencing),
        "sessionKey": _session_key(config.session_key),
        "appliedConnectorConfigs": typed(config.applied),
    }
    common = {name: value or None for name, value in common.items()}
    return common | {"offset": config.offset, "tasks": _tasks(config, state.profile)}


def _tasks(config: ConfigState, profile: Profile) -> ComparableAnswer:
    names = config.connectors.keys() | config.task_counts.keys()
    return {name: _ids(config, name, profile) for name in names}


def _ids(config: ConfigState, name: str, profile: Profile) -> Any:
    negative = config.task_counts.get(name, 0) < 0 and name not in config.inconsistent
    if negative and profile.negative_count_throws:
        return "IllegalArgumentException"
    return list(config.task_ids(name))


def _flat(tasks: Mapping[str, Mapping[int, Any]]) -> ComparableAnswer:
    rows = tasks.items()
    return {
        f"{id_}/{name}": typed(properties) for name, row in rows for id_, properties in row.items()
    }


def _status(status: StatusState) -> ComparableAnswer:
    rows = status.tasks.items()
    tasks = {
        name: {str(id_): _status_fields(task_status) for id_, task_status in row.items()}
        for name, row in rows
    }
    topics = status.active_topics.items()
    active = {
        name: {topic: _active(activity) for topic, activity in row.items()} for name, row in topics
    }
    connectors = {
        name: _status_fields(connector_status)
        for name, connector_status in status.connectors.items()
    }
    return {"connectors": connectors, "tasks": rows_of(tasks), "topics": rows_of(active)}


def _status_fields(status: Status) -> ComparableAnswer:
    return {
        "state": status.state.value,
        "trace": status.trace,
        "workerId": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def _active(activity: Activity) -> ComparableAnswer:
    return {
        "topic": activity.topic,
        "connector": activity.connector,
        "task": activity.task,
        "discoverTimestamp": activity.discovered_at_ms,
    }


def _raw(item: tuple[bytes | None, bytes | None]) -> list[str | None]:
    return [None if raw_bytes is None else raw_bytes.hex() for raw_bytes in item]


def _partitions(offsets: OffsetState, profile: Profile) -> ComparableAnswer:
    """Partitions that a worker lists: a record exists, and no tombstone hides it."""
    by_connector: dict[str, list[Any]] = {}
    identities = set(offsets.hidden)
    for key, value in offsets.values.items() if profile.offset_partitions else ():
        subject = decode_partition(key, profile)
        if value is None or isinstance(subject, Invalid) or identity(subject) in identities:
            continue
        identities.add(identity(subject))
        by_connector.setdefault(subject.connector, []).append(typed(subject.partition))
    return {name: in_order(partitions) for name, partitions in by_connector.items()}


def _offsets(state: ClusterState) -> Mapping[str, list[Any]]:
    """Offsets that a worker answers for each connector."""
    owners = views.offset_owners(state) if state.profile.offset_partitions else ()
    views_by_name = ((name, views.source_offsets(state, name)) for name in owners)
    return {
        name: [typed([view.partition, view.offset]) for view in all_]
        for name, all_ in views_by_name
    }
