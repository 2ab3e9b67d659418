"""Runs one connector with its tasks: makes what runs equal to what the log says.

Everything about one connector happens in one loop, in order. The author's code runs elsewhere, so
that a connector that hangs can still be stopped.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.core.commands import PublishTasks
from controlplane.core.plan import Rejected
from controlplane.core.records import RestartRequest, State, Target
from controlplane.event_loop import backoff, first_of, is_cancelled
from controlplane.failure_text import description_of, trace_of
from controlplane.worker.drivers.connector_drivers import ConnectorRequests
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.actor_environment import ActorEnvironment
from controlplane.worker.lifecycle.assignment import Assignment, assignment_of
from controlplane.worker.lifecycle.connector_instance import ConnectorInstance, StoppedPause
from controlplane.worker.lifecycle.running_tasks import RunningTasks
from controlplane.worker.lifecycle.tasks_max import excess_tasks, resolved_limits, tasks_max
from controlplane.worker.log_context import connector_logs
from controlplane.worker.metrics.startups import Startup
from controlplane.worker.metrics.task_metrics import TaskMetrics
from controlplane.worker.task_identity import TaskIdentity

RestartedInstances = Sequence[int | None]
"""Tasks by number; None is the connector itself."""


class _Restart(NamedTuple):
    """A restart of some instances, and the future of its caller."""

    instances: RestartedInstances
    done: "asyncio.Future[None]"


class StartTimedOut(Exception):
    """A connector has not been started within a time limit; it may start later."""


class ConnectorActor:
    """Runs one connector and its tasks in this process, one change after another."""

    def __init__(self, name: str, around: ActorEnvironment) -> None:
        self._name = name
        self._around = around
        self._assigned: Assignment | None = None
        self._applied: Assignment | None = None
        self._requests: deque[_Restart | RestartRequest] = deque()
        self._is_reload_due = False
        """True: values of the present config have expired."""
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._connector: ConnectorInstance | None = None
        self._restart_awaited = asyncio.Event()
        """Set while a caller waits for a restart. The command of that caller delays all other
        commands about the connector."""
        self._tasks = RunningTasks(name, around, self._restart_awaited)
        self._start_failure: Exception | None = None
        """Failure of the latest start, if the connector's class could not be used; else None."""
        self._publishing: asyncio.Task[None] | None = None
        self._is_republication_due = False
        """True: the connector has asked for new task configs during a publication."""
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.create_task(self._run(), name=f"actor {name}")

    # --- requests -------------------------------------------------------------------------------

    def assign(self, assignment: Assignment | None) -> None:
        """Set the assignment; None: the connector was deleted, which is final."""
        if assignment is None:
            self._tasks.end()
        if assignment != self._assigned or assignment is None:
            self._assigned = assignment
            self._changed.set()

    def request(self, request: RestartRequest) -> None:
        """Queue a restart (KIP-745). The statuses at its execution decide what is restarted.

        As in Kafka, only the request with the highest impact stays pending.
        """
        for place, pending in enumerate(self._requests):
            if isinstance(pending, RestartRequest):
                if request.impact > pending.impact:
                    self._requests[place] = request
                return
        self._requests.append(request)
        self._changed.set()

    async def restart(self, instances: RestartedInstances) -> None:
        """Restart the connector (None) or tasks; return when the tasks have stopped.

        The connector has then been started, unless that takes longer than
        `connector_stop_timeout_ms`. Tasks start afterwards.

        Raises:
            Exception: the connector cannot be started.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._requests.append(_Restart(instances, done))
        if instances:
            self._restart_awaited.set()
        self._changed.set()
        try:
            await asyncio.wait({done, self.ended}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise ConnectError(f"Connector {self._name} was stopped")
            done.result()
        finally:
            done.cancel()

    def reload(self, config: Mapping[str, Any]) -> None:
        """Restart the connector and its running tasks, because values of this config have expired.

        Nothing happens if there is another config by now.

        Kafka restarts the connector only; its tasks follow if it then commits other task configs.
        """
        if self._applied is not None and self._applied.config == config:
            self._is_reload_due = True
            self._changed.set()

    async def started(self, timeout_s: float) -> None:
        """Return when the connector has been started as assigned, and its tasks are published.

        If no attempt to publish succeeds, return after `connector_stop_timeout_ms` all the same.

        Raises:
            StartTimedOut: the start takes longer than the time limit.
            Exception: the connector cannot be started.
        """
        try:
            async with asyncio.timeout(timeout_s):
                connector = None
                while connector is None or connector is not self._connector:
                    await self.restart(())  # restarts nothing; the assignment is applied first
                    if self._start_failure is not None or (connector := self._connector) is None:
                        break
                    await connector.settled()  # also returns if a newer config ends it
        except TimeoutError:
            raise StartTimedOut(f"Connector {self._name} is still starting") from None
        await self._raise_start_failure()
        if self._publishing is not None:
            limit_s = self._around.settings.connector_stop_timeout_ms / 1_000
            await asyncio.wait([self._publishing], timeout=limit_s)

    def close(self) -> None:
        """Stop everything and report that. The asyncio task `ended` ends afterwards."""
        self._closing.set()
        self._tasks.end()
        self._changed.set()

    def abandon(self) -> None:
        """Drop everything without a report: another process runs the connector."""
        self.ended.cancel()
        self._stop_publishing()
        self._tasks.abandon()
        if self._connector is not None:
            self._connector.abandon(report=False)

    @property
    def connector_class(self) -> str | None:
        """Class that the present config names; None before the first."""
        return None if self._applied is None else str(self._applied.config.get("connector.class"))

    @property
    def task_metrics(self) -> Mapping[int, TaskMetrics]:
        """Metrics of the tasks, by number. A failed task has them until it is stopped."""
        return self._tasks.metrics

    # --- the loop -------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            with connector_logs(self._name):
                while not await self._ended_after_change():
                    pass
        except Exception as defect:  # noqa: BLE001 - no code awaits the actor's result
            await self._report_connector(defect)

    async def _ended_after_change(self) -> bool:
        """Wait for a change and apply it; return True if nothing remains to be run."""
        await self._changed.wait()
        self._changed.clear()
        if self._closing.is_set():
            await self._stop_all()
            return True
        if self._assigned is None:
            await self._remove()
            return True
        await self._attempt(self._follow(self._assigned))
        # A newer assignment is applied before the requests, which may rely on it.
        while self._requests and self._applied is self._assigned:
            await self._attempt(self._answer(self._requests.popleft()))
        if self._is_reload_due:
            await self._attempt(self._reload())
        return False

    async def _attempt(self, step: Awaitable[None]) -> None:
        """Await a step; report its error, so that the actor continues."""
        try:
            await step
        except (Exception, asyncio.CancelledError) as failure:
            if isinstance(failure, asyncio.CancelledError) and is_cancelled():
                raise
            await self._report_connector(failure)

    async def _report_connector(self, failure: BaseException) -> None:
        """Report a connector that cannot be run as FAILED."""
        trace = await text_in_time(trace_of, failure)
        self._around.statuses.connector(self._name, State.FAILED, trace, safe=True)
        reason = await text_in_time(description_of, failure)
        with suppress(Exception):  # a log that cannot be written must not end the actor
            self._around.notices.warning("connector_not_run", connector=self._name, reason=reason)

    async def _stop_all(self) -> None:
        """Stop the connector and its tasks, also if one of these stops fails."""
        await self._attempt(self._stop_connector())
        await self._attempt(self._tasks.stop_all())

    async def _remove(self) -> None:
        """End a deleted connector; then no status and no active topic of it is left (KIP-558).

        A worker that ends does not wait for the log; the next one removes the rest.
        """
        self._around.reloads.cancel(self._name)
        await self._stop_all()
        self._around.factory.forget(self._name)
        statuses = self._around.statuses
        await first_of(statuses.flush(), self._closed())
        statuses.forget_topics(self._name)
        statuses.remove_connector(self._name)

    async def _closed(self) -> None:
        await self._closing.wait()

    async def _follow(self, assignment: Assignment) -> None:
        """Apply the difference between the running parts and the assignment."""
        applied, self._applied = self._applied, assignment
        if applied is None or applied.config_record != assignment.config_record:
            self._around.reloads.cancel(self._name)
            self._is_reload_due = False
            await self._stop_connector()
            await self._start_connector(assignment)
        elif applied.target is not assignment.target:
            self._go(assignment.target)
        if assignment.target is Target.STOPPED:
            await self._tasks.stop_all()
        elif applied is None or applied.tasks_record != assignment.tasks_record:
            await self._tasks.stop_all()
            await self._tasks.start(range(len(assignment.tasks)), assignment)
        elif applied.target is Target.STOPPED:
            await self._tasks.start(range(len(assignment.tasks)), assignment)
        elif applied.target is not assignment.target:
            self._tasks.go(paused=assignment.target is Target.PAUSED)
        self._remove_old_statuses(assignment)

    def _remove_old_statuses(self, assignment: Assignment) -> None:
        """Remove the statuses of tasks beyond the present number."""
        reported = self._around.state().status.tasks.get(self._name, {})
        left = [task for task in reported if task >= len(assignment.tasks)]
        self._around.statuses.remove_tasks(self._name, sorted(left))

    # --- the connector --------------------------------------------------------------------------

    async def _start_connector(self, assignment: Assignment) -> None:
        self._start_failure = None
        startup = Startup(self._around.startups.connectors)
        failing = partial(self._fail_from_thread, startup)
        requests = ConnectorRequests(self._reconfigure_from_thread, failing)
        try:
            driver = self._around.factory.connector(self._name, assignment.config, requests)
        except Exception as failure:  # noqa: BLE001 - its class may raise anything
            trace = await text_in_time(trace_of, failure)
            startup.failed()
            self._around.statuses.connector(self._name, State.FAILED, trace, safe=True)
            self._start_failure = failure
            return
        self._connector = ConnectorInstance(
            self._name,
            driver,
            self._around.statuses,
            self._around.notices,
            StoppedPause(self._publish_once, self._around.profile.pause_starts_stopped),
            startup,
            self._around.factory.version(assignment.config),
        )
        self._go(assignment.target)

    def _go(self, target: Target) -> None:
        self._stop_publishing()
        if self._connector is None:
            return
        self._connector.go(target)
        if target is Target.STARTED:
            self._publishing = asyncio.create_task(self._publish(self._connector))

    async def _stop_connector(self) -> None:
        self._stop_publishing()
        if self._connector is not None:
            connector, self._connector = self._connector, None
            await connector.shut_down(self._around.settings.connector_stop_timeout_ms)

    def _reconfigure_from_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._reconfigure)

    def _reconfigure(self) -> None:
        connector = self._connector
        if connector is None or not connector.runs:
            return
        self._is_republication_due = True
        if self._publishing_is_idle():
            self._publishing = asyncio.create_task(self._publish(connector))

    def _publishing_is_idle(self) -> bool:
        return self._publishing is None or self._publishing.done()

    def _fail_from_thread(self, startup: Startup, failure: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._fail, startup, failure)

    def _fail(self, startup: Startup, failure: BaseException) -> None:
        """Fail the connector, unless the request comes from an instance that has ended."""
        if self._connector is not None and self._connector.startup is startup:
            self._connector.fail(failure)

    # --- task configs ---------------------------------------------------------------------------

    def _stop_publishing(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None

    async def _publish(self, connector: ConnectorInstance) -> None:
        """Publish task configs once the connector runs; retry until it works."""
        settings = self._around.settings
        await connector.settled()
        pauses = backoff(settings.publish_retry_first_ms, settings.publish_retry_last_ms)
        while connector.runs:
            self._is_republication_due = False
            try:
                await self._publish_once()
            except Exception as failure:  # noqa: BLE001 - a connector may raise anything
                self._around.notices.warning(
                    "task_configs_not_published",
                    connector=self._name,
                    reason=await text_in_time(description_of, failure),
                )
                await asyncio.sleep(next(pauses))
            else:
                if not self._is_republication_due:
                    return

    async def _publish_once(self) -> None:
        """Ask the connector for task configs, and publish them if they differ from the log's.

        Raises:
            Exception: the connector failed, or the log cannot be written.
        """
        assignment, connector = self._applied, self._connector
        if assignment is None or connector is None:
            return
        limits = resolved_limits(assignment.config, connector.driver.config)
        configs = await connector.driver.task_configs(tasks_max(limits))
        excess = excess_tasks(self._name, limits, len(configs), self._around.profile)
        if excess is not None:
            connector.fail(excess)
            return
        stored = await connector.driver.call(
            self._around.factory.published_configs, assignment.config, configs
        )
        newest = assignment_of(self._around.state(), self._name)
        if newest is None or newest.config_record != assignment.config_record:
            return  # the connector is about to end; its successor publishes its own task configs
        if not self._differ(stored):
            return
        answer = await self._around.publish(PublishTasks(self._name, tuple(stored)))
        if isinstance(answer, Rejected) and not self._is_stopped():
            raise ConnectError(answer.sentence)

    def _is_stopped(self) -> bool:
        """True if the log says STOPPED: a connector that was stopped meanwhile has no tasks."""
        return self._around.state().config.targets.get(self._name) is Target.STOPPED

    def _differ(self, stored: Sequence[Mapping[str, str | None]]) -> bool:
        """True if the log's task configs differ, or were generated from an older connector config.

        Without `commit_needs_config`, this origin is not recorded: only the task configs count.
        """
        state, name = self._around.state(), self._name
        tasks = state.config.tasks.get(name, {})
        present = [tasks.get(task) for task in state.config.task_ids(name)]
        of_this_config = state.config.applied.get(name) == state.config.connectors.get(name)
        outdated = self._around.profile.commit_needs_config and not of_this_config
        return present != [*map(dict, stored)] or outdated

    # --- restarts -------------------------------------------------------------------------------

    async def _answer(self, request: _Restart | RestartRequest) -> None:
        if isinstance(request, RestartRequest):
            await self._restart_selected(request)
            return
        restarted: RestartedInstances = ()
        try:
            await self._restart_instances(request.instances)
        except Exception as failure:  # noqa: BLE001 - the caller gets it
            _settle(request.done, failure)
        else:
            _settle(request.done, None)
            restarted = request.instances
        # Tasks start after the answer. With exactly-once support, their start fences older tasks by
        # a command, which waits for the end of the present command.
        if not any(isinstance(waiting, _Restart) for waiting in self._requests):
            self._restart_awaited.clear()
        await self._start_restarted(restarted)

    async def _restart_instances(self, instances: RestartedInstances) -> None:
        """Restart the connector if it is among the instances, and stop the tasks among them."""
        assignment = self._applied
        if assignment is None:
            return
        if None in instances:
            await self._stop_connector()
            await self._start_connector(assignment)
            await self._raise_start_failure()
        await self._tasks.stop(_tasks_of(instances))

    async def _start_restarted(self, instances: RestartedInstances) -> None:
        """Start the tasks among these instances."""
        assignment = self._applied
        if assignment is not None and assignment.target is not Target.STOPPED:
            await self._tasks.start(_tasks_of(instances), assignment)

    async def _reload(self) -> None:
        self._is_reload_due = False
        running = self._tasks.running
        with suppress(Exception):  # the connector's status reports the failure
            await self._restart_instances([None, *running])
            await self._start_restarted(running)

    async def _raise_start_failure(self) -> None:
        """Wait for the connector's start; raise the exception of a start that failed."""
        if self._start_failure is not None:
            raise self._start_failure
        connector = self._connector
        if connector is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._around.settings.connector_stop_timeout_ms / 1_000):
                await connector.settled()
        if isinstance(connector.failure, Exception):
            raise connector.failure

    async def _restart_selected(self, request: RestartRequest) -> None:
        """Restart as KIP-745 says: stop, report RESTARTING, start."""
        assignment, statuses = self._applied, self._around.statuses
        status = self._around.state().status
        if assignment is None or self._name not in status.connectors:
            return
        reported = status.tasks.get(self._name, {})
        failed_only = request.only_failed
        connector = not failed_only or status.connectors[self._name].state is State.FAILED
        tasks = [
            number
            for number in range(len(assignment.tasks))
            if request.include_tasks
            and number in reported
            and (not failed_only or reported[number].state is State.FAILED)
        ]
        if connector:
            await self._stop_connector()
        await self._tasks.stop(tasks)
        if connector:
            statuses.connector(self._name, State.RESTARTING)
        for number in tasks:
            statuses.task(TaskIdentity(self._name, number), State.RESTARTING)
        if connector:
            await self._start_connector(assignment)
        if assignment.target is not Target.STOPPED:
            await self._tasks.start(tasks, assignment)


def _tasks_of(instances: RestartedInstances) -> list[int]:
    """Return the numbers of the tasks among some instances."""
    return [number for number in instances if number is not None]


def _settle(done: "asyncio.Future[None]", failure: Exception | None) -> None:
    """Answer the caller of a restart, unless it has gone."""
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
