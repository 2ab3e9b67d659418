"""Restart storms: a connector that is told to restart again and again (KIP-745).

Only restarts of a connector together with its tasks lie in the log; those of a single task, or of
the connector alone, are asked of the worker that owns it and leave no record.
"""

from collections.abc import Iterator

from controlplane.core.records import RestartRequest
from replay.audit.about import About, Words, at, lasting
from replay.audit.bursts import Burst, Bursts
from replay.audit.reading import Told
from replay.audit.trail.trail import Verb
from replay.audit.who import who
from replay.findings import Finding, Severity


class Restarts:
    """Too many requests for one connector within a window."""

    concerns = (RestartRequest,)

    def __init__(self, about: About) -> None:
        self._about = about
        limits = about.thresholds
        self._storms: Bursts[str] = Bursts(limits.storm_restarts, limits.storm_window_ms)

    def see(self, told: Told) -> Iterator[Finding]:
        """Requests for what is not there restart nothing."""
        if isinstance(told.record, RestartRequest) and told.connector in told.config.connectors:
            over = self._storms.add(told.connector, told)
            if over is not None:
                yield self._finding(told.connector, over)

    def end(self) -> Iterator[Finding]:
        """Those that go on until the log ends."""
        for name, burst in self._storms.end():
            yield self._finding(name, burst)

    def _finding(self, name: str, burst: Burst) -> Finding:
        by = who(self._about, burst.last, Verb.RESTART)
        sentence = (
            f"{name} was restarted {burst.count} times within {lasting(burst.lasted_ms)} until "
            f"{at(burst.last.time_ms)}, the last time{by or ' by nobody knows whom'}"
        )
        advice = (
            "Stop what restarts it (most likely a script that watches for FAILED), and mend what "
            "makes it fail; let scripts wait longer each time."
        )
        words, severity = Words(sentence, advice), Severity.WARNING
        return self._about.finding("restart-storm", severity, name, burst.evidence, words)
