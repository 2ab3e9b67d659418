"""Source offsets that only one of the two releases finds.

Each rule's docstring begins with the number of its situation in `SITUATIONS`.
"""

from collections.abc import Iterator, Mapping

from controlplane.core.entry import Entry, Position
from controlplane.core.records import ConnectorConfig
from controlplane.core.text.safe_text import count
from replay.compat.log_evidence import LogEvidence
from replay.compat.preparation import PreparationStep, StepTime, again, copied_topic, offsets_of
from replay.compat.situation import DetectedSituation
from replay.compat.situations.state_commands import kept_quiet
from replay.findings import Severity

EVIDENCE_SHOWN = 20
"""Offsets that a finding lists."""

LastEntries = Mapping[bytes | None, Entry]
"""Last record of each key of one connector in one topic."""


def own_topic(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """14: a dedicated offsets topic; the older release reads the worker's topic only."""
    worker = evidence.topics.offsets
    for name in evidence.connectors:
        own = evidence.newer.config.connectors[name].get("offsets.storage.topic")
        if not isinstance(own, str) or own == worker:
            continue
        own_offsets, copy = (evidence.offsets.get((topic, name), {}) for topic in (own, worker))
        back = evidence.roll.goal is evidence.roll.older or evidence.roll.mixed
        source, target = (own_offsets, copy) if back else (copy, own_offsets)
        topics = (own, worker) if back else (worker, own)
        behind = [entry for key, entry in source.items() if _value(target, key) != entry.value]
        config = evidence.last_of(ConnectorConfig, name)
        places = [config.position] if config is not None else []
        yield DetectedSituation(
            connector=name,
            evidence=(*places, *_positions(behind)),
            severity=Severity.DANGER if behind else Severity.INFO,
            sentence=_sentence(evidence, own, len(behind), back=back),
            steps=_copying(evidence, name, topics) if behind else (),
        )


def _positions(entries: list[Entry]) -> Iterator[Position]:
    return (entry.position for entry in entries[:EVIDENCE_SHOWN])


def _value(last: LastEntries, key: bytes | None) -> bytes | None:
    entry = last.get(key)
    return None if entry is None else entry.value


def _sentence(evidence: LogEvidence, own: str, behind: int, *, back: bool) -> str:
    older, newer = evidence.roll.older.release, evidence.roll.newer.release
    stale = f"lacks the present value of {count(behind, 'offset')}" if behind else "has them all"
    if back:
        return f"has its offsets in {own}; {older} reads only the worker's topic, which {stale}"
    return f"names {own} for its offsets; {newer} reads only that topic, which {stale}"


def _copying(
    evidence: LogEvidence, name: str, topics: tuple[str, str]
) -> tuple[PreparationStep, ...]:
    """Steps that copy a connector's offsets while it is quiet; other connectors continue."""
    line = copied_topic(*topics, through=offsets_of(name))
    copy = PreparationStep(StepTime.BEFORE, line, "copies its offsets to the topic that is read")
    return kept_quiet(evidence, name, "its offsets must not move meanwhile", copy)


def aborted_offsets(evidence: LogEvidence) -> Iterator[DetectedSituation]:
    """14: offsets of aborted transactions, read by workers without exactly-once support."""
    worker = evidence.topics.offsets
    if not any(entry.aborted for entry in evidence.entries_of(worker)):
        return
    for name in evidence.connectors:
        last = evidence.offsets.get((worker, name), {})
        aborted = [entry for entry in last.values() if entry.aborted]
        if aborted:
            yield DetectedSituation(
                connector=name,
                evidence=tuple(_positions(aborted)),
                severity=Severity.WARNING,
                sentence="has offsets of an aborted transaction; workers without exactly-once "
                "support continue from them and skip records that were never written",
                steps=_as_committed(evidence, name, aborted),
            )


def _as_committed(
    evidence: LogEvidence, name: str, aborted: list[Entry]
) -> tuple[PreparationStep, ...]:
    """Steps that write committed offsets again; a PATCH of offsets would find nothing to change."""
    committed = evidence.committed_offsets
    lines = (again(committed.get((entry.topic, entry.key)), entry) for entry in aborted)
    why = "writes the last committed offset again, so that all workers read it"
    steps = (PreparationStep(StepTime.BEFORE, line, why) for line in lines)
    return kept_quiet(evidence, name, "its offsets must not move meanwhile", *steps)
