"""Connectors and tasks that fail and recover repeatedly, or keep leaving RUNNING."""

from collections.abc import Iterator

from controlplane.core.records import ConnectorStatus, State, Status, TaskStatus
from replay.audit.bursts import Burst, Bursts
from replay.audit.context import (
    AuditContext,
    ConnectorOrTask,
    at,
    instance,
    lasting,
    status_in,
)
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity


class StateFlaps:
    """Too many failures of an instance, or exits from RUNNING, within a window."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        limits = about.thresholds
        self._states: dict[ConnectorOrTask, State] = {}
        self._failures: Bursts[ConnectorOrTask] = Bursts(
            limits.flap_failures, limits.flap_window_ms
        )
        self._departures: Bursts[ConnectorOrTask] = Bursts(
            limits.flap_departures, limits.flap_window_ms
        )

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Count changes; repeated states and requested pauses and stops do not count."""
        yield from self._report(*status_in(decoded), decoded)

    def end(self) -> Iterator[Finding]:
        """Report bursts that last until the end of the log."""
        for who, burst in self._failures.end():
            yield self._failing(who, burst)
        for who, burst in self._departures.end():
            yield self._restless(who, burst)

    def _report(
        self, who: ConnectorOrTask, status: Status | None, decoded: DecodedRecord
    ) -> Iterator[Finding]:
        if status is None:
            self._states.pop(who, None)
            return
        before, now = self._states.get(who), status.state
        self._states[who] = now
        if now is State.FAILED and before is not State.FAILED:
            over = self._failures.add(who, decoded)
            if over is not None:
                yield self._failing(who, over)
        if now is State.UNASSIGNED and before is State.RUNNING:
            over = self._departures.add(who, decoded)
            if over is not None:
                yield self._restless(who, over)

    def _failing(self, who: ConnectorOrTask, burst: Burst) -> Finding:
        status: Status = burst.last.record.status
        trace = status.trace.splitlines()[0] if status.trace else "no trace was written"
        sentence = (
            f"{instance(*who)} failed {burst.count} times within {lasting(burst.lasted_ms)} until "
            f"{at(burst.last.time_ms)}, and was restarted in between; last failure: {trace}"
        )
        advice = (
            "Fix the cause in the trace before the next restart, and find the script or person "
            "that keeps restarting it."
        )
        return self._finding(who, burst, FindingText(sentence, advice))

    def _restless(self, who: ConnectorOrTask, burst: Burst) -> Finding:
        sentence = (
            f"{instance(*who)} left RUNNING {burst.count} times within "
            f"{lasting(burst.lasted_ms)} until {at(burst.last.time_ms)}, without a failure"
        )
        advice = (
            "The group keeps rebalancing. Search for a worker that leaves and joins again: out of "
            "memory, slow polls, a strict liveness probe."
        )
        return self._finding(who, burst, FindingText(sentence, advice))

    def _finding(self, who: ConnectorOrTask, burst: Burst, words: FindingText) -> Finding:
        severity = Severity.WARNING
        return self._about.finding("status-flapping", severity, who[0], burst.evidence, words)
