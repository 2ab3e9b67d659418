"""Timelines of connectors, built while the records of a cluster pass by.

Memory per connector grows with its tasks and source partitions, not with its records. Time is
divided into steps: short states and near events are merged.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from functools import partial

import msgspec

from controlplane.core.codec.offsets import frozen
from controlplane.core.entry import Position
from controlplane.core.records import (
    ConnectorConfig,
    ConnectorStatus,
    RestartRequest,
    SourcePartition,
    State,
    Target,
    TargetState,
    TaskStatus,
)
from controlplane.page.timeline import MIXED, ConnectorTimeline, EventMark, StateSpan, TimeRange
from replay.audit.decoded_log import DecodedRecord
from replay.doubts import MayBeOlder, never_older
from replay.report.offset_lines import OffsetLines, PlaceText
from replay.report.page_limits import LATEST, MARKS, SPANS

_WORST_FIRST = (
    *(State.FAILED, State.UNASSIGNED, State.RESTARTING),
    *(State.RUNNING, State.PAUSED, State.STOPPED, State.DESTROYED),
)
"""States by priority: the first one present stands for all tasks."""

_HAPPENED = {
    "created": "created",
    "seen": "first seen",
    "changed": "config change",
    "deleted": "deleted",
    "restarted": "restart",
    "reset": "offsets reset",
}


class StateLane:
    """Builder of a lane: consecutive states of a connector, each with its time span."""

    def __init__(self, time: TimeRange) -> None:
        self._time = time
        self._step_ms = time.step_ms(SPANS)
        self._spans: list[StateSpan] = []
        self._now: StateSpan | None = None

    def becomes(self, at_ms: int, state: str | None, place: str, words: str = "") -> None:
        """Start a state; None ends the current one."""
        now = self._now
        if now is not None and (now.state, now.words) == (state, words or state):
            return
        self._close(at_ms)
        if state is not None:
            self._now = StateSpan(at_ms, at_ms, state, place, words or state, state == "FAILED")

    def spans(self) -> tuple[StateSpan, ...]:
        """All states; the current one lasts until the last record."""
        self._close(self._time.last_ms)
        return tuple(self._spans)

    def _close(self, at_ms: int) -> None:
        if self._now is None:
            return
        span = msgspec.structs.replace(self._now, end_ms=at_ms)
        self._now = None
        before = self._spans[-1] if self._spans else None
        if before is not None and self._can_be_merged(before, span):
            self._spans[-1] = _merged(before, span)
        else:
            self._spans.append(span)

    def _can_be_merged(self, before: StateSpan, span: StateSpan) -> bool:
        """True for a short span right after another; a merged span may grow without a limit."""
        short = span.end_ms - span.begin_ms < self._step_ms
        # A long state before the short one stays visible as a span of its own.
        room = span.end_ms - before.begin_ms < 2 * self._step_ms or before.state == MIXED
        near = span.begin_ms - before.end_ms < self._step_ms
        return short and room and near


def _merged(before: StateSpan, span: StateSpan) -> StateSpan:
    number, failed = before.number + 1, before.failed or span.failed
    words = f"{number} states in a short time"
    return StateSpan(before.begin_ms, span.end_ms, MIXED, span.place, words, failed, number)


class MarkLane:
    """Builder of a lane of events; those within one step share a mark."""

    def __init__(self, time: TimeRange) -> None:
        self._step_ms = time.step_ms(MARKS)
        self._marks: list[EventMark] = []
        self._kinds: Counter[str] = Counter()
        """Kinds of events in the last mark."""

    def add(self, at_ms: int, kind: str, place: str) -> None:
        """Add an event; events too close to be drawn apart share a mark."""
        last = self._marks[-1] if self._marks else None
        if last is None or at_ms - last.at_ms >= self._step_ms:
            self._kinds = Counter([kind])
            self._marks.append(EventMark(at_ms, kind, place, _HAPPENED[kind]))
            return
        self._kinds[kind] += 1
        words = ", ".join(
            f"{number} × {_HAPPENED[happened]}" for happened, number in self._kinds.items()
        )
        several = kind if len(self._kinds) == 1 else "several"
        self._marks[-1] = EventMark(last.at_ms, several, place, words, last.number + 1)

    def all(self) -> tuple[EventMark, ...]:
        """All marks, in the order of time."""
        return tuple(self._marks)


class ConnectorActivity:
    """Activity of one connector, record by record."""

    def __init__(
        self, time: TimeRange, place: PlaceText, may_be_older: MayBeOlder = never_older
    ) -> None:
        self._place = place
        self._may_be_older = may_be_older
        self._target_states, self._reported, self._tasks = (
            StateLane(time),
            StateLane(time),
            StateLane(time),
        )
        self._marks, self._moves = MarkLane(time), OffsetLines(time.step_ms, place)
        self.numbers: Counter[str] = Counter()
        self._last: dict[str, Position] = {}
        """Last record of each kind."""
        self.reported: State | None = None
        self.tasks: dict[int, State] = {}
        self._latest: defaultdict[str, deque[Position]] = defaultdict(partial(deque, maxlen=LATEST))
        """Last records of each counted kind."""
        self._task_records: dict[int, Position] = {}
        """Last record of each task."""
        self._task_numbers: Counter[State] = Counter()
        """Number of tasks in each state; 0: no task is in it any more."""

    def see(self, decoded: DecodedRecord) -> None:
        """Process a record about the connector."""
        match decoded.record:
            case SourcePartition():  # first: nearly all records are offsets
                self._move(decoded)
            case ConnectorConfig(name, properties):
                before = decoded.before.connectors.get(name)
                if frozen(before) != frozen(properties):
                    self._happened(decoded, self._change(decoded, before, properties))
                self._want(decoded)
            case TargetState():
                self._want(decoded)
            case RestartRequest():
                self._happened(decoded, "restarted")
            case ConnectorStatus(_, status):
                self._report(decoded, None if status is None else status.state)
            case TaskStatus(_, task, status):
                self._report_task(decoded, task, None if status is None else status.state)

    def timeline(self) -> ConnectorTimeline:
        """The timeline of all records so far."""
        lines, undrawn = self._moves.lines()
        lanes = (self._target_states.spans(), self._reported.spans(), self._tasks.spans())
        return ConnectorTimeline(*lanes, self._marks.all(), lines, undrawn)

    @property
    def places(self) -> dict[str, str]:
        """Last record of each kind."""
        return {kind: self._place(position) for kind, position in self._last.items()}

    def latest(self) -> dict[str, tuple[str, ...]]:
        """Last records of each kind, and the last record of each of the first `LATEST` tasks."""
        tasks = [self._task_records[task] for task in sorted(self.tasks)[:LATEST]]
        kinds = {**self._latest, "tasks": tasks}
        return {kind: tuple(map(self._place, few)) for kind, few in kinds.items()}

    def _change(self, decoded: DecodedRecord, before: object, after: object) -> str:
        """Kind of a change of the config; None is the config of an absent connector."""
        if before is None:
            return "seen" if self._may_be_older(decoded.position) else "created"
        return "deleted" if after is None else "changed"

    def _happened(self, decoded: DecodedRecord, kind: str) -> None:
        self._count(decoded, kind)
        self._marks.add(decoded.time_ms, kind, self._place(decoded.position))

    def _count(self, decoded: DecodedRecord, kind: str) -> None:
        self.numbers[kind] += 1
        self._last[kind] = position = decoded.position
        self._latest[kind].append(position)

    def _want(self, decoded: DecodedRecord) -> None:
        config, name = decoded.config, decoded.connector
        exists = name in config.connectors
        target = config.targets.get(name, Target.STARTED).value if exists else None
        self._last["wanted"] = position = decoded.position
        self._target_states.becomes(decoded.time_ms, target, self._place(position))

    def _report(self, decoded: DecodedRecord, state: State | None) -> None:
        if state is State.FAILED and self.reported is not state:
            self._count(decoded, "failed")
        self.reported = state
        self._last["reported"] = position = decoded.position
        reported = None if state is None else state.value
        self._reported.becomes(decoded.time_ms, reported, self._place(position))

    def _report_task(self, decoded: DecodedRecord, task: int, state: State | None) -> None:
        if state is State.FAILED and self.tasks.get(task) is not state:
            self._count(decoded, "failed")
        self._set_task(task, state)
        self._last["tasks"] = self._task_records[task] = position = decoded.position
        numbers, place = _worst_first(self._task_numbers), self._place(position)
        self._tasks.becomes(decoded.time_ms, next(iter(numbers), None), place, in_words(numbers))

    def _set_task(self, task: int, state: State | None) -> None:
        """Store the state of a task, and count it; None: the task has none."""
        before = self.tasks.get(task)
        if before is not None:
            self._task_numbers[before] -= 1
        if state is None:
            self.tasks.pop(task, None)
        else:
            self.tasks[task] = state
            self._task_numbers[state] += 1

    def _move(self, decoded: DecodedRecord) -> None:
        if decoded.entry.value is None:
            self._happened(decoded, "reset")
            self._moves.reset(decoded)
        else:
            self._count(decoded, "moved")
            self._moves.see(decoded)


def by_state(tasks: Mapping[int, State]) -> dict[str, int]:
    """Number of tasks in each state, the worst first."""
    return _worst_first(Counter(tasks.values()))


def _worst_first(numbers: Counter[State]) -> dict[str, int]:
    """Numbers by the name of their state, without those of zero."""
    return {state.value: numbers[state] for state in _WORST_FIRST if numbers[state]}


def in_words(numbers: Mapping[str, int]) -> str:
    """Format counts of states: `1 FAILED, 2 RUNNING`."""
    return ", ".join(f"{number} {state}" for state, number in numbers.items())
