"""A connector (not its tasks) from its start to its end (Kafka: `WorkerConnector`)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from controlplane.core.records import State, Target
from controlplane.failure_text import description_of, trace_of
from controlplane.notices import Notices
from controlplane.worker.drivers.connector_drivers import ConnectorDriver
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.metrics.startups import Startup


class StoppedPause(NamedTuple):
    """Transition from STOPPED to PAUSED.

    KIP-875 says that the worker then starts the connector for a moment, to get its task configs. No
    release of Kafka does this, but the profile `kip` does.
    """

    publish: Callable[[], Awaitable[None]]
    """Publishes task configs once, without retries; called while the connector runs."""
    starts: bool
    """True if the connector is started for a moment: only in the profile `kip`."""


class ConnectorInstance:
    """Follows the target state, one transition after another.

    A failed connector can be stopped, but neither paused nor resumed.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - parts of one connector
        self,
        name: str,
        driver: ConnectorDriver,
        statuses: StatusWriter,
        notices: Notices,
        pausing: StoppedPause,
        startup: Startup,
        version: str | None,
    ) -> None:
        self._name = name
        self._version = version
        self.startup = startup
        """Start of this instance, as the metrics count it."""
        self.driver = driver
        self._statuses = statuses
        self._notices = notices
        self._publish, self._paused_after_start = pausing
        self._current: Target | None = None
        self._target: Target | None = None
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._ending = False
        self._abandoned = False
        self._settled = asyncio.Event()
        self._reports: set[asyncio.Task[None]] = set()
        """Asyncio tasks that report the failures given to `fail`."""
        self._task = asyncio.create_task(self._run(), name=f"connector {name}")
        self._task.add_done_callback(lambda _: self._settled.set())

    @property
    def runs(self) -> bool:
        """True while the connector is started."""
        return self._current is Target.STARTED and self._failure is None

    @property
    def failure(self) -> BaseException | None:
        """The failure of the connector; None without one."""
        return self._failure

    def go(self, target: Target) -> None:
        """Begin the transition to a target state."""
        self._target = target
        self._settled.clear()
        self._changed.set()

    async def settled(self) -> None:
        """Return when the latest transition has ended, with or without a failure.

        Return also if the connector ends before the transition.
        """
        await self._settled.wait()

    def fail(self, failure: BaseException) -> None:
        """Mark the connector as failed, and report it.

        The connector has called `context.fail`, its `watch` has failed, or it has too many tasks.
        """
        if not self._ending and not self._abandoned:
            self._note_failure(failure)
            report = asyncio.create_task(self._report_own(failure))
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    async def shut_down(self, timeout_ms: int) -> None:
        """Stop the connector and report UNASSIGNED; abandon it after the time limit.

        If the caller is cancelled, abandon the connector without a report.
        """
        self._ending = True
        self._changed.set()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await asyncio.shield(self._task)
        except TimeoutError:
            self.abandon(report=True)
        except asyncio.CancelledError:
            self.abandon(report=False)
            raise

    def abandon(self, *, report: bool) -> None:
        """Leave the connector behind; it reports nothing more.

        `report`: first report it as UNASSIGNED.
        """
        if report and not self._abandoned:
            self._statuses.connector(self._name, State.UNASSIGNED, safe=True)
        self._abandoned = True
        self._task.cancel()
        self.driver.abandon()

    async def _run(self) -> None:
        try:
            await self.driver.make()
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            await self._failed(failure)
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._ending:
                await self._end()
                return
            if self._target is not None and self._target is not self._current:
                await self._transition(self._target)
            # A call of `go` during the transition sets `_changed`. Then the loop begins the next
            # transition, and `settled` waits for the end of that one, too.
            if self._ending or not self._changed.is_set():
                self._settled.set()

    async def _transition(self, target: Target) -> None:
        try:
            if target is Target.STOPPED:
                await self._stop()
            elif self._failure is not None:
                return
            elif target is Target.STARTED:
                await self._start()
            else:
                await self._pause()
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            await self._failed(failure)

    async def _start(self) -> None:
        await self.driver.start()
        self.startup.succeeded()
        self._reached(Target.STARTED, State.RUNNING)

    async def _pause(self) -> None:
        if self._current is Target.STARTED:
            await self.driver.stop()
        elif self._current is Target.STOPPED and self._paused_after_start:
            await self.driver.start()
            await self._publish()
            await self.driver.stop()
        self._reached(Target.PAUSED, State.PAUSED)

    async def _stop(self) -> None:
        """Stop; the connector counts as STOPPED whatever its `stop` raises (KIP-875)."""
        try:
            if self.runs:
                await self.driver.stop()
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            self._notices.warning(
                "connector_stop_failed",
                connector=self._name,
                reason=await text_in_time(description_of, failure),
            )
        self._failure = None
        self._reached(Target.STOPPED, State.STOPPED)

    async def _end(self) -> None:
        try:
            if self.runs:
                await self.driver.stop()
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            await self._failed(failure)
        else:
            self._statuses.connector(self._name, State.UNASSIGNED, safe=True)
        self.driver.abandon()

    def _reached(self, target: Target, state: State) -> None:
        """End a transition; report it, unless the connector has meanwhile reported a failure.

        Kafka forgets such a failure, and reports the new state.
        """
        self._current = target
        if self._failure is None:
            self._statuses.connector(self._name, state, version=self._version)

    async def _failed(self, failure: BaseException) -> None:
        self._note_failure(failure)
        self._report_failed(await text_in_time(trace_of, failure))

    async def _report_own(self, failure: BaseException) -> None:
        """Report a failure given to `fail`, unless the connector has stopped or failed again."""
        trace = await text_in_time(trace_of, failure)
        if self._failure is failure and not self._ending and not self._abandoned:
            self._report_failed(trace)

    def _note_failure(self, failure: BaseException) -> None:
        self._failure = failure
        self.driver.end_watch()
        self.startup.failed()

    def _report_failed(self, trace: str) -> None:
        self._statuses.connector(self._name, State.FAILED, trace, safe=True, version=self._version)
