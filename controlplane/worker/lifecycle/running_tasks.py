"""Tasks of one connector that run in this process."""

import asyncio
from collections.abc import Iterable, Mapping

from controlplane.core.records import State, Target
from controlplane.event_loop import cancel_all
from controlplane.worker.lifecycle.actor_environment import ActorEnvironment
from controlplane.worker.lifecycle.assignment import Assignment
from controlplane.worker.lifecycle.task_instance import TaskInstance, report_task_failure
from controlplane.worker.lifecycle.tasks_max import excess_tasks, limit_settings
from controlplane.worker.log_context import task_logs
from controlplane.worker.metrics.task_metrics import TaskMetrics
from controlplane.worker.task_identity import TaskIdentity


class RunningTasks:
    """Starts and stops the tasks of a connector. A failed task stays until it is stopped."""

    def __init__(self, name: str, around: ActorEnvironment, interrupted: asyncio.Event) -> None:
        """While `interrupted` is set, `start` starts no task; a later `start` makes up for it."""
        self._name = name
        self._around = around
        self._tasks: dict[int, TaskInstance] = {}
        self._interrupted = interrupted
        self._unstarted: set[int] = set()
        """Tasks that shall run, but whose start was interrupted."""
        self._ending = asyncio.Event()

    @property
    def running(self) -> list[int]:
        """Numbers of the tasks that have not ended."""
        return [number for number, task in self._tasks.items() if not task.ended.done()]

    @property
    def metrics(self) -> Mapping[int, TaskMetrics]:
        """Metrics of the tasks, by number."""
        return {number: task.metrics for number, task in self._tasks.items()}

    async def start(self, numbers: Iterable[int], assignment: Assignment) -> None:
        """Start tasks, and those whose start was interrupted; none if the connector ends.

        A task that cannot start is reported as FAILED.
        """
        self._unstarted |= {*numbers}
        if not self._unstarted:
            return
        try:
            if not await self._prepared(assignment):
                return
        except Exception as failure:  # noqa: BLE001 - no task may be left without a status
            for number in self._taken_unstarted():
                await self._report_failed(number, failure)
            return
        for number in self._taken_unstarted():
            try:
                self._tasks[number] = await self._around.factory.task(
                    self._name, number, assignment, paused=assignment.target is Target.PAUSED
                )
            except Exception as failure:  # noqa: BLE001 - its class may raise anything
                await self._report_failed(number, failure)

    def _taken_unstarted(self) -> list[int]:
        """Return the tasks that shall start, and forget them."""
        numbers = sorted(self._unstarted)
        self._unstarted.clear()
        return numbers

    async def _prepared(self, assignment: Assignment) -> bool:
        """Make ready for the tasks; return False if that is interrupted.

        An outage of the log must not hold up the connector's end. With exactly-once support, the
        preparation runs a command. An earlier restart command, which waits for the actor, delays
        this command. So a restart must interrupt the preparation.

        Raises:
            Exception: see `_prepare`.
        """
        preparing = asyncio.create_task(self._prepare(assignment))
        interruptions = [
            asyncio.ensure_future(event.wait()) for event in (self._ending, self._interrupted)
        ]
        try:
            await asyncio.wait({preparing, *interruptions}, return_when=asyncio.FIRST_COMPLETED)
            if preparing.done():
                preparing.result()
            return not any(event.is_set() for event in (self._ending, self._interrupted))
        finally:
            await cancel_all([preparing, *interruptions])

    async def _prepare(self, assignment: Assignment) -> None:
        """Check the number of tasks, and make ready for them.

        Raises:
            ConnectError: the log has more tasks than `tasks.max` permits; a release without that
                limit may have published them.
            Exception: see `Factory.prepare_tasks`.
        """
        factory, config, tasks = self._around.factory, assignment.config, len(assignment.tasks)
        limits = await factory.resolved(limit_settings(config))
        excess = excess_tasks(self._name, limits, tasks, self._around.profile)
        if excess is not None:
            raise excess
        await factory.prepare_tasks(self._name, config)

    def end(self) -> None:
        """Start no more tasks: the connector ends."""
        self._ending.set()

    async def _report_failed(self, number: int, failure: BaseException) -> None:
        task = TaskIdentity(self._name, number)
        with task_logs(task):
            trace = await report_task_failure(self._around.notices, task, failure)
        self._around.startups.tasks.count(succeeded=False)
        self._around.statuses.task(task, State.FAILED, trace, safe=True)

    def go(self, *, paused: bool) -> None:
        """Pause or resume all tasks; each obeys after its present call."""
        for task in self._tasks.values():
            task.go(paused=paused)

    async def stop(self, numbers: Iterable[int]) -> None:
        """Stop tasks together, within one graceful time-out; abandon those that hang.

        If the caller is cancelled, abandon all of them.
        """
        numbers = [*numbers]
        self._unstarted -= {*numbers}
        tasks = [self._tasks.pop(number) for number in numbers if number in self._tasks]
        for task in tasks:
            task.stop()
        if tasks:
            timeout_s = self._around.settings.task_shutdown_graceful_timeout_ms / 1_000
            try:
                _, pending = await asyncio.wait([task.ended for task in tasks], timeout=timeout_s)
            except asyncio.CancelledError:
                for task in tasks:
                    task.abandon()
                raise
            for task in tasks:
                if task.ended in pending:
                    self._around.notices.warning(
                        "task_left_behind", connector=self._name, task=task.number
                    )
                    task.abandon()

    async def stop_all(self) -> None:
        """Stop all tasks, as `stop` does."""
        await self.stop([*self._tasks, *self._unstarted])

    def abandon(self) -> None:
        """Drop all tasks without a report."""
        for task in self._tasks.values():
            task.abandon()
