"""Laws of plans that change offsets: O1 to O9 and N1 to N5, as in `commands/`.

A plan is applied to the log step by step, as a writer does. A worker's fold then reads the log
again. Topics have three partitions and each step one instant, so the order between partitions
decides nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.core import views
from controlplane.core.codec import decode_partition
from controlplane.core.codec.offsets import encode_partition, frozen
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
)
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import in_order
from controlplane.core.plan import HookSuccess, Plan, Step
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.partitioner import partition_of
from tests.core.decisions import PLUGINS, SOURCE
from tests.core.logs import START_MS

PARTITIONS = 3
CONFIG, OFFSETS, OWN = "connect-configs", "connect-offsets", "own"
EffectiveOffsets = Mapping[tuple[Any, ...], Any]
"""Source partition, compared as in Java → its offset, as a worker sees it."""


class PlannedLog:
    """A log to which plans are applied, and a worker of a release that reads it."""

    def __init__(self, release: str, *, own: bool, exactly_once: bool) -> None:
        self.profile = Profile.of(release)
        self.exactly_once = exactly_once
        self.properties = {"connector.class": SOURCE} | (
            {"offsets.storage.topic": OWN} if own else {}
        )
        self.entries: list[Entry] = []

    def append(
        self, topic: str, key: bytes, value: bytes | None, partition: int | None = None
    ) -> None:
        """Append one record, a second after the last one."""
        count = 1 if topic == CONFIG else PARTITIONS
        place = partition_of(key, count) if partition is None else partition
        offset = sum(entry.topic == topic and entry.partition == place for entry in self.entries)
        at_ms = START_MS + 1000 * len(self.entries)
        self.entries.append(Entry(topic, place, offset, at_ms, key, value))

    def stop(self) -> "PlannedLog":
        """Append the records of connector a with two tasks, stopped."""
        config = json.dumps({"properties": self.properties})
        self.append(CONFIG, b"connector-a", config.encode())
        self.append(CONFIG, b"tasks-fencing-a", b'{"task-count":2}')
        self.append(CONFIG, b"commit-a", b'{"tasks":0}')
        self.append(CONFIG, b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')
        return self

    def apply(self, steps: Sequence[Step]) -> "PlannedLog":
        """A copy of this log with the records of some steps, each step at one instant."""
        grown = PlannedLog.__new__(PlannedLog)
        grown.__dict__.update(self.__dict__, entries=list(self.entries))
        for step in steps:
            first = len(grown.entries)
            for draft in step.records:
                grown.append(draft.topic, draft.key, draft.value, draft.partition)
            at_ms = START_MS + 1000 * first
            grown.entries[first:] = [
                msgspec.structs.replace(entry, timestamp=at_ms) for entry in grown.entries[first:]
            ]
        return grown

    @property
    def state(self) -> ClusterState:
        """State of a worker that has read the entries."""
        return fold(in_order(self.entries), self.profile, exactly_once=self.exactly_once)

    def plan(self, command: AnyCommand) -> Plan:
        """Decide a command, with a hook that accepts the offsets."""
        hooks = (HookSuccess(definite=True),) * 2
        context = Context(profile=self.profile, plugins=PLUGINS, hooks=hooks)
        plan = decide(self.state, command, context)
        assert isinstance(plan, Plan)
        return plan

    @property
    def effective(self) -> EffectiveOffsets:
        """Offsets of the connector that are not null, by partition."""
        offset_views = views.source_offsets(self.state, "a")
        return {
            frozen(view.partition): view.offset for view in offset_views if view.offset is not None
        }

    def keys(self) -> Mapping[str, set[bytes]]:
        """The keys of connector a that have a value, by topic of its offsets."""
        state = self.state
        values = {
            topic: state.offsets[topic].values
            for topic in views.offsets_topics(state, "a")
            if topic in state.offsets
        }
        return {
            topic: {key for key in topic_values if key is not None and _is_of_a(key, self.profile)}
            for topic, topic_values in values.items()
        }


def _is_of_a(key: bytes, profile: Profile) -> bool:
    subject = decode_partition(key, profile)
    return not isinstance(subject, Invalid) and subject.connector == "a"


# --- random clusters ----------------------------------------------------------------------------

PARTITIONS_OF_A: list[Mapping[str, Any]] = [{"t": "x", "p": 0}, {"p": 0, "t": "x"}, {"p": -3}]
"""Two spellings of one partition, and another partition."""

partitions = st.sampled_from([*PARTITIONS_OF_A, {"p": -3.0}])
offsets = st.builds(lambda row: {"row": row}, st.integers(0, 9))
changes = st.lists(st.builds(OffsetChange, partitions, st.none() | offsets), min_size=1, max_size=4)
commands = st.one_of(
    st.builds(lambda drawn: AlterOffsets("a", tuple(drawn)), changes), st.just(ResetOffsets("a"))
)
releases = st.sampled_from(["3.6", "3.9", "4.3", "kip"])


@st.composite
def records(draw: st.DrawFn, *, by_a_worker: bool) -> list[tuple[str, bytes, bytes | None]]:
    """Records of the offsets topics, including other spellings by foreign writers."""
    written = []
    names = st.sampled_from(["a", "a", "a", "b"])
    values = st.one_of(offsets, offsets, st.none())
    record = st.tuples(st.sampled_from([OFFSETS, OWN]), names, partitions, values, st.booleans())
    for topic, name, partition, value, by_hand in draw(st.lists(record, max_size=8)):
        key = encode_partition(name, partition)
        if by_hand and not by_a_worker:
            key = json.dumps([name, partition]).encode()
        written.append((topic, key, None if value is None else json.dumps(value).encode()))
    return written


@st.composite
def clusters(draw: st.DrawFn, *, stopped: bool = True, release: str | None = None) -> PlannedLog:
    """A worker of some release, with offsets that it can find: `kip` finds any spelling."""
    release = draw(releases) if release is None else release
    knows = Profile.of(release).exactly_once_support
    cluster = PlannedLog(
        release, own=draw(st.booleans()), exactly_once=knows and draw(st.booleans())
    )
    for topic, key, value in draw(records(by_a_worker=not cluster.profile.offsets_by_log_key)):
        cluster.append(topic, key, value)
    return cluster.stop() if stopped else cluster


def prefixes(cluster: PlannedLog, plan: Plan) -> Iterator[PlannedLog]:
    """The cluster at every crash point, including before the first and after the last step."""
    return (cluster.apply(plan.steps[:done]) for done in range(len(plan.steps) + 1))


def expected_offsets(cluster: PlannedLog, command: AlterOffsets | ResetOffsets) -> EffectiveOffsets:
    """Expected offsets of the connector after the command."""
    if isinstance(command, ResetOffsets):
        return {}
    requested = {frozen(change.partition): change.offset for change in command.offsets}
    expected = {**cluster.effective, **requested}
    return {partition: offset for partition, offset in expected.items() if offset is not None}


# --- altering and resetting ---------------------------------------------------------------------


@given(cluster=clusters(), command=commands)
def test_o1_success_means_the_requested_offsets(
    cluster: PlannedLog, command: AlterOffsets | ResetOffsets
) -> None:
    """Each partition has its requested offset or none; others keep theirs; a reset leaves none."""
    after = cluster.apply(cluster.plan(command).steps)
    assert after.effective == expected_offsets(cluster, command)
    if isinstance(command, ResetOffsets):
        assert not any(after.keys().values())


@given(cluster=clusters(), command=commands)
def test_o3_no_crash_brings_an_older_offset_back(
    cluster: PlannedLog, command: AlterOffsets | ResetOffsets
) -> None:
    """Each partition has the old offset or the new one at each crash point."""
    old, new = cluster.effective, expected_offsets(cluster, command)
    for crashed in prefixes(cluster, cluster.plan(command)):
        now = crashed.effective
        for partition in {*old, *new, *now}:
            assert now.get(partition) in (old.get(partition), new.get(partition))


@pytest.mark.parametrize(("release", "back"), [("3.7", {"row": 1}), ("3.8", {"row": 2})])
def test_o3_is_violated_before_the_fix_of_kafka_15018(release: str, back: Any) -> None:
    """A crash after the first step brings an older offset back in 3.7, but not in 3.8.

    Our fold falls back to the worker's topic (KIP-618), which has the older offset.
    """
    cluster = PlannedLog("kip", own=True, exactly_once=False).stop()
    key = encode_partition("a", {"p": 1})
    cluster.append(OFFSETS, key, b'{"row":1}')
    cluster.append(OWN, key, b'{"row":2}')
    cluster.profile = Profile.of(release)
    (first, *_) = cluster.plan(AlterOffsets("a", (OffsetChange({"p": 1}, None),))).steps
    crashed = cluster.apply([first])
    crashed.profile = Profile.of("kip")
    assert crashed.effective == {frozen({"p": 1}): back}


@given(cluster=clusters(), command=commands, data=st.data())
def test_o4_repeating_is_safe(
    cluster: PlannedLog, command: AlterOffsets | ResetOffsets, data: st.DataObject
) -> None:
    """From any crash point, repeating the plan or the request gives the same final state."""
    plan = cluster.plan(command)
    end = cluster.apply(plan.steps).effective
    crashed = data.draw(st.sampled_from(list(prefixes(cluster, plan))))
    assert crashed.apply(plan.steps).effective == end
    assert crashed.apply(crashed.plan(command).steps).effective == end


@given(cluster=clusters(), command=commands)
def test_o7_the_config_topic_stays_as_it_is(
    cluster: PlannedLog, command: AlterOffsets | ResetOffsets
) -> None:
    """The config topic is unchanged, except for the count of fenced tasks (exactly-once)."""
    plan = cluster.plan(command)
    config = [
        record.key for step in plan.steps for record in step.records if record.topic == CONFIG
    ]
    assert config == ([b"tasks-fencing-a"] if cluster.exactly_once else [])


def respelt() -> PlannedLog:
    """A stopped connector whose offset has a key with its members in another order than Java's."""
    cluster = PlannedLog("kip", own=False, exactly_once=False)
    cluster.append(OFFSETS, b'["a",{"t":"x","p":0}]', b'{"row":1}')
    return cluster.stop()


@given(cluster=clusters(release="kip"), command=commands)
@example(
    cluster=respelt(),
    command=AlterOffsets("a", (OffsetChange({"p": 0, "t": "x"}, {"row": 2}),)),
)
def test_o9_a_partition_gets_no_second_key(
    cluster: PlannedLog, command: AlterOffsets | ResetOffsets
) -> None:
    """Under `kip`, a new key is written only for a partition without one."""
    before = cluster.keys()
    after = cluster.apply(cluster.plan(command).steps).keys()
    keys_before = {key for keys in before.values() for key in keys}
    subjects = {_partition(key, cluster.profile) for key in keys_before}
    for topic, keys in after.items():
        added = keys - before.get(topic, set())
        assert all(
            key in keys_before or _partition(key, cluster.profile) not in subjects for key in added
        )
        present = [_partition(key, cluster.profile) for key in added]
        assert len(present) == len(set(present))


def _partition(key: bytes, profile: Profile) -> tuple[Any, ...]:
    subject = decode_partition(key, profile)
    assert not isinstance(subject, Invalid)
    return frozen(subject.partition)


# --- creating with offsets ----------------------------------------------------------------------


@st.composite
def creations(draw: st.DrawFn) -> tuple[PlannedLog, CreateConnector]:
    """A new connector, whose name an earlier one may have used."""
    cluster = PlannedLog("kip", own=draw(st.booleans()), exactly_once=draw(st.booleans()))
    for topic, key, value in draw(records(by_a_worker=False)):
        cluster.append(topic, key, value)
    if draw(st.booleans()):
        cluster.stop().append(CONFIG, b"connector-a", None)
    command = CreateConnector("a", cluster.properties, initial_offsets=tuple(draw(changes)))
    return cluster, command


def first_offsets(command: CreateConnector) -> EffectiveOffsets:
    """Offsets that the connector must start from."""
    requested = {
        frozen(change.partition): change.offset for change in command.initial_offsets or ()
    }
    return {partition: offset for partition, offset in requested.items() if offset is not None}


@given(creation=creations())
def test_n1_whoever_sees_the_connector_sees_its_offsets(
    creation: tuple[PlannedLog, CreateConnector],
) -> None:
    """The connector is visible with exactly the requested offsets (N5: tasks start from these)."""
    cluster, command = creation
    plan = cluster.plan(command)
    visible = [
        prefix for prefix in prefixes(cluster, plan) if "a" in prefix.state.config.connectors
    ]
    assert len(visible) == 1
    assert visible[0].effective == first_offsets(command)


@given(creation=creations())
def test_n3_a_creation_that_fails_leaves_no_offsets(
    creation: tuple[PlannedLog, CreateConnector],
) -> None:
    """If the config cannot be written, the new offsets are removed, in reverse order."""
    cluster, command = creation
    *begun, _ = cluster.plan(command).steps
    undone = [step.undo for step in reversed(begun) if step.undo is not None]
    # The test appends the config that failed: only the config names the connector's own topic.
    config = json.dumps({"properties": cluster.properties}).encode()
    after = cluster.apply([*begun, *undone])
    after.append(CONFIG, b"connector-a", config)
    assert after.effective == {}


@given(creation=creations(), data=st.data())
def test_n4_the_same_request_again_ends_the_same(
    creation: tuple[PlannedLog, CreateConnector], data: st.DataObject
) -> None:
    """After any crash before the commit point, the old plan and a new one end in the same state."""
    cluster, command = creation
    plan = cluster.plan(command)
    *crashes, _ = prefixes(cluster, plan)
    crashed = data.draw(st.sampled_from(crashes))
    for steps in (plan.steps, crashed.plan(command).steps):
        after = crashed.apply(steps)
        assert after.effective == first_offsets(command)
        assert after.state.config.connectors["a"] == {**command.config, "name": "a"}
