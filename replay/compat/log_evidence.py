"""Evidence for the rules: the ordered records of a log, and the states of both releases.

Rules need more than a fold: the original content of records (`state` without `state.v2`), and their
order. Records of the config and status topics are kept as the newer release decodes them. Aborted
records that workers skip are left out. Each record has its rank in the total order (`core.order`).
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from controlplane.core.entry import Entry
from controlplane.core.records import (
    ConnectorConfig,
    ConnectorStatus,
    SessionKey,
    Status,
    TargetState,
    TaskCommit,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from replay.compat.log_readings import EvidenceRecord, LogReadings, TopicRecords
from replay.compat.offset_readings import LastByKey, LastOffsets
from replay.compat.release_change import ReleaseChange


class LogEvidence:
    """Log, read by the two releases of a change."""

    def __init__(self, readings: LogReadings, roll: ReleaseChange) -> None:
        self.readings = readings
        self.roll = roll

    @property
    def topics(self) -> Topics:
        """Names of the cluster's topics."""
        return self.readings.topics

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, in order."""
        return self.readings.entries

    def entries_of(self, topic: str) -> Sequence[Entry]:
        """Entries of a topic, in order."""
        return self.readings.entries_of(topic)

    @cached_property
    def older(self) -> ClusterState:
        """State of a worker of the older release, without source offsets."""
        return self.readings.state(self.roll.older)

    @cached_property
    def newer(self) -> ClusterState:
        """State of a worker of the newer release, without source offsets."""
        return self.readings.state(self.roll.newer)

    @cached_property
    def _config(self) -> TopicRecords:
        return self.readings.config_records.of(self.roll.newer)

    @cached_property
    def _status(self) -> TopicRecords:
        return self.readings.status_records.of(self.roll.newer)

    @property
    def config(self) -> Sequence[EvidenceRecord]:
        """Records of the config topic, without aborted ones that workers skip."""
        return self._config.records

    @property
    def status(self) -> Sequence[EvidenceRecord]:
        """Records of the status topic; workers see aborted ones, too."""
        return self._status.records

    @cached_property
    def committed(self) -> ClusterState:
        """Config state without records of aborted transactions (`LogReadings.committed`)."""
        return self.readings.committed(self.roll.newer)

    def read_by(self, profile: Profile) -> ClusterState:
        """State of a worker of one of the two releases."""
        return self.older if profile == self.roll.older else self.newer

    @cached_property
    def offsets(self) -> LastOffsets:
        """Last record of each key, by offsets topic and connector (`OffsetReadings.last`)."""
        return self.readings.offsets.last(self.roll.newer)

    @property
    def committed_offsets(self) -> LastByKey:
        """For each key of an offsets topic, the last record outside aborted transactions."""
        return self.readings.offsets.last_by_key(exactly_once=True)

    def all_of(self, kind: type, name: str) -> Sequence[EvidenceRecord]:
        """Records of a type (`TargetState`, …) about a connector, in order."""
        return self._config.by_kind.get((kind, name)) or self._status.by_kind.get((kind, name), ())

    def last_of(self, kind: type, name: str) -> EvidenceRecord | None:
        """Last record of a type about a connector; None without any."""
        records = self.all_of(kind, name)
        return records[-1] if records else None

    def names_of(self, kind: type) -> list[str]:
        """Connectors that have records of a type."""
        kinds = chain(self._config.by_kind, self._status.by_kind)
        return sorted(name for record_kind, name in kinds if record_kind is kind)

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
