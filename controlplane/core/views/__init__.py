"""Views of a `ClusterState`, as pure functions.

Each view shows what the state's own worker would answer: `state.profile` decides. Names and shapes
follow Connect's REST entities; `rest/endpoints/entities.py` spells them on the wire.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec.offsets import (
    decode_offset,
    decode_partition,
    encode_partition,
    is_flat,
)
from controlplane.core.plugins import Plugins
from controlplane.core.records import Invalid, Properties, SourcePartition, Status, Target
from controlplane.core.state import Aspect, ClusterState, OffsetState
from controlplane.core.topics.source_partitions import listed, topics_of

TASKS_MAX = 1_000_000
"""Limit for listing the tasks of a connector. A committed count may be any int32. With more tasks a
worker runs out of memory, and so would this process."""


class ReadFailed(Exception):
    """A worker of this profile fails to answer. The message is Java's, except for `TASKS_MAX`."""


class ConnectorView(msgspec.Struct, frozen=True):
    """A connector from its config (`GET /connectors/{c}`)."""

    name: str
    config: Properties
    tasks: range
    type: str


class StatusView(msgspec.Struct, frozen=True):
    """A connector and its tasks as reported by workers (`GET /connectors/{c}/status`)."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: str


class OffsetView(NamedTuple):
    """A source partition and the connector's offset in it."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None
    key: bytes | None
    """Key under which the worker looks up the offset."""
    raw: bytes | None
    """Key of the partition in the log."""


class UnreadableOffset(NamedTuple):
    """A source partition that a worker leaves out of its answer, with the record."""

    partition: Mapping[str, Any]
    reason: str
    topic: str
    key: bytes | None
    value: bytes | None


class SourceOffsetsView(NamedTuple):
    """The source partitions of a connector that a worker finds."""

    shown: list[OffsetView]
    left_out: list[UnreadableOffset]


def connectors(state: ClusterState) -> list[str]:
    """Names of all connectors with a config, including half-written ones."""
    return sorted(state.config.connectors)


def connector(state: ClusterState, name: str, plugins: Plugins) -> ConnectorView | None:
    """One connector; None: no such connector.

    Raises:
        ReadFailed: the worker cannot list the tasks.
    """
    config = state.config.connectors.get(name)
    if config is None:
        return None
    return ConnectorView(name, config, task_ids(state, name), connector_type(state, name, plugins))


def connector_type(state: ClusterState, name: str, plugins: Plugins) -> str:
    """`source`, `sink` or `unknown`; a connector without config is also `unknown`."""
    config = state.config.connectors.get(name, {})
    return plugins.type_of(config.get("connector.class"), state.profile)


def task_ids(state: ClusterState, name: str) -> range:
    """Tasks that the worker would run, by number; none while the connector is inconsistent.

    Kafka: `ClusterConfigState#tasks`.

    Raises:
        ReadFailed: the count is above `TASKS_MAX`. Some releases also fail at a negative count
            (`Profile.negative_count_throws`).
    """
    if name in state.config.inconsistent:
        return range(0)
    count = _task_count(state, name)
    if count < 0 and state.profile.negative_count_throws:
        raise ReadFailed(f"Illegal Capacity: {count}")
    return state.config.task_ids(name)


def _task_count(state: ClusterState, name: str) -> int:
    count = state.config.task_counts.get(name, 0)
    if count > TASKS_MAX:
        raise ReadFailed(f"{count} tasks are more than a worker can list")
    return count


def task_configs(state: ClusterState, name: str) -> dict[int, Properties | None]:
    """Config of each task up to the count; None: an inconsistent connector lacks the config.

    Raises:
        ReadFailed: the count is above `TASKS_MAX`.
    """
    tasks = state.config.tasks.get(name, {})
    return {id_: tasks.get(id_) for id_ in range(max(0, _task_count(state, name)))}


def target(state: ClusterState, name: str) -> Target | None:
    """Target state of a connector; None: the log has none for this name."""
    return state.config.targets.get(name)


def status(state: ClusterState, name: str, plugins: Plugins) -> StatusView | None:
    """Reported status of a connector, even without a config; None: no report."""
    reported = state.status.connectors.get(name)
    if reported is None:
        return None
    tasks = dict(sorted(state.status.tasks.get(name, {}).items()))
    return StatusView(name, reported, tasks, connector_type(state, name, plugins))


def task_status(state: ClusterState, name: str, task: int) -> Status | None:
    """Reported status of one task; None: no report."""
    return state.status.tasks.get(name, {}).get(task)


def status_fields(status: Status) -> dict[str, Any]:
    """A status as JSON without its trace: `state`, `worker_id`, `generation`, `version`."""
    return {
        "state": status.state.value,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def active_topics(state: ClusterState, name: str) -> list[str]:
    """Topics that a connector has used since the last reset, named as in the records' values."""
    return sorted(use.topic for use in state.status.active_topics.get(name, {}).values())


# --- source offsets -------------------------------------------------------------------------


def offsets_topics(state: ClusterState, name: str) -> list[str]:
    """Offsets topics of a connector: its own first, if any, then the worker's."""
    return topics_of(state, state.config.connectors.get(name, {}))


def offset_owners(state: ClusterState) -> list[str]:
    """Names of connectors with offsets in any offsets topic, existing or deleted."""
    keys = {key for topic in state.offsets.values() for key in topic.values}
    subjects = (decode_partition(key, state.profile) for key in keys)
    return sorted({key.connector for key in subjects if not isinstance(key, Invalid)})


_TopicValues = tuple[str, Mapping[bytes | None, bytes | None]]
"""An offsets topic and its values by raw key."""


def source_offsets(state: ClusterState, name: str) -> list[OffsetView]:
    """Offsets of every source partition of a connector (`Worker#sourceConnectorOffsets`).

    Partitions whose offset cannot be decoded are left out. A worker that serialises the parsed key
    again also leaves out nested partitions. It may look up other bytes than the log has. The offset
    is then None.
    """
    return all_source_offsets(state, name).shown


def all_source_offsets(state: ClusterState, name: str) -> SourceOffsetsView:
    """Offsets of every source partition, and the partitions that a worker leaves out."""
    topics = offsets_topics(state, name)
    values = [(topic, state.offsets.get(topic, OffsetState()).values) for topic in topics]
    offsets = SourceOffsetsView([], [])
    for subject, raw in listed(state, topics, name).values():
        view = _offset(state, values, subject, raw)
        if isinstance(view, OffsetView):
            offsets.shown.append(view)
        else:
            offsets.left_out.append(view)
    return offsets


def _offset(
    state: ClusterState, values: list[_TopicValues], subject: SourcePartition, raw: bytes
) -> OffsetView | UnreadableOffset:
    """Look up the offset of a partition as the worker does; `raw` is its key in the log."""
    key = raw
    if not state.profile.offsets_by_log_key:
        if not is_flat(subject.partition):
            where, value = _first_value(values, key)
            reason = "a field of the partition is not of a primitive type"
            return UnreadableOffset(subject.partition, reason, where, key, value)
        key = encode_partition(subject.connector, subject.partition)
    # Kafka looks up the key in both topics. The result of the connector's own topic replaces that
    # of the worker's topic, even if the own topic has no value (null). So only the first topic is
    # searched: the connector's own, if any.
    searched = values if state.profile.own_offsets_fall_back else values[:1]
    where, value = _first_value(searched, key)
    offset = decode_offset(value, state.profile)
    if isinstance(offset, Invalid):
        return UnreadableOffset(subject.partition, offset.reason, where, key, value)
    return OffsetView(subject.partition, offset, key, raw)


def _first_value(topics: list[_TopicValues], key: bytes) -> tuple[str, bytes | None]:
    """The first topic with a value under a key, and the value; no value: the first topic, None."""
    for topic, values in topics:
        value = values.get(key)
        if value is not None:
            return topic, value
    return topics[0][0], None


def unreadable_offsets(state: ClusterState) -> Iterator[UnreadableOffset]:
    """Source offsets of any connector whose value cannot be decoded."""
    for topic, offset_state in state.offsets.items():
        for key, value in offset_state.values.items():
            offset = decode_offset(value, state.profile)
            if not isinstance(offset, Invalid):
                continue
            subject = decode_partition(key, state.profile)
            # No request reaches a record whose key cannot be decoded.
            if not isinstance(subject, Invalid):
                yield UnreadableOffset(subject.partition, offset.reason, topic, key, value)


# --- unfinished changes ---------------------------------------------------------------------


class UnfinishedChangeKind(Enum):
    """Ways in which an interrupted command of several records leaves a connector."""

    STATE_WITHOUT_CONFIG = "target state without a connector config"
    CONFIG_WITHOUT_TASKS = "started, but no task set was ever committed"
    TASKS_WAIT_FOR_COMMIT = "task configs wait for a commit"
    STOPPED_WITH_TASKS = "stopped, but its task set is not empty"
    STARTED_WITHOUT_TASKS = "started, but its task set is empty"
    TASKS_OF_AN_OLDER_CONFIG = "the task set is older than the connector config"
    STATUS_WITHOUT_CONFIG = "status without a connector config"


class UnfinishedChange(NamedTuple):
    """A connector that a command left half-done."""

    connector: str
    kind: UnfinishedChangeKind


def half_done(state: ClusterState) -> list[UnfinishedChange]:
    """Connectors that a command left half-done or is changing now, by name.

    One state cannot tell the two apart: a change that a later state still shows is half-done.
    """
    names = {*state.config.connectors, *state.config.targets, *state.config.deferred}
    names |= state.status.connectors.keys()
    return [
        UnfinishedChange(name, kind)
        for name in sorted(names)
        for kind in _unfinished_changes(state, name)
    ]


def _unfinished_changes(state: ClusterState, name: str) -> Iterator[UnfinishedChangeKind]:
    """Unfinished changes of one connector; several may hold at once."""
    config, target_state = state.config, state.config.targets.get(name)
    if config.deferred.get(name):
        yield UnfinishedChangeKind.TASKS_WAIT_FOR_COMMIT
    if name not in config.connectors:
        if target_state is not None:
            yield UnfinishedChangeKind.STATE_WITHOUT_CONFIG
        if name in state.status.connectors:
            yield UnfinishedChangeKind.STATUS_WITHOUT_CONFIG
        return
    count = config.task_counts.get(name)
    if target_state is Target.STOPPED and count:
        yield UnfinishedChangeKind.STOPPED_WITH_TASKS
    if target_state is Target.STARTED and count is None:
        yield UnfinishedChangeKind.CONFIG_WITHOUT_TASKS
    if target_state is Target.STARTED and count == 0:
        yield UnfinishedChangeKind.STARTED_WITHOUT_TASKS
    if count and _has_older_tasks(state, name):
        yield UnfinishedChangeKind.TASKS_OF_AN_OLDER_CONFIG


def _has_older_tasks(state: ClusterState, name: str) -> bool:
    config = state.changed.get((name, Aspect.CONFIG, ""))
    tasks = state.changed.get((name, Aspect.TASKS, ""))
    return config is not None and tasks is not None and tasks.offset < config.offset
