"""What the rules look at: the records of one cluster's log in order, and what both releases read.

A rule needs more than a fold tells: what a record said in its own words (`state` without
`state.v2`), and what came before what. So every record of the config and status topics is kept as
the newer of the two releases reads it, with its rank in the one order between partitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from controlplane.core import javajson
from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.evolve import fold
from controlplane.core.order import in_order
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    Invalid,
    SessionKey,
    Status,
    StatusRecord,
    TargetState,
    TaskCommit,
    TaskStatus,
)
from controlplane.core.state import ClusterState, Topics
from replay.compat.rolls import Roll

UNREADABLE = object()
"""Stands for a value that is no JSON."""


class Told(NamedTuple):
    """One record of the config or the status topic."""

    rank: int
    """Its place in the one order: the lower, the earlier."""
    entry: Entry
    record: Any
    """What the newer release reads."""
    content: Any
    """The JSON of its value: None for a tombstone, `UNREADABLE` for what is none."""

    @property
    def position(self) -> Position:
        """Where it lies."""
        return self.entry.position

    def text(self, field: str) -> str | None:
        """A field of the value, if it is a string."""
        found = self.content.get(field) if isinstance(self.content, dict) else None
        return found if isinstance(found, str) else None


class Evidence:
    """One log, and how the two releases of a roll read it."""

    def __init__(
        self,
        entries: Iterable[Entry],
        roll: Roll,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> None:
        self.entries: Sequence[Entry] = in_order(entries)
        self.roll = roll
        self.topics = topics or Topics()
        self.exactly_once = exactly_once
        """Whether workers run with exactly-once support, those of releases that have it."""

    def state_of(self, profile: Profile, *, trace: bool = False) -> ClusterState:
        """What a worker of a release knows that has read all of the log."""
        return fold(
            self.entries,
            profile,
            topics=self.topics,
            exactly_once=self.exactly_once and profile.exactly_once_support,
            trace=trace,
        )

    @cached_property
    def older(self) -> ClusterState:
        """What a worker of the older release knows."""
        return self.state_of(self.roll.older)

    @cached_property
    def newer(self) -> ClusterState:
        """What a worker of the newer release knows."""
        return self.state_of(self.roll.newer)

    @cached_property
    def config(self) -> Sequence[Told]:
        """The records of the config topic that workers see."""
        return list(self._told(self.topics.config))

    @cached_property
    def status(self) -> Sequence[Told]:
        """Those of the status topic."""
        return list(self._told(self.topics.status))

    @cached_property
    def committed(self) -> ClusterState:
        """The config topic alone, as members with exactly-once support read it: nothing aborted.

        Where there is no such support yet (KIP-618), all records count.
        """
        support = self.roll.newer.exactly_once_support
        log = (one for one in self.entries if one.topic == self.topics.config)
        return fold(log, self.roll.newer, topics=self.topics, exactly_once=support)

    def read_by(self, profile: Profile) -> ClusterState:
        """What a worker of one of the two releases knows."""
        return self.older if profile == self.roll.older else self.newer

    @cached_property
    def offsets(self) -> Mapping[tuple[str, str], Mapping[bytes | None, Entry]]:
        """By offsets topic and connector, the last record of each key.

        Those of aborted transactions are among them in the worker's topic alone: a connector's own
        is always read without (`Fold.sees_aborted`).
        """
        others = self.topics.config, self.topics.status, self.topics.commands
        last = {
            (one.topic, one.key): one
            for one in self.entries
            if one.topic not in others and not (one.aborted and one.topic != self.topics.offsets)
        }
        found: dict[tuple[str, str], dict[bytes | None, Entry]] = defaultdict(dict)
        for (topic, key), entry in last.items():
            subject = decode_partition(key, self.roll.newer)
            if not isinstance(subject, Invalid):
                found[topic, subject.connector][key] = entry
        return dict(found)

    def _told(self, topic: str) -> Iterator[Told]:
        profile = self.roll.newer
        for rank, entry in enumerate(self.entries):
            if entry.topic == topic and not (entry.aborted and self.exactly_once):
                content = _content(entry.value, profile)
                yield Told(rank, entry, self._record(entry, profile), content)

    def _record(self, entry: Entry, profile: Profile) -> ConfigRecord | StatusRecord | Invalid:
        decode = decode_config if entry.topic == self.topics.config else decode_status
        return decode(entry.key, entry.value, profile)

    @cached_property
    def _by_kind(self) -> dict[tuple[type, str], list[Told]]:
        found: dict[tuple[type, str], list[Told]] = defaultdict(list)
        for one in (*self.config, *self.status):
            name = getattr(one.record, "connector", None)
            if name is not None:
                found[type(one.record), name].append(one)
        return dict(found)

    def all_of(self, kind: type, name: str) -> Sequence[Told]:
        """Every record of a kind (`TargetState`, …) about a connector, the earliest first."""
        return self._by_kind.get((kind, name), ())

    def last_of(self, kind: type, name: str) -> Told | None:
        """The last of them."""
        found = self.all_of(kind, name)
        return found[-1] if found else None

    def names_of(self, kind: type) -> list[str]:
        """The connectors that records of a kind are about."""
        return sorted(name for one, name in self._by_kind if one is kind)

    @property
    def connectors(self) -> list[str]:
        """The connectors that there are, as the newer release reads the log."""
        return sorted(self.newer.config.connectors)

    def configured_at(self, name: str, rank: int) -> bool:
        """Whether a connector had a config when a record was written."""
        before = [one for one in self.all_of(ConnectorConfig, name) if one.rank < rank]
        return bool(before) and before[-1].record.properties is not None

    def removed_between(self, name: str, first: Told, last: Told) -> Told | None:
        """The record that removed a connector between two others; None: it was there throughout."""
        for one in self.all_of(ConnectorConfig, name):
            if first.rank < one.rank < last.rank and one.record.properties is None:
                return one
        return None

    def last_statuses(self, name: str) -> dict[int | None, Told]:
        """The last record about a connector (None) and each of its tasks; tombstones among them."""
        found: dict[int | None, Told] = {}
        for one in self.all_of(ConnectorStatus, name):
            found[None] = one
        for one in self.all_of(TaskStatus, name):
            found[one.record.task] = one
        return found

    def status_before(self, name: str, instance: int | None, rank: int) -> Status | None:
        """What was reported of a connector (None) or a task before a record was written."""
        kind = ConnectorStatus if instance is None else TaskStatus
        told = [
            one.record.status
            for one in self.all_of(kind, name)
            if one.rank < rank and (instance is None or one.record.task == instance)
        ]
        return told[-1] if told else None

    def target(self, name: str) -> Told | None:
        """The last record about what is wanted of a connector."""
        return self.last_of(TargetState, name)

    def commit(self, name: str) -> Told | None:
        """The last record that says how many tasks a connector has."""
        return self.last_of(TaskCommit, name)

    @cached_property
    def session_key(self) -> Told | None:
        """The last session key."""
        return next((one for one in self.config[::-1] if isinstance(one.record, SessionKey)), None)


def _content(value: bytes | None, profile: Profile) -> Any:
    if value is None:
        return None
    try:
        return javajson.decode(value, profile)
    except (javajson.Undecodable, javajson.StackOverflow):
        return UNREADABLE
