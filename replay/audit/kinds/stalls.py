"""Stalled sources: running, but without progress, unlike before.

A *life* of a source begins when a config or target state is written, or when a task fails. A new
life also begins where records are missing. An *idle period* begins with the last new offset. If all
tasks then leave RUNNING, the period begins when a task is RUNNING again.

A source without new data makes no progress either. So an idle period counts only if it is long. The
period must also be many times longer than each earlier one of the same life.
"""

from collections.abc import Iterator

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.records import (
    ConnectorConfig,
    SourcePartition,
    State,
    Target,
    TargetState,
    TaskStatus,
)
from replay.audit.context import AuditContext, at, lasting
from replay.audit.decoded_log import DecodedRecord
from replay.findings import Finding, FindingText, Severity


class _OffsetPace(msgspec.Struct):
    """Progress of a source so far."""

    last: Entry
    since_ms: int
    """Begin of the present idle period: the last offset, or a task that was started after it."""
    moves: int = 1
    longest_ms: int = 0


class SourceStalls:
    """Audit with a finding per disproportionate idle period of a running source."""

    concerns = (ConnectorConfig, TargetState, TaskStatus, SourcePartition)

    def __init__(self, about: AuditContext) -> None:
        self._about = about
        self._paces: dict[str, _OffsetPace] = {}
        self._running: dict[str, set[int]] = {}

    def see(self, decoded: DecodedRecord) -> Iterator[Finding]:
        """Track progress; an unchanged offset is no progress."""
        match decoded.record:
            case SourcePartition(name, _):  # first: nearly all records are offsets
                if decoded.entry.timestamp >= 0 and _moved(decoded):
                    yield from self._move(name, decoded)
            case ConnectorConfig(name, properties):
                self._paces.pop(name, None)
                if properties is None:
                    self._running.pop(name, None)
            case TargetState(name, _):
                self._paces.pop(name, None)
            case TaskStatus(name, task, status):
                self._status(name, task, None if status is None else status.state, decoded.time_ms)

    def end(self) -> Iterator[Finding]:
        """Report sources that are stalled at the end of the log."""
        for name, pace in self._paces.items():
            if self._running.get(name) and self._out_of_proportion(pace, self._about.clock.now_ms):
                still = lasting(self._about.clock.now_ms - pace.since_ms)
                sentence = (
                    f"{name} is RUNNING but has made no progress for {still}, since "
                    f"{at(pace.since_ms)}. {self._usual(pace)}"
                )
                advice = (
                    "Check whether its source has new data. If so, search the worker's log for a "
                    "hanging task, and restart the connector with its tasks."
                )
                words = FindingText(sentence, advice)
                yield self._finding(Severity.WARNING, name, [pace.last], words)

    def _status(self, name: str, task: int, state: State | None, time_ms: int) -> None:
        running, pace = self._running.setdefault(name, set()), self._paces.get(name)
        if state is State.RUNNING:
            if not running and pace is not None:
                pace.since_ms = max(pace.since_ms, time_ms)
            running.add(task)
        else:
            running.discard(task)
        if state is State.FAILED:
            self._paces.pop(name, None)  # the failure itself explains the stall

    def _move(self, name: str, decoded: DecodedRecord) -> Iterator[Finding]:
        if not _is_started(decoded):
            return
        pace = self._paces.get(name)
        if pace is None or self._about.may_be_older(decoded.position):
            self._paces[name] = _OffsetPace(decoded.entry, decoded.time_ms)
            return
        paused_ms = decoded.time_ms - pace.since_ms
        if self._running.get(name) and self._out_of_proportion(pace, decoded.time_ms):
            sentence = (
                f"{name} made no progress for {lasting(paused_ms)} until {at(decoded.time_ms)}, "
                f"although it was RUNNING. {self._usual(pace)}"
            )
            yield self._finding(
                Severity.INFO, name, [pace.last, decoded.entry], FindingText(sentence)
            )
        pace.last, pace.since_ms = decoded.entry, decoded.time_ms
        pace.moves += 1
        pace.longest_ms = max(pace.longest_ms, paused_ms)

    def _out_of_proportion(self, pace: _OffsetPace, now_ms: int) -> bool:
        limits, paused_ms = self._about.thresholds, now_ms - pace.since_ms
        usual = pace.moves >= limits.stall_records
        long = paused_ms >= max(limits.stall_ms, limits.stall_gaps * pace.longest_ms)
        return usual and long

    def _usual(self, pace: _OffsetPace) -> str:
        usual = f"moved {pace.moves} times, at least every {_span(pace)} while it ran"
        return f"Before that its offsets {usual}"

    def _finding(
        self, severity: Severity, name: str, entries: list[Entry], words: FindingText
    ) -> Finding:
        evidence = [entry.position for entry in entries]
        return self._about.finding("source-stalled", severity, name, evidence, words)


def _span(pace: _OffsetPace) -> str:
    return lasting(max(1, pace.longest_ms))


def _moved(decoded: DecodedRecord) -> bool:
    previous = decoded.previous
    return decoded.entry.value is not None and (
        previous is None or previous.entry.value != decoded.entry.value
    )


def _is_started(decoded: DecodedRecord) -> bool:
    """True if the target state of the connector is STARTED."""
    config = decoded.config
    target = config.targets.get(decoded.connector, Target.STARTED)
    return decoded.connector in config.connectors and target is Target.STARTED
