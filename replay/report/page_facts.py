"""Facts of a page: plain values without secrets, ready to be stored and read back.

A place is a record's position in text form: `config@57`.
"""

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.page.timeline import ConnectorTimeline, TimeRange
from replay.audit.shared_topics import SharedResources
from replay.findings import Severity
from replay.report.page_limits import PageLimits


class ReportConnector(msgspec.Struct, frozen=True):
    """Connector: its state at the end, and its counted events."""

    name: str
    there: bool
    """True if the connector exists at the end of the log."""
    wanted: str | None
    """Target state; None if the connector does not exist."""
    reported: str | None
    """Last reported state; None without a report."""
    tasks: dict[str, int]
    """Number of tasks in each reported state."""
    numbers: dict[str, int]
    """Number of events of each kind: the kinds of marks, `failed`, and `moved` for offsets."""
    places: dict[str, str]
    """Last record of each of these kinds, and of `wanted`, `reported` and `tasks`."""
    latest: dict[str, tuple[str, ...]]
    """Last records of each of these kinds. For `tasks`: the last record of each task, for the first
    `LATEST` tasks."""
    worst: Severity | None
    """Worst severity of the findings about it."""
    verdicts: tuple[int, ...]
    """Verdict for each release in comparison."""
    timeline: ConnectorTimeline | None = None
    """None if it is not drawn."""


class FindingFacts(msgspec.Struct, frozen=True):
    """Finding of an audit, or of a rehearsal: a simulated compaction and restart."""

    kind: str
    severity: Severity
    cluster: str
    connector: str | None
    sentence: str
    advice: str
    places: tuple[str, ...]
    clusters: tuple[str, ...] = ()
    """Cluster of each place, if the places lie in several clusters."""

    @property
    def cluster_places(self) -> list[tuple[str, str]]:
        """Pairs of cluster and place, one for each place."""
        clusters = self.clusters or (self.cluster,) * len(self.places)
        return list(zip(clusters, self.places, strict=True))


class FindingsFacts(msgspec.Struct, frozen=True):
    """Findings of a cluster, the worst first."""

    listed: tuple[FindingFacts, ...]
    numbers: dict[str, int]
    """Number of all findings, by severity."""

    @property
    def unlisted(self) -> int:
        """Number of findings that are not listed."""
        return sum(self.numbers.values()) - len(self.listed)


class VerdictReason(msgspec.Struct, frozen=True):
    """Reason for a verdict, with the records that show it."""

    severity: Severity
    text: str
    places: tuple[str, ...]


class JudgedConnector(msgspec.Struct, frozen=True):
    """Connector with a bad verdict for a release; None is the cluster."""

    connector: str | None
    verdict: int
    reasons: tuple[VerdictReason, ...]
    more: int
    """Number of reasons that are not listed."""


class ReleaseFacts(msgspec.Struct, frozen=True):
    """Effect of a release change on a cluster."""

    goal: str
    verdict: int
    judged: tuple[JudgedConnector, ...]
    more: int
    """Number of connectors that are not listed."""
    commands: tuple[tuple[str, str, str], ...]
    """Preparation: time, command and reason of each step."""
    more_commands: int
    """Number of steps that are not listed."""


class PartitionFacts(msgspec.Struct, frozen=True):
    """Number of records read from one partition, with the first and last offset."""

    topic: str
    partition: int
    records: int
    first: int
    last: int
    """Offset of the last record."""

    def places(self, topics: Topics) -> tuple[str, str]:
        """Places of the first and the last record."""
        ends = (Position(self.topic, self.partition, offset) for offset in (self.first, self.last))
        first, last = (place(end, topics) for end in ends)
        return first, last


class GapFacts(msgspec.Struct, frozen=True):
    """Gap (offsets lost before they were archived), or a doubt because offsets are missing."""

    sentence: str
    places: tuple[str, ...]
    """Records before and after the gap, where they exist."""


class ShownRecord(msgspec.Struct, frozen=True):
    """Record shown as evidence, without secrets: place, time, key and value."""

    place: str
    at_ms: int
    key: str
    value: str


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a page about one cluster."""

    cluster: str
    topics: Topics
    limits: PageLimits
    release: str
    """Release that reads the log."""
    head: str | None
    """Hash of the last manifest; None for a log."""
    has_trail: bool
    """True if requests of audit streams were searched for authors."""
    time: TimeRange | None
    """None if no record has a time."""
    parts: tuple[PartitionFacts, ...]
    missing: tuple[GapFacts, ...]
    """Listed gaps and doubts."""
    missing_more: int
    certain_from: str = ""
    """Sentence about the earliest certain moment; empty without unknown spans."""
    connectors: tuple[ReportConnector, ...]
    """Connectors, the worst first."""
    connectors_more: int
    numbers: dict[str, int]
    """Number of connectors: `there`, `RUNNING`, `FAILED`, …"""
    audited: FindingsFacts
    linted: FindingsFacts
    shares: SharedResources
    """Resources that it may share with other clusters."""
    changes: tuple[ReleaseFacts, ...]
    """Effects of release changes, by release."""
    evidence: tuple[ShownRecord, ...]
    evidence_more: int

    @property
    def records(self) -> int:
        """Number of records read, from all partitions."""
        return sum(part.records for part in self.parts)
