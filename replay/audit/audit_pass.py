"""All audits of one cluster, run together while its log is read once (a *pass*).

Each record may complete findings, which are returned at once. After any record, the pass can be
stored (`pass_snapshot`). Later, a copy of the pass continues with the next record.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.audit.context import Audit, AuditContext, LogClock
from replay.audit.decoded_log import DecodedRecord, LogReader
from replay.audit.kinds import TABLE
from replay.audit.shared_topics import SharedResourceFinder, SharedResources
from replay.audit.thresholds import Thresholds
from replay.audit.trail.request_trail import RequestTrail
from replay.doubts import MayBeOlder, never_older
from replay.findings import Finding


class AuditResult(msgspec.Struct, frozen=True):
    """Result of one cluster: findings, and resources that it may share with others."""

    findings: tuple[Finding, ...]
    shares: SharedResources


class AuditSubject(NamedTuple):
    """The audited cluster, its workers, and the limits of findings."""

    name: str
    profile: Profile
    topics: Topics = Topics()
    exactly_once: bool = False
    """True if workers run with exactly-once support and skip aborted configs and offsets."""
    limits: Thresholds = Thresholds()
    trail: RequestTrail = RequestTrail()
    """Requests of audit streams."""
    may_be_older: MayBeOlder = never_older
    """True for positions before which records may be missing (see `MayBeOlder`)."""

    def context(self) -> AuditContext:
        """Context that all audits of a pass share."""
        return AuditContext(
            self.name,
            self.profile,
            LogClock(),
            self.topics,
            self.limits,
            self.trail,
            self.may_be_older,
        )


RecordListener = Callable[[DecodedRecord], object]
"""Receives each record that the workers see, after the audits."""


def ignore_record(_: DecodedRecord) -> None:
    """Listener that does nothing."""


class PassState(NamedTuple):
    """State of a pass, which changes with the records: a snapshot stores it."""

    audits: list[Audit]
    sharing: SharedResourceFinder


class AuditPass:
    """All audits of one cluster: `take` its records in order (`core.order`), then get findings."""

    def __init__(self, subject: AuditSubject, listener: RecordListener = ignore_record) -> None:
        self._listener = listener
        self.about = subject.context()
        self.log = LogReader(subject.profile, subject.topics, exactly_once=subject.exactly_once)
        self.state = PassState(
            [make(self.about) for make in TABLE], SharedResourceFinder(subject.name)
        )
        self._concerned: dict[type, list[Audit]] = {}

    def take(self, entry: Entry) -> list[Finding]:
        """Process the next record; return the findings that it completes."""
        decoded = self.log.decode(entry)
        if decoded is None:
            return []
        self.about.clock.now_ms = max(self.about.clock.now_ms, decoded.time_ms)
        self.state.sharing.see(decoded)
        findings = [finding for kind in self._kinds_of(decoded) for finding in kind.see(decoded)]
        self._listener(decoded)
        return findings

    def take_all(self, entries: Iterable[Entry]) -> list[Finding]:
        """Process records; return the findings that they complete."""
        return [finding for entry in entries for finding in self.take(entry)]

    def pending(self) -> list[Finding]:
        """Findings that hold if the log ends here; later records may change or resolve them."""
        return [finding for kind in self.state.audits for finding in kind.end()]

    def shares(self) -> SharedResources:
        """Resources that other clusters may share by mistake."""
        return self.state.sharing.end()

    def _kinds_of(self, decoded: DecodedRecord) -> list[Audit]:
        record = type(decoded.record)
        if record not in self._concerned:
            audits = self.state.audits
            self._concerned[record] = [kind for kind in audits if issubclass(record, kind.concerns)]
        return self._concerned[record]
