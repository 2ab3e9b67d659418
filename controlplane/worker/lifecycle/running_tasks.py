"""Tasks of one connector that run in this process."""

import asyncio
from collections.abc import Iterable, Mapping

from controlplane.core.records import State, Target
from controlplane.event_loop import cancel_all
from controlplane.worker.lifecycle.actor_environment import ActorEnvironment
from controlplane.worker.lifecycle.assignment import Assignment
from controlplane.worker.lifecycle.task_instance import TaskInstance, report_task_failure
from controlplane.worker.lifecycle.tasks_max import excess_tasks
from controlplane.worker.log_context import task_logs
from controlplane.worker.metrics.task_metrics import TaskMetrics
from controlplane.worker.task_identity import TaskIdentity


class RunningTasks:
    """Starts and stops the tasks of a connector. A failed task stays until it is stopped."""

    def __init__(self, name: str, around: ActorEnvironment) -> None:
        self._name = name
        self._around = around
        self._tasks: dict[int, TaskInstance] = {}
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
        """Start tasks, unless the connector ends. One that cannot start is reported as FAILED."""
        numbers = [*numbers]
        if not numbers:
            return
        try:
            await self._prepare(assignment)
        except Exception as failure:  # noqa: BLE001 - no task may be left without a status
            for number in numbers:
                self._report_failed(number, failure)
            return
        if self._ending.is_set():
            return  # the end of the connector interrupts `_prepare`
        for number in numbers:
            try:
                self._tasks[number] = await self._around.factory.task(
                    self._name, number, assignment, paused=assignment.target is Target.PAUSED
                )
            except Exception as failure:  # noqa: BLE001 - its class may raise anything
                self._report_failed(number, failure)

    async def _prepare(self, assignment: Assignment) -> None:
        """Make ready for the tasks; an outage of the log must not hold up the connector's end.

        Raises:
            ConnectError: the log has more tasks than `tasks.max` permits; a release without that
                limit may have published them.
            Exception: see `Factory.prepare_tasks`.
        """
        excess = excess_tasks(
            self._name, assignment.config, len(assignment.tasks), self._around.profile
        )
        if excess is not None:
            raise excess
        preparing = asyncio.create_task(
            self._around.factory.prepare_tasks(self._name, assignment.config)
        )
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({preparing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if preparing.done():
                preparing.result()
        finally:
            await cancel_all([preparing, ending])  # type: ignore[list-item]

    def end(self) -> None:
        """Start no more tasks: the connector ends."""
        self._ending.set()

    def _report_failed(self, number: int, failure: BaseException) -> None:
        task = TaskIdentity(self._name, number)
        with task_logs(task):
            trace = report_task_failure(self._around.notices, task, failure)
        self._around.startups.tasks.count(succeeded=False)
        self._around.statuses.task(task, State.FAILED, trace, safe=True)

    def go(self, *, paused: bool) -> None:
        """Pause or resume all tasks; each obeys after its present call."""
        for task in self._tasks.values():
            task.go(paused=paused)

    async def stop(self, numbers: Iterable[int]) -> None:
        """Stop tasks together, within one graceful time-out; abandon those that hang."""
        tasks = [self._tasks.pop(number) for number in numbers if number in self._tasks]
        for task in tasks:
            task.stop()
        if tasks:
            timeout_s = self._around.settings.task_shutdown_graceful_timeout_ms / 1_000
            _, pending = await asyncio.wait([task.ended for task in tasks], timeout=timeout_s)
            for task in tasks:
                if task.ended in pending:
                    self._around.notices.warning(
                        "task_left_behind", connector=self._name, task=task.number
                    )
                    task.abandon()

    async def stop_all(self) -> None:
        """Stop all tasks, as `stop` does."""
        await self.stop([*self._tasks])

    def abandon(self) -> None:
        """Drop all tasks without a report."""
        for task in self._tasks.values():
            task.abandon()
