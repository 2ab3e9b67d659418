"""Drawing connectors from the records of a cluster, as they go by.

What is kept of a connector does not grow with its records: time is divided into steps, and of what
happens within one step one thing is kept.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping

import msgspec

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
from replay.audit.reading import Told
from replay.report.facts import MIXED, Mark, Span, Time, Timeline
from replay.report.limits import LATEST, MARKS, SPANS
from replay.report.moving import Moves

Place = Callable[[Position], str]
"""A position as people write it."""

_WORST_FIRST = (
    *(State.FAILED, State.UNASSIGNED, State.RESTARTING),
    *(State.RUNNING, State.PAUSED, State.STOPPED, State.DESTROYED),
)
"""Which state stands for several tasks."""

_HAPPENED = {
    "created": "created",
    "changed": "config change",
    "deleted": "deleted",
    "restarted": "restart",
    "reset": "offsets reset",
}


class Lane:
    """What was so, one after the other."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._step_ms = time.step_ms(SPANS)
        self._spans: list[Span] = []
        self._now: Span | None = None

    def becomes(self, at_ms: int, state: str | None, place: str, words: str = "") -> None:
        """From here on it is so; None: nothing is."""
        now = self._now
        if now is not None and (now.state, now.words) == (state, words or state):
            return
        self._close(at_ms)
        if state is not None:
            self._now = Span(at_ms, at_ms, state, place, words or state, state == "FAILED")

    def spans(self) -> tuple[Span, ...]:
        """All of them; what is so still lasts until the last record."""
        self._close(self._time.last_ms)
        return tuple(self._spans)

    def _close(self, at_ms: int) -> None:
        if self._now is None:
            return
        span = msgspec.structs.replace(self._now, end_ms=at_ms)
        self._now = None
        before = self._spans[-1] if self._spans else None
        if before is not None and self._close_together(before, span):
            self._spans[-1] = _merged(before, span)
        else:
            self._spans.append(span)

    def _close_together(self, before: Span, span: Span) -> bool:
        short = span.end_ms - span.begin_ms < self._step_ms
        room = span.end_ms - before.begin_ms < 2 * self._step_ms or before.state == MIXED
        near = span.begin_ms - before.end_ms < self._step_ms
        return short and room and near


def _merged(before: Span, span: Span) -> Span:
    number, failed = before.number + 1, before.failed or span.failed
    words = f"{number} states in a short time"
    return Span(before.begin_ms, span.end_ms, MIXED, span.place, words, failed, number)


class Marks:
    """What happened."""

    def __init__(self, time: Time) -> None:
        self._step_ms = time.step_ms(MARKS)
        self._marks: list[Mark] = []
        self._kinds: Counter[str] = Counter()
        """Those of the last mark."""

    def add(self, at_ms: int, kind: str, place: str) -> None:
        """One more."""
        last = self._marks[-1] if self._marks else None
        if last is None or at_ms - last.at_ms >= self._step_ms:
            self._kinds = Counter([kind])
            self._marks.append(Mark(at_ms, kind, place, _HAPPENED[kind]))
            return
        self._kinds[kind] += 1
        words = ", ".join(f"{number} × {_HAPPENED[one]}" for one, number in self._kinds.items())
        several = kind if len(self._kinds) == 1 else "several"
        self._marks[-1] = Mark(last.at_ms, several, place, words, last.number + 1)

    def all(self) -> tuple[Mark, ...]:
        """All of them."""
        return tuple(self._marks)


class Followed:
    """One connector, as its records go by."""

    def __init__(self, time: Time, place: Place) -> None:
        self._place = place
        self._wanted, self._reported, self._tasks = Lane(time), Lane(time), Lane(time)
        self._marks, self._moves = Marks(time), Moves(time.step_ms)
        self.numbers: Counter[str] = Counter()
        self.places: dict[str, str] = {}
        self.reported: State | None = None
        self.tasks: dict[int, State] = {}
        self._latest: dict[str, deque[str]] = {}
        self._task_places: dict[int, str] = {}

    def see(self, told: Told) -> None:
        """One record about it."""
        match told.record:
            case ConnectorConfig(name, properties):
                there = name in told.before.connectors
                if properties is not None:
                    self._happened(told, "changed" if there else "created")
                elif there:
                    self._happened(told, "deleted")
                self._want(told)
            case TargetState():
                self._want(told)
            case RestartRequest():
                self._happened(told, "restarted")
            case ConnectorStatus(_, status):
                self._report(told, None if status is None else status.state)
            case TaskStatus(_, task, status):
                self._report_task(told, task, None if status is None else status.state)
            case SourcePartition():
                self._move(told)

    def timeline(self) -> Timeline:
        """All of it."""
        lines, undrawn = self._moves.lines()
        lanes = (self._wanted.spans(), self._reported.spans(), self._tasks.spans())
        return Timeline(*lanes, self._marks.all(), lines, undrawn)

    def latest(self) -> dict[str, tuple[str, ...]]:
        """The last few records of each kind, and the last of each of the first few tasks."""
        tasks = (self._task_places[task] for task in sorted(self.tasks)[:LATEST])
        return {**{kind: tuple(few) for kind, few in self._latest.items()}, "tasks": tuple(tasks)}

    def _happened(self, told: Told, kind: str) -> None:
        place = self._count(told, kind)
        self._marks.add(told.time_ms, kind, place)

    def _count(self, told: Told, kind: str) -> str:
        place = self._place(told.position)
        self.numbers[kind] += 1
        self.places[kind] = place
        self._latest.setdefault(kind, deque(maxlen=LATEST)).append(place)
        return place

    def _want(self, told: Told) -> None:
        config, name = told.config, told.connector
        there = name in config.connectors
        wanted = config.targets.get(name, Target.STARTED).value if there else None
        place = self.places["wanted"] = self._place(told.position)
        self._wanted.becomes(told.time_ms, wanted, place)

    def _report(self, told: Told, state: State | None) -> None:
        if state is State.FAILED and self.reported is not state:
            self._count(told, "failed")
        self.reported = state
        place = self.places["reported"] = self._place(told.position)
        self._reported.becomes(told.time_ms, None if state is None else state.value, place)

    def _report_task(self, told: Told, task: int, state: State | None) -> None:
        if state is State.FAILED and self.tasks.get(task) is not state:
            self._count(told, "failed")
        if state is None:
            self.tasks.pop(task, None)
        else:
            self.tasks[task] = state
        place = self.places["tasks"] = self._task_places[task] = self._place(told.position)
        numbers = Counter(self.tasks.values())
        worst = next((one.value for one in _WORST_FIRST if one in numbers), None)
        self._tasks.becomes(told.time_ms, worst, place, in_words(by_state(self.tasks)))

    def _move(self, told: Told) -> None:
        if told.entry.value is None:
            self._happened(told, "reset")
            self._moves.reset(told, self._place(told.position))
        else:
            self._moves.see(told, self._count(told, "moved"))


def by_state(tasks: Mapping[int, State]) -> dict[str, int]:
    """How many tasks are in which state, the worst first."""
    numbers = Counter(tasks.values())
    return {one.value: numbers[one] for one in _WORST_FIRST if one in numbers}


def in_words(numbers: Mapping[str, int]) -> str:
    """`1 FAILED, 2 RUNNING`."""
    return ", ".join(f"{number} {state}" for state, number in numbers.items())
