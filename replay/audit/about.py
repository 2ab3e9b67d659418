"""What every audit knows, and how it tells what it has found."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from controlplane.core.entry import Position
from controlplane.core.moments import time_text
from controlplane.core.profiles import Profile
from controlplane.core.redact import redacted_text
from controlplane.core.safe_text import count, safe
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.audit.reading import Told
from replay.audit.thresholds import Thresholds
from replay.audit.trail.trail import Trail
from replay.findings import Finding, Severity

EVIDENCE_KEPT = 10
"""Positions that a finding names: enough to look, however often something happened."""


class Words(NamedTuple):
    """What is the matter and what to do about it."""

    sentence: str
    advice: str = ""


class Clock:
    """The time of the latest record; -1: unknown. Whoever goes through the log sets it."""

    now_ms = -1


class About(NamedTuple):
    """The cluster that is audited, and what is needed to judge it."""

    cluster: str
    profile: Profile
    clock: Clock
    topics: Topics = Topics()
    thresholds: Thresholds = Thresholds()
    trail: Trail = Trail()
    """Who asked for what, as others have written it down."""

    def finding(
        self,
        kind: str,
        severity: Severity,
        connector: str | None,
        evidence: Sequence[Position],
        words: Words,
    ) -> Finding:
        """A finding in this cluster."""
        return found(kind, severity, (self.cluster, connector), evidence, words)

    def place(self, position: Position) -> str:
        """A position as people write it: `config@57`."""
        return place(position, self.topics)


def found(
    kind: str,
    severity: Severity,
    whom: tuple[str, str | None],
    evidence: Sequence[Position],
    words: Words,
) -> Finding:
    """A finding about a cluster and a connector.

    Whatever its words repeat of the log, no secret is in them, and nothing that moves a terminal.
    """
    sentence, advice = (safe(redacted_text(text)) for text in words)
    return Finding(kind, severity, *whom, tuple(evidence[:EVIDENCE_KEPT]), sentence, advice)


class Audit(Protocol):
    """One kind of audit: sees records once, in order, and may tell what it finds at any time.

    What it remembers grows with keys (connectors, tasks, source partitions), never with records.
    """

    @property
    def concerns(self) -> tuple[type, ...]:
        """The kinds of records that it looks at."""
        ...

    def see(self, told: Told) -> Iterator[Finding]:
        """Look at one record."""
        ...

    def end(self) -> Iterator[Finding]:
        """The log is over."""
        ...


_UNITS = (
    ("day", 86_400_000, 3_600_000, "hour"),
    ("hour", 3_600_000, 60_000, "minute"),
    ("minute", 60_000, 1_000, "second"),
    ("second", 1_000, 1_000, ""),
)
"""Units of time in milliseconds, each with the unit in which its remainder is told."""


def lasting(time_ms: int) -> str:
    """A span of time in words, in two units at most: `3 hours`, `2 minutes 50 seconds`.

    The span is never rounded down: what happened within it did happen within what is told.
    """
    for unit, size, lesser_size, lesser in _UNITS:
        if time_ms >= 2 * size or time_ms == size:
            whole = -(-time_ms // lesser_size) * lesser_size
            number, rest = divmod(whole, size)
            return count(number, unit) + (f" {count(rest // lesser_size, lesser)}" if rest else "")
    return f"{time_ms} ms"


def at(time_ms: int) -> str:
    """A point in time in words."""
    return time_text(time_ms) if time_ms >= 0 else "a time unknown"


def instance(connector: str, task: int | None) -> str:
    """A connector itself or one of its tasks, in words."""
    return f"connector {connector}" if task is None else f"task {task} of {connector}"
