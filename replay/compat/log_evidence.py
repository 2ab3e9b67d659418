"""Evidence for the rules: the ordered records of a log, and the states of both releases.

Rules need more than a fold: the original content of records (`state` without `state.v2`), and their
order. Records of the config and status topics are kept as the newer release decodes them. Aborted
records that workers skip are left out. Each record has its rank in the total order (`core.order`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import fold
from controlplane.core.java import json_codec
from controlplane.core.order import in_order
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
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from replay.compat.release_change import ReleaseChange

UNREADABLE = object()
"""Stands for a value that is no JSON."""


class EvidenceRecord(NamedTuple):
    """Record of the config or the status topic."""

    rank: int
    """Sequence number in the one order."""
    entry: Entry
    record: Any
    """Record as the newer release decodes it."""
    content: Any
    """JSON of the value: None for a tombstone, `UNREADABLE` if it is no JSON."""

    @property
    def position(self) -> Position:
        """Topic, partition and offset of the record."""
        return self.entry.position

    def text(self, field: str) -> str | None:
        """String field of the value; None if absent or of another type."""
        value = self.content.get(field) if isinstance(self.content, dict) else None
        return value if isinstance(value, str) else None


class LogEvidence:
    """Log, read by the two releases of a change."""

    def __init__(
        self,
        entries: Iterable[Entry],
        roll: ReleaseChange,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> None:
        self.entries: Sequence[Entry] = in_order(entries)
        self.roll = roll
        self.topics = topics or Topics()
        self.exactly_once = exactly_once
        """True if workers run with exactly-once support, where their release has it."""

    def state_of(self, profile: Profile, *, trace: bool = False) -> ClusterState:
        """State of a worker of a release after the whole log."""
        return fold(
            self.entries,
            profile,
            topics=self.topics,
            exactly_once=self.exactly_once and profile.exactly_once_support,
            trace=trace,
        )

    @cached_property
    def older(self) -> ClusterState:
        """State of a worker of the older release."""
        return self.state_of(self.roll.older)

    @cached_property
    def newer(self) -> ClusterState:
        """State of a worker of the newer release."""
        return self.state_of(self.roll.newer)

    @cached_property
    def config(self) -> Sequence[EvidenceRecord]:
        """Records of the config topic, without aborted ones that workers skip."""
        return list(self._visible(self.topics.config))

    @cached_property
    def status(self) -> Sequence[EvidenceRecord]:
        """Records of the status topic; workers see aborted ones, too."""
        return list(self._visible(self.topics.status))

    @cached_property
    def committed(self) -> ClusterState:
        """Config state without records of aborted transactions, as with exactly-once support.

        For releases without such support (KIP-618) all records count.
        """
        support = self.roll.newer.exactly_once_support
        log = (entry for entry in self.entries if entry.topic == self.topics.config)
        return fold(log, self.roll.newer, topics=self.topics, exactly_once=support)

    def read_by(self, profile: Profile) -> ClusterState:
        """State of a worker of one of the two releases."""
        return self.older if profile == self.roll.older else self.newer

    @cached_property
    def offsets(self) -> Mapping[tuple[str, str], Mapping[bytes | None, Entry]]:
        """Last record of each key, by offsets topic and connector.

        Records of aborted transactions are included in the worker's topic only: dedicated topics
        are always read without them (`Fold.sees_aborted`).
        """
        other_topics = self.topics.config, self.topics.status, self.topics.commands
        last = {
            (archived.topic, archived.key): archived
            for archived in self.entries
            if archived.topic not in other_topics
            and not (archived.aborted and archived.topic != self.topics.offsets)
        }
        last_entries: dict[tuple[str, str], dict[bytes | None, Entry]] = defaultdict(dict)
        for (topic, key), entry in last.items():
            subject = decode_partition(key, self.roll.newer)
            if not isinstance(subject, Invalid):
                last_entries[topic, subject.connector][key] = entry
        return dict(last_entries)

    def _visible(self, topic: str) -> Iterator[EvidenceRecord]:
        profile = self.roll.newer
        support = self.exactly_once and profile.exactly_once_support
        aborted = self.topics.sees_aborted(topic, exactly_once=support)
        for rank, entry in enumerate(self.entries):
            if entry.topic == topic and (aborted or not entry.aborted):
                content = _content(entry.value, profile)
                yield EvidenceRecord(rank, entry, self._record(entry, profile), content)

    def _record(self, entry: Entry, profile: Profile) -> ConfigRecord | StatusRecord | Invalid:
        decode = decode_config if entry.topic == self.topics.config else decode_status
        return decode(entry.key, entry.value, profile)

    @cached_property
    def _by_kind(self) -> dict[tuple[type, str], list[EvidenceRecord]]:
        records: dict[tuple[type, str], list[EvidenceRecord]] = defaultdict(list)
        for record in (*self.config, *self.status):
            name = getattr(record.record, "connector", None)
            if name is not None:
                records[type(record.record), name].append(record)
        return dict(records)

    def all_of(self, kind: type, name: str) -> Sequence[EvidenceRecord]:
        """Records of a type (`TargetState`, …) about a connector, in order."""
        return self._by_kind.get((kind, name), ())

    def last_of(self, kind: type, name: str) -> EvidenceRecord | None:
        """Last record of a type about a connector; None without any."""
        records = self.all_of(kind, name)
        return records[-1] if records else None

    def names_of(self, kind: type) -> list[str]:
        """Connectors that have records of a type."""
        return sorted(name for record_kind, name in self._by_kind if record_kind is kind)

    @property
    def connectors(self) -> list[str]:
        """Connectors of the newer release's state."""
        return sorted(self.newer.config.connectors)

    def configured_at(self, name: str, rank: int) -> bool:
        """True if a connector had a config when a record was written."""
        before = [record for record in self.all_of(ConnectorConfig, name) if record.rank < rank]
        return bool(before) and before[-1].record.properties is not None

    def removed_between(
        self, name: str, first: EvidenceRecord, last: EvidenceRecord
    ) -> EvidenceRecord | None:
        """Record that removed a connector between two others; None if there is none."""
        for record in self.all_of(ConnectorConfig, name):
            if first.rank < record.rank < last.rank and record.record.properties is None:
                return record
        return None

    def last_statuses(self, name: str) -> dict[int | None, EvidenceRecord]:
        """Last record of a connector (None) and of each task, tombstones included."""
        statuses: dict[int | None, EvidenceRecord] = {}
        for record in self.all_of(ConnectorStatus, name):
            statuses[None] = record
        for record in self.all_of(TaskStatus, name):
            statuses[record.record.task] = record
        return statuses

    def status_before(self, name: str, instance: int | None, rank: int) -> Status | None:
        """Status of a connector (None) or a task before a record was written."""
        kind = ConnectorStatus if instance is None else TaskStatus
        statuses = [
            record.record.status
            for record in self.all_of(kind, name)
            if record.rank < rank and (instance is None or record.record.task == instance)
        ]
        return statuses[-1] if statuses else None

    def target(self, name: str) -> EvidenceRecord | None:
        """Last record of a connector's target state."""
        return self.last_of(TargetState, name)

    def commit(self, name: str) -> EvidenceRecord | None:
        """Last task commit of a connector."""
        return self.last_of(TaskCommit, name)

    @cached_property
    def session_key(self) -> EvidenceRecord | None:
        """Record with the last session key; None without one."""
        return next(
            (record for record in self.config[::-1] if isinstance(record.record, SessionKey)), None
        )


def _content(value: bytes | None, profile: Profile) -> Any:
    if value is None:
        return None
    try:
        return json_codec.decode(value, profile)
    except (json_codec.Undecodable, json_codec.StackOverflow):
        return UNREADABLE
