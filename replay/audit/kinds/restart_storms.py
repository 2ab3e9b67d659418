"""Restart storms: repeated requests to restart a connector (KIP-745).

Only restarts with `includeTasks` or `onlyFailed` leave a record. Other restarts go directly to the
owning worker.
"""

from collections.abc import Iterator

from controlplane.core.records import RestartRequest
from replay.audit.attribution import author
from replay.audit.bursts import Burst, Bursts
from replay.audit.context import AuditContext, at, lasting
from replay.audit.decoded_log import DecodedRecord
from replay.audit.trail.request_trail import TrailVerb
from replay.findings import Finding, FindingText, Severity


class RestartStorms:
    """Too many requests for one connector within a window."""

    concerns = (RestartRequest,)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        limits = about.thresholds
        self._storms: Bursts[str] = Bursts(limits.storm_restarts, limits.storm_window_ms)

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Count requests; those for absent connectors have no effect."""
        if (
            isinstance(decoded.record, RestartRequest)
            and decoded.connector in decoded.config.connectors
        ):
            over = self._storms.add(decoded.connector, decoded)
            if over is not None:
                yield self._finding(decoded.connector, over)

    def end(self) -> Iterator[Finding]:
        """Report storms that last until the end of the log."""
        for name, burst in self._storms.end():
            yield self._finding(name, burst)

    def _finding(self, name: str, burst: Burst) -> Finding:
        by = author(self._about, burst.last, TrailVerb.RESTART)
        sentence = (
            f"{name} was restarted {burst.count} times within {lasting(burst.lasted_ms)} until "
            f"{at(burst.last.time_ms)}, the last time{by or ' by an unknown caller'}"
        )
        advice = (
            "Stop the program that restarts it, most likely a script that watches for FAILED. "
            "Fix the cause of the failures. Let scripts wait longer after each attempt."
        )
        words, severity = FindingText(sentence, advice), Severity.WARNING
        return self._about.finding("restart-storm", severity, name, burst.evidence, words)
