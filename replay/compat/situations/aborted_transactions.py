"""Aborted transactions in the config topic, skipped only with exactly-once support.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from controlplane.core.codec.config import decode_config
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.java import json_codec
from controlplane.core.records import (
    ConfigRecord,
    ConnectorConfig,
    Invalid,
    RestartRequest,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
)
from controlplane.core.views.diff import Aspect, Change, diff
from replay.compat.log_evidence import LogEvidence
from replay.compat.preparation import PreparationStep, StepTime, again, append_command, copied
from replay.compat.situation import DetectedSituation
from replay.compat.situations.state_commands import (
    harmless_write,
    repeated_target_state,
    target_state_step,
)
from replay.findings import Severity

_WHY = "writes the committed records again, so that all workers read them"


def aborted_configs(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """15: aborted config records, which workers without exactly-once support obey."""
    log = evidence.entries_of(evidence.topics.config)
    aborted = [entry for entry in log if entry.aborted]
    if not aborted:
        return
    skipping, applying = evidence.committed, fold(log, evidence.roll.newer, topics=evidence.topics)
    changes = diff(skipping, applying)
    for name, records in _records(
        evidence, sorted({change.connector for change in changes})
    ).items():
        ours = [change for change in changes if change.connector == name]
        yield DetectedSituation(
            connector=name,
            evidence=tuple(sorted({change.cause for change in ours if change.cause is not None})),
            severity=Severity.DANGER,
            sentence="differs by records of an aborted transaction: members with exactly-once "
            "support skip them, all others apply them",
            steps=tuple(_as_committed(evidence, records, ours)),
        )
    if skipping.config.offset != applying.config.offset:
        settled = "any later record lets the members agree"
        yield DetectedSituation(
            evidence=(aborted[-1].position,),
            severity=Severity.DANGER if evidence.roll.mixed else Severity.WARNING,
            sentence="the config topic ends with aborted records: members with and without "
            "exactly-once support disagree on its end, and rebalance endlessly",
            steps=(PreparationStep(StepTime.BEFORE, harmless_write(evidence), settled),),
        )


def _as_committed(
    evidence: LogEvidence, records: "_CommittedAndAborted", changes: Sequence[Change]
) -> Iterator[PreparationStep]:
    """Steps that restore the committed state: a target state by command, other records by copies.

    `controlplane apply` would not help: without a difference from the worker's state, it sends no
    request.
    """
    committed, name = evidence.committed.config, changes[0].connector
    if {change.aspect for change in changes} == {
        Aspect.TARGET_STATE
    } and name in committed.connectors:
        command = repeated_target_state(name, committed.targets[name], evidence.roll.start)
        if command is not None:
            yield PreparationStep(StepTime.BEFORE, command, _WHY)
            return
    exists = name in committed.connectors
    for line in _again(records) if exists else _removed(records):
        yield PreparationStep(StepTime.BEFORE, line, _WHY)
    if exists and records.never_committed_target:
        yield target_state_step(evidence, name, Target.STARTED, _WHY)


class _CommittedAndAborted:
    """Records of a connector by key: the last committed one, and an aborted one after it."""

    def __init__(self, tasks: Sequence[int]) -> None:
        self.tasks = tasks
        """Committed tasks."""
        self.decoded: dict[bytes | None, ConfigRecord] = {}
        """Decoded last record of each key."""
        self.last: dict[bytes | None, Entry] = {}
        """Last record of each key that is not of an aborted transaction."""
        self.wrong: dict[bytes | None, Entry] = {}
        """Last record of each key, if it is of an aborted transaction."""

    def take(self, entry: Entry, record: ConfigRecord) -> None:
        """Store the next record as the last committed or the aborted one of its key."""
        self.decoded[entry.key] = record
        if entry.aborted:
            self.wrong[entry.key] = entry
        else:
            self.last[entry.key] = entry
            self.wrong.pop(entry.key, None)

    def order(self, entry: Entry) -> tuple[int, int]:
        """Sort key of records to write: target state, config, tasks, commit; in each by offset."""
        kind = type(self.decoded[entry.key])
        return _ORDER.index(kind) if kind in _ORDER else len(_ORDER), entry.offset

    def committed(self, key: bytes | None) -> Entry | None:
        """Last committed record of a key; None if it is a tombstone."""
        entry = self.last.get(key)
        return entry if entry is not None and entry.value is not None else None

    @property
    def never_committed_target(self) -> bool:
        """True if only aborted records set the target state."""
        keys = (key for key in self.wrong if isinstance(self.decoded[key], TargetState))
        return any(self.committed(key) is None for key in keys)

    def is_uncommitted_task(self, key: bytes | None) -> bool:
        """True for the config of a task that the committed task set lacks."""
        record = self.decoded[key]
        return isinstance(record, TaskConfig) and record.task not in self.tasks

    def is_of_a_set(self, key: bytes | None) -> bool:
        """True for records that must be written together: a config and its tasks."""
        kinds = ConnectorConfig | TaskConfig | TaskCommit
        return isinstance(self.decoded[key], kinds) and not self.is_uncommitted_task(key)


def _records(evidence: LogEvidence, names: Iterable[str]) -> Mapping[str, _CommittedAndAborted]:
    """Records of each connector; restart requests are excluded, as a copy would restart again."""
    by_connector = {
        name: _CommittedAndAborted(evidence.committed.config.task_ids(name)) for name in names
    }
    for entry in evidence.entries:
        if entry.topic == evidence.topics.config:
            record = decode_config(entry.key, entry.value, evidence.roll.newer)
            name = getattr(record, "connector", None)
            if name in by_connector and not isinstance(record, Invalid | RestartRequest):
                by_connector[name].take(entry, record)
    return by_connector


_ORDER = (TargetState, ConnectorConfig, TaskConfig, TaskCommit)


def _again(records: _CommittedAndAborted) -> Iterator[str]:
    """Commands that write committed records again.

    If a wrong record belongs to a set (`is_of_a_set`), the whole set is written.
    """
    keys = set(records.wrong)
    if any(records.is_of_a_set(key) for key in keys):
        keys |= {key for key in records.last if records.is_of_a_set(key)}
    meant = [entry for key in keys if (entry := records.committed(key)) is not None]
    places = (entry.position for entry in sorted(meant, key=records.order))
    if meant:
        yield copied(tuple(places))
    alone = (entry for entry in records.wrong.values() if records.committed(entry.key) is None)
    yield from _emptied(records, alone)


def _removed(records: _CommittedAndAborted) -> Iterator[str]:
    """Commands that remove a connector without a committed config, and its target state."""
    wrong = {type(records.decoded[key]): entry for key, entry in records.wrong.items()}
    for kind in (ConnectorConfig, TargetState):
        if kind in wrong:
            yield again(None, wrong[kind])
    yield from _emptied(records, (records.last | records.wrong).values())


def _emptied(records: _CommittedAndAborted, entries: Iterable[Entry]) -> Iterator[str]:
    """Commands that empty task sets that were never committed, or whose connector is gone."""
    for entry in entries:
        record = records.decoded[entry.key]
        if isinstance(record, TaskCommit) and record.tasks:
            key = json_codec.decode_key(entry.key or b"")
            yield append_command(entry.topic, entry.partition, key, '{"tasks":0}')
