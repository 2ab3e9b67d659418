"""Connectors and tasks that fail and come back, again and again, or never stay where they are."""

from collections.abc import Iterator

from controlplane.core.records import ConnectorStatus, State, Status, TaskStatus
from replay.audit.about import About, Words, at, instance, lasting
from replay.audit.bursts import Burst, Bursts
from replay.audit.reading import Told
from replay.findings import Finding, Severity

_Instance = tuple[str, int | None]
"""A connector and one of its tasks; None: the connector itself."""


class Flapping:
    """Too many failures of one instance, or too many ways out of RUNNING, within a window."""

    concerns = (ConnectorStatus, TaskStatus)

    def __init__(self, about: About) -> None:
        self._about = about
        limits = about.thresholds
        self._states: dict[_Instance, State] = {}
        self._failures: Bursts[_Instance] = Bursts(limits.flap_failures, limits.flap_window_ms)
        self._departures: Bursts[_Instance] = Bursts(limits.flap_departures, limits.flap_window_ms)

    def see(self, told: Told) -> Iterator[Finding]:
        """What says the same state again is no news; being paused or stopped is somebody's wish."""
        match told.record:
            case ConnectorStatus(name, status):
                yield from self._report((name, None), status, told)
            case TaskStatus(name, task, status):
                yield from self._report((name, task), status, told)

    def end(self) -> Iterator[Finding]:
        """Those that go on until the log ends."""
        for who, burst in self._failures.end():
            yield self._failing(who, burst)
        for who, burst in self._departures.end():
            yield self._restless(who, burst)

    def _report(self, who: _Instance, status: Status | None, told: Told) -> Iterator[Finding]:
        if status is None:
            self._states.pop(who, None)
            return
        before, now = self._states.get(who), status.state
        self._states[who] = now
        if now is State.FAILED and before is not State.FAILED:
            over = self._failures.add(who, told)
            if over is not None:
                yield self._failing(who, over)
        if now is State.UNASSIGNED and before is State.RUNNING:
            over = self._departures.add(who, told)
            if over is not None:
                yield self._restless(who, over)

    def _failing(self, who: _Instance, burst: Burst) -> Finding:
        status: Status = burst.last.record.status
        trace = status.trace.splitlines()[0] if status.trace else "no trace was written"
        sentence = (
            f"{instance(*who)} failed {burst.count} times within {lasting(burst.lasted_ms)} until "
            f"{at(burst.last.time_ms)}, and was started again in between; the last time: {trace}"
        )
        advice = (
            "Mend what the trace tells before it is restarted again; something or somebody "
            "restarts it without looking."
        )
        return self._finding(who, burst, Words(sentence, advice))

    def _restless(self, who: _Instance, burst: Burst) -> Finding:
        sentence = (
            f"{instance(*who)} was taken out of RUNNING {burst.count} times within "
            f"{lasting(burst.lasted_ms)} until {at(burst.last.time_ms)}, without having failed"
        )
        advice = (
            "The group rebalances without rest: look for a worker that leaves and joins again "
            "(out of memory, slow polls, a liveness probe that is too strict)."
        )
        return self._finding(who, burst, Words(sentence, advice))

    def _finding(self, who: _Instance, burst: Burst, words: Words) -> Finding:
        severity = Severity.WARNING
        return self._about.finding("status-flapping", severity, who[0], burst.evidence, words)
