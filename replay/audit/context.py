"""Context of an audit, and the construction of its findings."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from controlplane.core.entry import Position
from controlplane.core.moments import time_text
from controlplane.core.records import Status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count, safe
from replay.audit.decoded_log import DecodedRecord
from replay.audit.thresholds import Thresholds
from replay.audit.trail.request_trail import RequestTrail
from replay.doubts import MayBeOlder, never_older
from replay.findings import Finding, FindingText, Severity

EVIDENCE_KEPT = 10
"""Greatest number of records in a finding's evidence."""


class LogClock:
    """Time of the latest record, kept current by the pass; -1 if unknown."""

    now_ms = -1


class AuditContext(NamedTuple):
    """The audited cluster, and the data to judge it by."""

    cluster: str
    profile: Profile
    clock: LogClock
    topics: Topics = Topics()
    thresholds: Thresholds = Thresholds()
    trail: RequestTrail = RequestTrail()
    """Requests of audit streams."""
    may_be_older: MayBeOlder = never_older
    """True for positions before which records may be missing (see `MayBeOlder`)."""

    def finding(
        self,
        kind: str,
        severity: Severity,
        connector: str | None,
        evidence: Sequence[Position],
        words: FindingText,
    ) -> Finding:
        """Create a finding in this cluster."""
        return new_finding(kind, severity, (self.cluster, connector), evidence, words)

    def place(self, position: Position) -> str:
        """Format a position with the topics of this cluster: `config@57`."""
        return place(position, self.topics)


def new_finding(
    kind: str,
    severity: Severity,
    subject: tuple[str, str | None],
    evidence: Sequence[Position],
    words: FindingText,
) -> Finding:
    """Create a finding about a cluster and a connector.

    Secrets are removed from its text, and control characters are escaped.
    """
    sentence, advice = (safe(redacted_text(text)) for text in words)
    return Finding(kind, severity, *subject, tuple(evidence[:EVIDENCE_KEPT]), sentence, advice)


class Audit(Protocol):
    """Audit of one kind: sees records once, in order, and may yield findings at any time.

    The memory grows with the number of connectors, tasks, source partitions, workers and unfinished
    commands. The number of records does not matter.
    """

    @property
    def concerns(self) -> tuple[type, ...]:
        """Types of records that the audit handles."""
        ...

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Return the findings that the next record completes."""
        ...

    def end(self) -> Iterator[Finding]:
        """Finish at the end of the log."""
        ...


_UNITS = (
    ("day", 86_400_000, 3_600_000, "hour"),
    ("hour", 3_600_000, 60_000, "minute"),
    ("minute", 60_000, 1_000, "second"),
    ("second", 1_000, 1_000, ""),
)
"""Units of time in milliseconds, each with the unit of its remainder."""


def lasting(time_ms: int) -> str:
    """Format a time span in at most two units: `3 hours`, `2 minutes 50 seconds`.

    The span is never rounded down, so all events lie within the printed span.
    """
    for unit, size, lesser_size, lesser in _UNITS:
        if time_ms >= 2 * size or time_ms == size:
            whole = -(-time_ms // lesser_size) * lesser_size
            number, remainder = divmod(whole, size)
            return count(number, unit) + (
                f" {count(remainder // lesser_size, lesser)}" if remainder else ""
            )
    return f"{time_ms} ms"


def at(time_ms: int) -> str:
    """Format a time in ms since 1970; `a time unknown` for -1."""
    return time_text(time_ms) if time_ms >= 0 else "a time unknown"


ConnectorOrTask = tuple[str, int | None]
"""A connector and one of its tasks; None is the connector itself."""


def status_in(decoded: DecodedRecord) -> tuple[ConnectorOrTask, Status | None]:
    """Instance and status of a status record; the status of a tombstone is None."""
    record = decoded.record
    return (record.connector, getattr(record, "task", None)), record.status


def instance(connector: str, task: int | None) -> str:
    """Name a connector or one of its tasks."""
    return f"connector {connector}" if task is None else f"task {task} of {connector}"
