"""Records that mean nothing to a worker: foreign hands, damage, or a release that is too old.

They are counted and some of them listed, topic by topic. What each does to a worker of any release,
`controlplane inspect --hazards` tells.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from controlplane.core.entry import Position
from controlplane.core.records import Invalid, SourcePartition
from controlplane.core.safe_text import count
from replay.audit.about import EVIDENCE_KEPT, About, Words
from replay.audit.reading import Told
from replay.findings import Finding, Severity

REASONS_KEPT = 8
"""Reasons that are told apart in a topic: some repeat what was written, which may be anything."""

_OTHERS = "other reasons"

_ADVICE = (
    "Let `controlplane inspect --hazards` tell what each of them does; then write a good record "
    "under its key, and let the topic be compacted."
)


class _Topic:
    """What was found in one topic."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.thrown = 0
        """At how many of them a worker throws, where it passes over the others."""
        self._thrown: list[Position] = []
        self._others: list[Position] = []

    def add(self, bad: Invalid, position: Position) -> None:
        """Count a record, and remember where it lies as long as there are few."""
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
        """Some of them, the worst first."""
        return [*self._thrown, *self._others]


class Unreadable:
    """One finding for each of the cluster's topics, worse where a worker throws."""

    concerns = (Invalid, SourcePartition)

    def __init__(self, about: About) -> None:
        self._about = about
        self._found: dict[str, _Topic] = {}
        self._topics = msgspec.structs.astuple(about.topics)

    def see(self, told: Told) -> Iterator[Finding]:
        """A key that is none, or a value that is none."""
        bad = told.record if isinstance(told.record, Invalid) else told.offset
        if isinstance(bad, Invalid) and told.entry.topic in self._topics:
            self._found.setdefault(told.entry.topic, _Topic()).add(bad, told.position)
        return iter(())

    def end(self) -> Iterator[Finding]:
        """How many there are, and why."""
        for name, topic in self._found.items():
            severity = Severity.WARNING if topic.thrown else Severity.INFO
            words = Words(self._sentence(name, topic), _ADVICE if topic.thrown else "")
            yield self._about.finding("unreadable-records", severity, None, topic.evidence, words)

    def _sentence(self, name: str, topic: _Topic) -> str:
        number, release = topic.reasons.total(), self._about.profile.release
        reasons = ", ".join(f"{reason} ({of})" for reason, of in topic.reasons.most_common())
        mean = "means" if number == 1 else "mean"
        harm = f"; at {topic.thrown} of them it throws" if topic.thrown else ""
        return (
            f"{count(number, 'record')} of {name} {mean} nothing to a worker of {release}: "
            f"{reasons}{harm}"
        )
