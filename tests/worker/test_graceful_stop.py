"""`task.shutdown.graceful.timeout.ms`, on a simulated clock."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from controlplane.core.records import State, Target
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.worker.lifecycle.assignment import Assignment
from controlplane.worker.lifecycle.running_tasks import RunningTasks
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.lifecycle.task_instance import TaskInstance
from controlplane.worker.metrics.startups import WorkerStartups
from controlplane.worker.metrics.task_metrics import SourceTaskMetrics
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.task_identity import TaskIdentity
from tests.laws.delivery.simulated_clock import simulated
from tests.laws.delivery.source_world import InlineThread
from tests.worker.worker_fixture import RecordedNotices

HANGS = None
"""Duration of an end that never comes."""


class EndingRun:
    """Task run whose end takes a known time."""

    def __init__(self, control: TaskControl, end_s: float | None) -> None:
        self._control = control
        self._end_s = end_s
        self.cancelled_at: float | None = None

    async def run(self, started: Callable[[], None], paused: Callable[[bool], None]) -> None:
        """Run until the stop, then end after the known time."""
        del paused
        started()
        await self._control.until_stopped()
        try:
            await (asyncio.Event().wait() if self._end_s is HANGS else asyncio.sleep(self._end_s))
        except asyncio.CancelledError:
            self.cancelled_at = asyncio.get_running_loop().time()
            raise


class EndingTasks:
    """Factory of tasks whose ends take known times (`Factory`)."""

    def __init__(self, ends_s: Sequence[float | None], notices: RecordedNotices) -> None:
        self._ends_s = ends_s
        self._notices = notices
        self.runs: dict[int, EndingRun] = {}
        self.reported: dict[int, list[str]] = {number: [] for number in range(len(ends_s))}
        """Reported states of each task."""

    async def resolved(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings: they have no references."""
        return settings

    async def prepare_tasks(self, name: str, config: Mapping[str, Any]) -> None:
        """Prepare nothing."""

    async def task(
        self, name: str, number: int, assignment: Assignment, *, paused: bool
    ) -> TaskInstance:
        """Begin a task."""
        del assignment
        control = TaskControl(paused=paused)
        self.runs[number] = EndingRun(control, self._ends_s[number])

        async def made() -> EndingRun:
            return self.runs[number]

        statuses = cast(Any, SimpleNamespace(task=self._report))
        thread = cast(Any, InlineThread())
        metrics = SourceTaskMetrics(WorkerStartups().tasks)
        identity = TaskIdentity(name, number)
        return TaskInstance(identity, made, thread, control, statuses, self._notices, metrics, None)

    def _report(self, task: TaskIdentity, state: State, *_: Any, **__: Any) -> None:
        self.reported[task.number].append(state.value)


class ObservedStop(NamedTuple):
    """Stop of all tasks of a connector, and what followed."""

    took_s: float
    cancelled_s: dict[int, float]
    """Duration from the stop to the cancellation, by task."""
    reported: dict[int, list[str]]
    notices: list[tuple[str, dict[str, Any]]]


async def stopped(ends_s: Sequence[float | None], timeout_ms: int) -> ObservedStop:
    """Start tasks, and stop them a minute later."""
    notices = RecordedNotices()
    factory = EndingTasks(ends_s, notices)
    around = SimpleNamespace(
        factory=factory,
        settings=RuntimeSettings(task_shutdown_graceful_timeout_ms=timeout_ms),
        notices=notices,
        profile=Profile.of(KIP),
    )
    configs: tuple[dict[str, Any], ...] = ({},) * len(ends_s)
    config = {"tasks.max": str(len(ends_s))}
    tasks = RunningTasks("c", cast(Any, around), asyncio.Event())
    await tasks.start(range(len(ends_s)), Assignment(config, None, Target.STARTED, configs, None))
    await asyncio.sleep(60)
    clock = asyncio.get_running_loop()
    began = clock.time()
    await tasks.stop_all()
    took_s = clock.time() - began
    await asyncio.sleep(60)
    cancelled_s = {
        number: run.cancelled_at - began
        for number, run in factory.runs.items()
        if run.cancelled_at is not None
    }
    return ObservedStop(took_s, cancelled_s, factory.reported, notices.lines)


@pytest.mark.parametrize(
    ("timeout_ms", "ends_s", "took_s", "left_behind"),
    [
        (5_000, [HANGS], 5, [0]),
        (20_000, [HANGS], 20, [0]),
        (0, [HANGS], 0, [0]),
        (20_000, [12], 12, []),
        (5_000, [3, HANGS, 6, 4], 5, [1, 2]),
        (20_000, [3, HANGS, 6, 4], 20, [1]),
    ],
)
def test_a_stop_waits_for_its_tasks_as_long_as_the_setting_says(
    timeout_ms: int, ends_s: list[float | None], took_s: float, left_behind: list[int]
) -> None:
    """All tasks share the time-out. A task that exceeds it is cancelled, and a notice names it.

    Such a task reports nothing more; the others report UNASSIGNED.
    """
    stop = simulated(stopped(ends_s, timeout_ms))
    assert stop.took_s == took_s
    assert stop.cancelled_s == dict.fromkeys(left_behind, took_s)
    assert stop.notices == [
        ("task_left_behind", {"connector": "c", "task": number}) for number in left_behind
    ]
    assert stop.reported == {
        number: ["RUNNING"] if number in left_behind else ["RUNNING", "UNASSIGNED"]
        for number in range(len(ends_s))
    }
