"""Statuses and active topics that the older release cannot read or leaves behind."""

from collections.abc import Iterator

from controlplane.core.codec.status import decode_status
from controlplane.core.java import json_codec
from controlplane.core.records import ActiveTopic, Invalid
from replay.compat.log_evidence import EvidenceRecord, LogEvidence
from replay.compat.preparation import PreparationStep, StepTime, append_command
from replay.compat.situation import DetectedSituation
from replay.findings import Severity


def unreadable_status(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """7: the older release cannot read STOPPED or RESTARTING; it shows an earlier state or none."""
    for name in evidence.connectors:
        unread = [
            record for record in evidence.last_statuses(name).values() if _unread(evidence, record)
        ]
        if not unread:
            continue
        states = sorted({record.record.status.state.value for record in unread})
        shown = evidence.older.status.connectors.get(name)
        instead = shown.state.value if shown is not None else "no status at all (404)"
        yield DetectedSituation(
            connector=name,
            evidence=tuple(record.position for record in unread),
            severity=Severity.INFO,
            sentence=f"is reported {' and '.join(states)}, which {evidence.roll.older.release} "
            f"cannot read: it shows {instead} until one of its own workers reports",
        )


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
