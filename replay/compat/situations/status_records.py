"""Statuses and active topics that the older release cannot read or leaves behind.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterator

from controlplane.core.codec.status import decode_status
from controlplane.core.java import json_codec
from controlplane.core.records import ActiveTopic, Invalid, TaskStatus
from replay.compat.log_evidence import LogEvidence
from replay.compat.log_readings import EvidenceRecord
from replay.compat.preparation import PreparationStep, StepTime, append_command
from replay.compat.situation import DetectedSituation
from replay.findings import Severity


def unreadable_status(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """7: the older release cannot read STOPPED or RESTARTING; it shows an earlier state or none."""
    for name in evidence.connectors:
        alike: dict[tuple[bool, str, str], list[EvidenceRecord]] = {}
        for task, record in evidence.last_statuses(name).items():
            if _unread(evidence, record):
                state, shown = record.record.status.state.value, _shown_state(evidence, name, task)
                alike.setdefault((task is None, state, shown), []).append(record)
        for (_, state, shown), unread in alike.items():
            yield DetectedSituation(
                connector=name,
                evidence=tuple(record.position for record in unread),
                severity=Severity.INFO,
                sentence=f"{_reported(unread)} {state}, which {evidence.roll.older.release} "
                f"cannot read: it shows {shown} until one of its own workers reports",
            )


def _shown_state(evidence: LogEvidence, name: str, task: int | None) -> str:
    """State of a connector (None) or a task as the older release shows it."""
    status = evidence.older.status
    shown = status.connectors.get(name) if task is None else status.tasks.get(name, {}).get(task)
    return shown.state.value if shown is not None else "no status at all (404)"


def _reported(unread: list[EvidenceRecord]) -> str:
    """Beginning of the sentence about the statuses of a connector, or of some of its tasks."""
    tasks = [str(record.record.task) for record in unread if isinstance(record.record, TaskStatus)]
    if not tasks:
        return "is reported"
    return f"has {'task' if len(tasks) == 1 else 'tasks'} {', '.join(tasks)} reported"


def _unread(evidence: LogEvidence, evidence_record: EvidenceRecord) -> bool:
    if evidence_record.record.status is None:
        return False
    profile = evidence.roll.older
    return isinstance(
        decode_status(evidence_record.entry.key, evidence_record.entry.value, profile), Invalid
    )


def active_topics(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """11: the older release does not know active topics and never removes them."""
    for name, topics in sorted(evidence.newer.status.active_topics.items()):
        if not topics:
            continue
        records = [
            record
            for record in evidence.all_of(ActiveTopic, name)
            if record.record.activity is not None
        ]
        last = {record.entry.key: record for record in records if record.record.topic in topics}
        exists = name in evidence.newer.config.connectors
        release = evidence.roll.older.release
        deleted = (
            "was deleted and still has active topics; a new connector of this name inherits them"
        )
        living = f"has active topics; {release} does not know them, and a deletion there "
        yield DetectedSituation(
            connector=name,
            evidence=tuple(record.position for record in last.values()),
            severity=Severity.INFO if exists else Severity.WARNING,
            sentence=f"{living}leaves them behind" if exists else deleted,
            steps=() if exists else tuple(_removed(record) for record in last.values()),
        )


def _removed(evidence_record: EvidenceRecord) -> PreparationStep:
    key = json_codec.decode_key(evidence_record.entry.key or b"")
    place = evidence_record.position
    command = append_command(place.topic, place.partition, key, "")
    return PreparationStep(
        StepTime.BEFORE, command, "no request removes it, because the connector is deleted"
    )


def plugin_version(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """18: statuses hold the plugin version; the older release omits it."""
    for name in evidence.connectors:
        records = [
            record
            for record in evidence.last_statuses(name).values()
            if record.record.status is not None and record.record.status.version is not None
        ]
        if records:
            yield DetectedSituation(
                connector=name,
                evidence=tuple(record.position for record in records),
                severity=Severity.INFO,
                sentence=f"reports the version of its plugin; {evidence.roll.older.release} "
                "ignores it and omits it in its next report",
            )
