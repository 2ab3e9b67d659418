"""O1 to O9, altering and resetting offsets; G5, the connectors whose offsets commands may write."""

from collections.abc import Iterator

from controlplane.core import views
from controlplane.core.codec.offsets import PartitionIdentity, decode_partition, identity
from controlplane.core.commands import AlterOffsets, CreateConnector, ResetOffsets
from controlplane.core.plan import Outcome, Reason, Rejected
from controlplane.core.records import Invalid, SourcePartition, Target
from controlplane.core.state import OffsetState
from tests.controller.scene import CONFIG, STATUS
from tests.laws.commands.life import (
    CommandRun,
    Life,
    Observation,
    ObservedRecord,
    OffsetsByPartition,
    wanted_offsets,
)

CHANGES = (AlterOffsets, ResetOffsets)
ASKERS_FAULT = {Reason.INVALID, Reason.NO_SUCH_CONNECTOR, Reason.NOT_STOPPED, Reason.CONFLICT}


def o1(life: Life) -> Iterator[None]:
    """After a success, named partitions have the requested offset or none; others keep theirs."""
    for act in _changes(life):
        if act.succeeded():
            assert act.after.offsets(act.name) == _expected_offsets(act)
            wiped = isinstance(act.command, ResetOffsets) and life.profile.writes_removals_first
            if wiped and not act.after.is_sink(act.name):
                assert not any(keys for _, keys in _keys(act.after, act.name))
            yield


def o3(life: Life) -> Iterator[None]:
    """The offset of each partition is the old one or the new one at every crash point."""
    for act in _changes(life):
        if act.moments:
            old, new = act.before.offsets(act.name), _expected_offsets(act)
            for moment in act.batches():
                now = moment.after.offsets(act.name)
                for partition in {*old, *new, *now}:
                    assert now.get(partition) in (old.get(partition), new.get(partition))
                    yield


def o4(life: Life) -> Iterator[None]:
    """A repeated request, also after a crash, succeeds and leads to the same final state."""
    for first, again in life.repeated(*CHANGES):
        assert again.succeeded()
        assert again.after.offsets(again.name) == first.after.offsets(first.name)
        yield
    for crash in life.crashes:
        if isinstance(crash.act.command, CHANGES) and isinstance(crash.act.ended, Outcome):
            for observation in (crash.settled, crash.reissued):
                assert observation.offsets(crash.act.name) == crash.act.after.offsets(
                    crash.act.name
                )
            yield


def o5(life: Life) -> Iterator[None]:
    """An invalid request writes nothing and calls no hook."""
    for act in _changes(life):
        if isinstance(act.answer, Rejected) and act.answer.reason in ASKERS_FAULT:
            assert not act.moments
            assert not act.answered[-1].hooks
            yield


def o6(life: Life) -> Iterator[None]:
    """No offset is written while the connector is not STOPPED, or has tasks."""
    for act in _changes(life):
        for moment in _offset_records(act):
            assert _stopped(moment, act.name)
            yield


def o7(life: Life) -> Iterator[None]:
    """The config topic stays unchanged, except for the count of fenced tasks (exactly-once)."""
    for act in _changes(life):
        counts = {f"tasks-fencing-{act.name}"} if life.cluster.exactly_once else set()
        assert {moment.key for moment in act.moments if moment.entry.topic == CONFIG} <= counts
        yield


def o9(life: Life) -> Iterator[None]:
    """A partition has one key: commands use the bytes that the log has."""
    if not life.profile.writes_log_key:
        return
    for act in life.acts:
        for moment in _offset_records(act):
            subject = _subject(moment.entry.key, moment.after)
            assert subject is not None
            before = dict(_keys(moment.before, act.name, moment.entry.topic)).get(subject, [])
            after = dict(_keys(moment.after, act.name, moment.entry.topic)).get(subject, [])
            assert moment.entry.value is None or not before or moment.entry.key in before
            assert len(after) <= max(1, len(before))
            yield


def g5(life: Life) -> Iterator[None]:
    """Commands write source offsets only of STOPPED connectors without tasks, or of new ones."""
    for act in life.acts:
        for moment in _offset_records(act):
            created = isinstance(act.command, CreateConnector)
            absent = moment.before.config(act.name) is None
            assert _stopped(moment, act.name) or (created and absent)
            yield


# --- shared by the laws -------------------------------------------------------------------------


def _changes(life: Life) -> Iterator[CommandRun]:
    if life.profile.alters_offsets:
        yield from (act for act in life.acts if isinstance(act.command, CHANGES))


def _expected_offsets(act: CommandRun) -> OffsetsByPartition:
    """Offsets of a connector after the command."""
    if isinstance(act.command, ResetOffsets):
        return {}
    assert isinstance(act.command, AlterOffsets)
    config = act.before.config(act.name)
    assert config is not None
    requested = wanted_offsets(act.command.offsets, config)
    offsets = {**act.before.offsets(act.name), **requested}
    return {partition: offset for partition, offset in offsets.items() if offset is not None}


def _offset_records(act: CommandRun) -> Iterator[ObservedRecord]:
    return (moment for moment in act.moments if moment.entry.topic not in {CONFIG, STATUS})


def _stopped(moment: ObservedRecord, name: str) -> bool:
    """True if the connector was STOPPED and without tasks before a record."""
    config = moment.before.state.config
    stopped = config.targets.get(name) is Target.STOPPED and not config.task_counts.get(name, 0)
    return stopped and name in config.connectors


def _keys(
    observation: Observation, name: str, topic: str | None = None
) -> Iterator[tuple[PartitionIdentity, list[bytes | None]]]:
    """Keys with a value in the offsets topics of a connector, or in one topic, by partition."""
    topics = views.offsets_topics(observation.state, name) if topic is None else [topic]
    keys_by_partition: dict[PartitionIdentity, list[bytes | None]] = {}
    for offsets_topic in topics:
        for key, value in observation.state.offsets.get(
            offsets_topic, OffsetState()
        ).values.items():
            subject = _subject(key, observation)
            if value is not None and subject is not None and subject[0] == name:
                keys_by_partition.setdefault(subject, []).append(key)
    yield from keys_by_partition.items()


def _subject(key: bytes | None, observation: Observation) -> PartitionIdentity | None:
    subject = decode_partition(key, observation.state.profile)
    if isinstance(subject, Invalid):
        return None
    return identity(SourcePartition(subject.connector, subject.partition))
