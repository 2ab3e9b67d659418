"""State → what people and programs are shown. Pure functions of a `ClusterState`.

What is shown is what the state's own worker would show: `state.profile` decides. Names and shapes
follow Connect's REST entities; how they are spelled on the wire is `rest/reads.py`'s business.
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
from controlplane.core.source_partitions import listed, topics_of
from controlplane.core.state import Aspect, ClusterState, OffsetState

TASKS_MAX = 1_000_000
"""Tasks of one connector that are listed. A committed count is any int32 that somebody wrote; where
it is larger than this, a worker runs out of memory, and so would we."""


class ReadFailed(Exception):
    """The worker of this profile fails when asked this. The message is Java's."""


class ConnectorView(msgspec.Struct, frozen=True):
    """A connector as its config says (`GET /connectors/{c}`)."""

    name: str
    config: Properties
    tasks: range
    type: str


class StatusView(msgspec.Struct, frozen=True):
    """A connector and its tasks as workers report them (`GET /connectors/{c}/status`)."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: str


class OffsetView(NamedTuple):
    """One source partition and how far the connector has come in it."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None
    key: bytes | None
    """The bytes under which the offset was looked up."""
    raw: bytes | None
    """The bytes under which the log has the partition."""


class UnreadableOffset(NamedTuple):
    """A source partition that a worker leaves out of what it shows, and the record that has it."""

    partition: Mapping[str, Any]
    reason: str
    topic: str
    key: bytes | None
    value: bytes | None


class SourceOffsets(NamedTuple):
    """The source partitions that a worker finds of a connector."""

    shown: list[OffsetView]
    left_out: list[UnreadableOffset]


def connectors(state: ClusterState) -> list[str]:
    """Names of all connectors: those that have a config, half-written ones too."""
    return sorted(state.config.connectors)


def connector(state: ClusterState, name: str, plugins: Plugins) -> ConnectorView | None:
    """One connector, or None. Raises `ReadFailed` where the worker would."""
    config = state.config.connectors.get(name)
    if config is None:
        return None
    return ConnectorView(name, config, task_ids(state, name), connector_type(state, name, plugins))


def connector_type(state: ClusterState, name: str, plugins: Plugins) -> str:
    """`source`, `sink` or `unknown`; the last also for a connector that is gone."""
    config = state.config.connectors.get(name, {})
    return plugins.type_of(config.get("connector.class"))


def task_ids(state: ClusterState, name: str) -> range:
    """Tasks that the worker would run (`ClusterConfigState#tasks`)."""
    if name in state.config.inconsistent:
        return range(0)
    count = _count(state, name)
    if count < 0 and state.profile.negative_count_throws:
        raise ReadFailed(f"Illegal Capacity: {count}")
    return state.config.task_ids(name)


def _count(state: ClusterState, name: str) -> int:
    count = state.config.task_counts.get(name, 0)
    if count > TASKS_MAX:
        raise ReadFailed(f"{count} tasks are more than a worker can list")
    return count


def task_configs(state: ClusterState, name: str) -> dict[int, Properties | None]:
    """Config per task, by the count alone: an inconsistent connector may have None here."""
    tasks = state.config.tasks.get(name, {})
    return {id_: tasks.get(id_) for id_ in range(max(0, _count(state, name)))}


def target(state: ClusterState, name: str) -> Target | None:
    """What the user wants; None where nothing is known of such a connector."""
    return state.config.targets.get(name)


def status(state: ClusterState, name: str, plugins: Plugins) -> StatusView | None:
    """What is reported of a connector, also of one whose config is gone; None: nothing."""
    reported = state.status.connectors.get(name)
    if reported is None:
        return None
    tasks = dict(sorted(state.status.tasks.get(name, {}).items()))
    return StatusView(name, reported, tasks, connector_type(state, name, plugins))


def task_status(state: ClusterState, name: str, task: int) -> Status | None:
    """What is reported of one task; None: nothing."""
    return state.status.tasks.get(name, {}).get(task)


def active_topics(state: ClusterState, name: str) -> list[str]:
    """Topics that a connector has used since the last reset: as the records' *values* say."""
    return sorted(use.topic for use in state.status.active_topics.get(name, {}).values())


# --- source offsets -------------------------------------------------------------------------


def offsets_topics(state: ClusterState, name: str) -> list[str]:
    """Where a connector's offsets lie: its own topic first, if it has one, then the worker's."""
    return topics_of(state, state.config.connectors.get(name, {}))


def offset_owners(state: ClusterState) -> list[str]:
    """Names of the connectors that any offsets topic has offsets of, alive or gone."""
    keys = {key for topic in state.offsets.values() for key in topic.values}
    subjects = (decode_partition(key, state.profile) for key in keys)
    return sorted({one.connector for one in subjects if not isinstance(one, Invalid)})


_Values = tuple[str, Mapping[bytes | None, bytes | None]]
"""An offsets topic and what it has, by raw key."""


def source_offsets(state: ClusterState, name: str) -> list[OffsetView]:
    """Every source partition of a connector and its offset (`Worker#sourceConnectorOffsets`).

    A partition whose offset cannot be decoded is left out, and so is a nested partition. An offset
    is None where the worker looks for it under bytes that the log does not have: it re-serialises
    the key that it has parsed.
    """
    return all_source_offsets(state, name).shown


def all_source_offsets(state: ClusterState, name: str) -> SourceOffsets:
    """The same, with the partitions that are left out."""
    topics = offsets_topics(state, name)
    values = [(topic, state.offsets.get(topic, OffsetState()).values) for topic in topics]
    found = SourceOffsets([], [])
    for subject, raw in listed(state, topics, name).values():
        view = _offset(state, values, subject, raw)
        if isinstance(view, OffsetView):
            found.shown.append(view)
        else:
            found.left_out.append(view)
    return found


def _offset(
    state: ClusterState, values: list[_Values], subject: SourcePartition, raw: bytes
) -> OffsetView | UnreadableOffset:
    key = raw
    if not state.profile.offsets_by_log_key:
        if not is_flat(subject.partition):
            where, value = _value(values, key)
            reason = "a field of the partition is not of a primitive type"
            return UnreadableOffset(subject.partition, reason, where, key, value)
        key = encode_partition(subject.connector, subject.partition)
    # Kafka merges "nothing here" over what the worker's topic has, so it never falls back.
    asked = values if state.profile.own_offsets_fall_back else values[:1]
    where, value = _value(asked, key)
    offset = decode_offset(value, state.profile)
    if isinstance(offset, Invalid):
        return UnreadableOffset(subject.partition, offset.reason, where, key, value)
    return OffsetView(subject.partition, offset, key, raw)


def _value(topics: list[_Values], key: bytes) -> tuple[str, bytes | None]:
    """The first topic that has anything under a key, and what that is."""
    for topic, values in topics:
        value = values.get(key)
        if value is not None:
            return topic, value
    return topics[0][0], None


def unreadable_offsets(state: ClusterState) -> Iterator[UnreadableOffset]:
    """Every source offset of any connector whose value cannot be decoded."""
    for topic, part in state.offsets.items():
        for key, value in part.values.items():
            offset = decode_offset(value, state.profile)
            if not isinstance(offset, Invalid):
                continue
            subject = decode_partition(key, state.profile)
            if not isinstance(subject, Invalid):  # else nobody can ask for it
                yield UnreadableOffset(subject.partition, offset.reason, topic, key, value)


# --- what is not as it should be ------------------------------------------------------------


class Half(Enum):
    """Ways in which a command of several records can have stopped half-way."""

    STATE_WITHOUT_CONFIG = "target state without a connector config"
    CONFIG_WITHOUT_TASKS = "started, but no task set was ever committed"
    TASKS_WAIT_FOR_COMMIT = "task configs wait for a commit"
    STOPPED_WITH_TASKS = "stopped, but its task set is not empty"
    STARTED_WITHOUT_TASKS = "started, but its task set is empty"
    TASKS_OF_AN_OLDER_CONFIG = "the task set is older than the connector config"
    STATUS_WITHOUT_CONFIG = "status without a connector config"


class HalfDone(NamedTuple):
    """A connector and what is half-done about it."""

    connector: str
    half: Half


def inconsistent(state: ClusterState) -> list[str]:
    """Connectors whose last commit did not find all of its task configs."""
    return sorted(state.config.inconsistent)


def half_done(state: ClusterState) -> list[HalfDone]:
    """Connectors that a command left half-way, or is just changing: ask again later."""
    names = {*state.config.connectors, *state.config.targets, *state.config.deferred}
    names |= state.status.connectors.keys()
    return [HalfDone(name, half) for name in sorted(names) for half in _halves(state, name)]


def _halves(state: ClusterState, name: str) -> Iterator[Half]:
    config, wanted = state.config, state.config.targets.get(name)
    if config.deferred.get(name):
        yield Half.TASKS_WAIT_FOR_COMMIT
    if name not in config.connectors:
        if wanted is not None:
            yield Half.STATE_WITHOUT_CONFIG
        if name in state.status.connectors:
            yield Half.STATUS_WITHOUT_CONFIG
        return
    count = config.task_counts.get(name)
    if wanted is Target.STOPPED and count:
        yield Half.STOPPED_WITH_TASKS
    if wanted is Target.STARTED and count is None:
        yield Half.CONFIG_WITHOUT_TASKS
    if wanted is Target.STARTED and count == 0:
        yield Half.STARTED_WITHOUT_TASKS
    if count and _older_tasks(state, name):
        yield Half.TASKS_OF_AN_OLDER_CONFIG


def _older_tasks(state: ClusterState, name: str) -> bool:
    config = state.changed.get((name, Aspect.CONFIG, ""))
    tasks = state.changed.get((name, Aspect.TASKS, ""))
    return config is not None and tasks is not None and tasks.offset < config.offset
