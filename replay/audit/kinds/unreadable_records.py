"""Unreadable records: written by other programs, damaged, or of a newer release.

Records are counted by topic, and some are listed. `replay lint --hazards` shows the records at
which a worker throws, and the effect in each release.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from controlplane.core.entry import Position
from controlplane.core.records import Invalid, SourcePartition
from controlplane.core.text.safe_text import count
from replay.audit.context import EVIDENCE_KEPT, AuditContext
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity

REASONS_KEPT = 8
"""Distinct reasons kept per topic; reasons may quote arbitrary content."""

_OTHERS = "other reasons"

_ADVICE = (
    "`replay lint --hazards` shows the records at which a worker throws, and the effect of each. "
    "Write a valid record under its key, and let the topic be compacted."
)


class _TopicProblems:
    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.thrown = 0
        """Number of records on which a worker throws; it skips the others."""
        self._thrown: list[Position] = []
        self._others: list[Position] = []

    def add(self, bad: Invalid, position: Position) -> None:
        """Count a record; keep the positions of the first few."""
        reason = bad.reason.partition(":")[0]
        room = reason in self.reasons or len(self.reasons) < REASONS_KEPT
        self.reasons[reason if room else _OTHERS] += 1
        throws = bad.thrown is not None
        self.thrown += throws
        shown = self._thrown if throws else self._others
        if len(shown) < EVIDENCE_KEPT:
            shown.append(position)

    @property
    def evidence(self) -> list[Position]:
        """Positions of a few records, the worst first."""
        return [*self._thrown, *self._others]


class UnreadableRecords:
    """Audit with a finding per topic; worse if a worker throws."""

    concerns = (Invalid, SourcePartition)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._problems_by_topic: dict[str, _TopicProblems] = {}
        self._topics = msgspec.structs.astuple(about.topics)

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Count an unreadable key or value."""
        bad = decoded.record if isinstance(decoded.record, Invalid) else decoded.offset
        if isinstance(bad, Invalid) and decoded.entry.topic in self._topics:
            self._problems_by_topic.setdefault(decoded.entry.topic, _TopicProblems()).add(
                bad, decoded.position
            )
        return iter(())

    def end(self) -> Iterator[Finding]:
        """Report the number of unreadable records and their reasons, one finding per topic."""
        for name, topic in self._problems_by_topic.items():
            severity = Severity.WARNING if topic.thrown else Severity.INFO
            words = FindingText(self._sentence(name, topic), _ADVICE if topic.thrown else "")
            yield self._about.finding("unreadable-records", severity, None, topic.evidence, words)

    def _sentence(self, name: str, topic: _TopicProblems) -> str:
        number, release = topic.reasons.total(), self._about.profile.release
        reasons = ", ".join(f"{reason} ({of})" for reason, of in topic.reasons.most_common())
        harm = f"; it throws at {topic.thrown} of them" if topic.thrown else ""
        return (
            f"a worker of {release} cannot read {count(number, 'record')} of {name}: "
            f"{reasons}{harm}"
        )
