"""A task from its start to its end, and its reports (Kafka: `WorkerTask`)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from controlplane.core.records import State
from controlplane.event_loop import is_cancelled
from controlplane.failure_text import reason_of, trace_of
from controlplane.notices import Notices
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.log_context import task_logs
from controlplane.worker.metrics.task_metrics import TaskMetrics
from controlplane.worker.task_identity import TaskIdentity


class TaskRun(Protocol):
    """One run of a source or sink task."""

    async def run(self, started: Callable[[], None], paused: Callable[[bool], None]) -> None:
        """Run until the task shall stop.

        `started` is called once the author's `start` has returned. `paused` is called with True and
        False at the beginning and the end of a pause. After a pause that precedes the start,
        `started` is called instead of `paused(False)`.

        Raises:
            Exception: the task failed; everything is closed.
        """
        ...


class TaskInstance:
    """A running task. It reports what happens, until it is abandoned."""

    def __init__(  # noqa: PLR0913, PLR0917 - parts of one task
        self,
        identity: TaskIdentity,
        make: Callable[[], Awaitable[TaskRun]],
        thread: AuthorThread,
        control: TaskControl,
        statuses: StatusWriter,
        notices: Notices,
        metrics: TaskMetrics,
        version: str | None,
    ) -> None:
        self._version = version
        self._identity = identity
        self._name, self.number = identity
        self._thread = thread
        self._control = control
        self._statuses = statuses
        self._notices = notices
        self.metrics = metrics
        self._reported: State | None = None
        self.ended = asyncio.create_task(self._run(make), name=f"task {identity}")

    def go(self, *, paused: bool) -> None:
        """Pause or go on. A failed task does neither."""
        if paused:
            self._control.pause()
        else:
            self._control.resume()

    def stop(self) -> None:
        """Ask the task to stop; the asyncio task `ended` ends afterwards."""
        self._control.stop()

    def abandon(self) -> None:
        """Leave the task behind: it commits and reports nothing more.

        Once its present call returns, the author's `stop` is called, and the thread ends. So
        an `async def stop` is cancelled at its first `await`.
        """
        self._control.abandon()
        self.ended.cancel()
        self.ended.add_done_callback(lambda _: self._thread.abandon())

    async def _run(self, make: Callable[[], Awaitable[TaskRun]]) -> None:
        with task_logs(self._identity):
            try:
                run = await make()
                if self._control.paused:
                    self._report(State.PAUSED)
                await run.run(self._started, self._paused)
            except BaseException as failure:
                if isinstance(failure, asyncio.CancelledError) and is_cancelled():
                    raise
                await self._end(failure)
            else:
                await self._end(None)
        self._thread.abandon()

    def _started(self) -> None:
        self._report(State.RUNNING)

    def _paused(self, paused: bool) -> None:
        state = State.PAUSED if paused else State.RUNNING
        if state is not self._reported:  # a pause before the start may have been reported
            self._report(state)

    def _report(self, state: State) -> None:
        self._reported = state
        self.metrics.reached(state)
        self._statuses.task(self._identity, state, version=self._version)

    async def _end(self, failure: BaseException | None) -> None:
        try:
            await self._report_end(failure)
        except Exception as defect:  # noqa: BLE001 - else the status stays RUNNING
            state = State.UNASSIGNED if self._control.stopping else State.FAILED
            trace = None if self._control.stopping else await text_in_time(trace_of, defect)
            self._statuses.task(self._identity, state, trace, safe=True)

    async def _report_end(self, failure: BaseException | None) -> None:
        stopping = self._control.stopping
        trace = None
        if failure is not None:
            trace = await report_task_failure(
                self._notices, self._identity, failure, stopping=stopping
            )
        if trace is None or stopping:
            self.metrics.reached(State.UNASSIGNED)
            self._statuses.task(self._identity, State.UNASSIGNED, safe=True)
        else:
            self.metrics.reached(State.FAILED)
            self._statuses.task(
                self._identity, State.FAILED, trace, safe=True, version=self._version
            )


async def report_task_failure(
    notices: Notices, task: TaskIdentity, failure: BaseException, *, stopping: bool = False
) -> str:
    """Log a failure as a warning, and return its trace for the status.

    A task that fails while it stops is UNASSIGNED, and not FAILED (Kafka: `WorkerTask`). If the
    last commit failed, its records are read again at the next start.
    """
    trace = await text_in_time(trace_of, failure)
    notices.warning(
        "task_failed_while_stopping" if stopping else "task_failed",
        connector=task.connector,
        task=task.number,
        reason=await text_in_time(reason_of, failure),
        trace=trace,
    )
    return trace
