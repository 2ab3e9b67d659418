"""Worker: runs the connectors of a control plane in this process.

    environment = RuntimeEnvironment(ConnectorClasses([OrdersSource]))
    async with ConnectWorker.open("sqlite:///state.db", environment) as worker:
        await worker.plane.execute(CreateConnector("orders", config))

The worker follows the state that the control plane reads from its log. It writes statuses, offsets
and records itself, and task configs by commands of the plane. It never writes configs or target
states.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from prometheus_client.metrics_core import Metric

from controlplane.connect.errors import ConnectError
from controlplane.controller.external import ExternalActionFailed
from controlplane.core.codec.config import decode_config
from controlplane.core.commands import PublishTasks
from controlplane.core.entry import Entry
from controlplane.core.plan import (
    Outcome,
    Rejected,
    RestartInstances,
)
from controlplane.core.records import ConnectorConfig, RestartRequest
from controlplane.event_loop import cancel_all
from controlplane.failure_text import message_of
from controlplane.logs.log import Log
from controlplane.plane import ControlPlane, Settings, Surroundings, opened_log
from controlplane.settings.providers import INSTALL_ADVICE
from controlplane.worker.background_tasks import background_task
from controlplane.worker.claim_probe import ClaimProbe
from controlplane.worker.config_resolver import ConfigResolver, PrivateNotices
from controlplane.worker.connector_classes import class_name
from controlplane.worker.data_topics.clients import TaskClients, TaskCluster
from controlplane.worker.data_topics.embedded_clients import LogCluster
from controlplane.worker.external_actions import WorkerActions
from controlplane.worker.factory import InstanceFactory, RuntimeEnvironment
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.actor_environment import ActorEnvironment
from controlplane.worker.lifecycle.assignment import assignment_of
from controlplane.worker.lifecycle.config_reloads import ConfigReloads
from controlplane.worker.lifecycle.connector_actor import ConnectorActor
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.log_context import connector_logs
from controlplane.worker.metrics.exposition import ConnectorInfo, metric_families
from controlplane.worker.metrics.startups import WorkerStartups
from controlplane.worker.records.conversion import missing_converters, unset_converters
from controlplane.worker.task_identity import TaskIdentity

FAILURE_POLL_S = 1.0
"""Longest pause until a worker notices that its plane has failed."""


class ConnectWorker:
    """Runs connectors in this process. Open it with `open`."""

    def __init__(
        self,
        plane: ControlPlane,
        cluster: TaskCluster,
        clients: TaskClients,
        environment: RuntimeEnvironment,
        resolver: ConfigResolver,
    ) -> None:
        settings = environment.settings
        self.plane = plane
        """The control plane whose connectors run here."""
        self.cluster = cluster
        """Cluster with the data topics: brokers, or the log itself."""
        self.clients = clients
        """Makes the producers and consumers of tasks."""
        self._settings = settings
        self._profile = plane.state.profile
        self.excerpt = resolver.excerpt
        """Removes the values of config providers from a text, and the middle of a long one."""
        self._notices = PrivateNotices(plane.notices, resolver.excerpt)
        self._wake = asyncio.Event()
        """Set when an actor has ended, or the plane may have failed."""
        self._claim_probe = ClaimProbe(plane, settings.claim_probe_ms, self._wake.set)
        topics = plane.state.topics
        partitions = sum(topic == topics.status for topic, _ in plane.state.ends)
        self._statuses = StatusWriter(
            plane.log,
            state=lambda: plane.state,
            epoch=lambda: plane.epoch,
            partitions=partitions,
            now_ms=plane.now_ms,
            notices=self._notices,
            read_back=plane.follower.wait_for_records,
            fenced=self._claim_probe.suspect,
            worker_id=settings.worker_id,
            tracking=settings.topic_tracking,
            excerpt=resolver.excerpt,
        )
        self._classes = environment.classes
        self._startups = WorkerStartups()
        self._reloads = ConfigReloads(self._reload, self._notices, settings.reload_shortest_ms)
        self._around = ActorEnvironment(
            InstanceFactory(
                plane, environment, clients, self._statuses, resolver, self._startups, self._reloads
            ),
            self._statuses,
            lambda: plane.state,
            self._publish,
            settings,
            self._notices,
            profile=self._profile,
            startups=self._startups,
            reloads=self._reloads,
        )
        self._actors: dict[str, ConnectorActor] = {}
        """Actors by connector; an actor runs one connector with its tasks."""
        self._deleted: set[str] = set()
        self._restarts: list[RestartRequest] = []
        self._config_end = -1
        self._closed = False  # True once the worker ends: it starts no connector any more

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        where: str | Log,
        environment: RuntimeEnvironment,
        settings: Settings | None = None,
        around: Surroundings | None = None,
        cluster: TaskCluster | None = None,
    ) -> AsyncIterator["ConnectWorker"]:
        """Open a control plane on a log, and run its connectors until the block ends.

        `cluster`: that of the data topics; None: the log itself has them.

        Raises:
            SettingsError: a config provider cannot be loaded.
            Exception: see `ControlPlane.open`.
        """
        environment.providers.load()
        around = around or Surroundings()
        async with AsyncExitStack() as stack:
            log = await opened_log(where, stack)
            cluster = cluster or LogCluster(log, around.now_ms, environment.settings.producer)
            resolver = ConfigResolver(environment.providers)
            actions = WorkerActions(cluster.actions, resolver, environment.classes)
            around = around._replace(
                outside=actions, plugins=around.plugins or environment.classes.plugins()
            )
            plane = await stack.enter_async_context(ControlPlane.open(log, settings, around))
            clients = await stack.enter_async_context(cluster.clients(plane))
            worker = cls(plane, cluster, clients, environment, resolver)
            actions.restart = worker.restart
            worker._report_missing(environment)
            async with worker._running():
                yield worker

    def _report_missing(self, environment: RuntimeEnvironment) -> None:
        """Warn of config providers and converters that the worker lacks.

        Either the settings name a class that cannot run here, or they name no converter. The worker
        runs nevertheless: connectors may need none of them.
        """
        for name, provider in sorted(environment.providers.missing.items()):
            self._notices.warning(
                "config_provider_missing",
                provider=name,
                provider_class=provider,
                advice=f"correct config.providers.{name}.class, or {INSTALL_ADVICE}",
            )
        for setting in unset_converters(environment.settings):
            self._notices.warning(
                "converter_not_set",
                setting=setting,
                advice=f"set {setting} in the worker's file, or in each connector's config",
            )
        for setting, converter in missing_converters(environment.settings).items():
            self._notices.warning(
                "converter_missing",
                setting=setting,
                converter=converter,
                advice="name a converter that docs/connectors.md lists, or set "
                f"{setting} in each connector's config",
            )

    async def restart(self, action: RestartInstances) -> None:
        """Restart a connector or tasks; return when the tasks have stopped, before they start.

        Raises:
            ExternalActionFailed: the connector cannot be started.
        """
        actor = self._actors.get(action.connector)
        if actor is None:
            return
        try:
            await actor.restart(action.instances)
        except Exception as failure:
            answer = f"Failed to start connector: {action.connector}"
            with connector_logs(action.connector):
                reason = await text_in_time(message_of, failure)
            raise ExternalActionFailed(answer, self.excerpt(reason)) from failure

    async def started(self, name: str, timeout_s: float) -> None:
        """Return when a connector has been started by its present config.

        Details: `ConnectorActor.started`.

        Raises:
            StartTimedOut: the start takes longer than the time limit.
            Exception: the connector cannot be started.
        """
        await self.removed(name)
        if name in self._actors:
            await self._actors[name].started(timeout_s)

    async def removed(self, name: str) -> None:
        """Return when a deleted connector of this name has ended; at once if there is none.

        A new connector may have the same name already: it begins to run only after that end.
        """
        self._assign()
        while name in self._deleted and not self._closed:
            await asyncio.wait([self._actors[name].ended])
            self._assign()

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics of what runs now (`ConnectMetricsRegistry`).

        They are read as the result is iterated, which may happen in another thread.
        """
        tasks = {
            TaskIdentity(name, number): metrics
            for name, actor in sorted(self._actors.items())
            for number, metrics in sorted(actor.task_metrics.items())
        }
        return metric_families(tasks, [*self._connector_infos()], self._startups)

    def _connector_infos(self) -> Iterator[ConnectorInfo]:
        for name, actor in sorted(self._actors.items()):
            if actor.ended.done() or actor.connector_class is None:
                continue
            with suppress(ConnectError):  # a connector whose class cannot run here is FAILED
                connector = self._classes.named(actor.connector_class)
                yield ConnectorInfo(name, class_name(connector), connector.kind, connector.version)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        # No `asyncio.TaskGroup`: its end would wait for a connector that ignores its cancellation.
        # It would also wrap the caller's exceptions in a group.
        self._clean_statuses()
        tasks = [
            background_task(self._follow(), "worker", self._notices),
            background_task(self._claim_probe.run(), "claim probe", self._notices),
        ]
        try:
            yield
        finally:
            self._closed = True
            self._reloads.close()
            try:
                await cancel_all(tasks)
                await self._close_actors()
            except asyncio.CancelledError:
                self._abandon()
                raise
            finally:  # also if the caller is cancelled again meanwhile
                await self._statuses.close()

    async def _close_actors(self) -> None:
        """Stop all connectors within a time limit; abandon those that hang."""
        if not self._actors:
            return
        actors = {actor.ended: name for name, actor in self._actors.items()}
        for name in actors.values():
            self._actors[name].close()
        _, pending = await asyncio.wait(actors, timeout=self._settings.close_timeout_ms / 1_000)
        for ended_ in pending:
            self._notices.warning("connector_left_behind", connector=actors[ended_])
            self._actors[actors[ended_]].abandon()

    def _clean_statuses(self) -> None:
        """Remove the statuses of deleted connectors: a crash may have cut off their deletion."""
        state = self.plane.state
        for name in sorted({*state.status.connectors, *state.status.tasks}):
            if name not in state.config.connectors:
                self._statuses.forget_topics(name)
                self._statuses.remove_connector(name)

    async def _follow(self) -> None:
        follower = self.plane.follower
        with follower.observed(self._note, self._wake.set):
            while True:
                moves = follower.moves  # before the state is read: no later move is missed
                if self.plane.failure is None:
                    self._assign()
                else:
                    self._abandon()
                await self._moved(moves)

    async def _moved(self, moves: int) -> None:
        """Return when the log has grown, when `_wake` is set, or after `FAILURE_POLL_S`."""
        waits = [
            asyncio.ensure_future(self.plane.follower.moved(moves)),
            asyncio.ensure_future(self._wake.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=FAILURE_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._wake.clear()
            await cancel_all(waits)

    def _note(self, entries: Sequence[Entry]) -> None:
        """Note a newer worker, restarts, and deletions that a re-creation would hide."""
        topics = self.plane.state.topics
        for entry in entries:
            if entry.topic == topics.status and self._statuses.is_of_newer_worker(entry):
                self._claim_probe.suspect()
            if entry.topic != topics.config or entry.aborted:
                continue
            record = decode_config(entry.key, entry.value, self._profile)
            if isinstance(record, RestartRequest):
                self._restarts.append(record)
            elif isinstance(record, ConnectorConfig) and record.properties is None:
                self._deleted.add(record.connector)

    def _assign(self) -> None:
        if self._closed:  # a caller may still wait in `removed`
            return
        state = self.plane.state
        # An assignment depends on the config topic alone, so other records change none.
        end = state.ends.get((state.topics.config, 0), 0)
        if end == self._config_end and not self._deleted:
            return
        self._config_end = end
        self._end_deleted()
        for name in state.config.connectors:
            if name in self._deleted:
                continue  # its actor is ending; then it gets a new one
            if name not in self._actors:
                self._actors[name] = ConnectorActor(name, self._around)
                self._actors[name].ended.add_done_callback(lambda _: self._wake.set())
            self._actors[name].assign(assignment_of(state, name))
        self._request_restarts()

    def _end_deleted(self) -> None:
        for name in [*self._deleted]:
            actor = self._actors.get(name)
            if actor is None or actor.ended.done():
                self._actors.pop(name, None)
                self._deleted.discard(name)
            else:
                actor.assign(None)

    def _request_restarts(self) -> None:
        requests, self._restarts = self._restarts, []
        for request in requests:
            if request.connector in self._actors:
                self._actors[request.connector].request(request)

    def _abandon(self) -> None:
        """Abandon all actors: another process runs the connectors now, or the worker must end."""
        for actor in self._actors.values():
            actor.abandon()
        self._reloads.close()
        self._actors.clear()
        self._deleted.clear()
        self._restarts.clear()
        self._config_end = -1

    def _reload(self, connector: str, config: Mapping[str, Any]) -> None:
        """Restart a connector if values of its config have expired."""
        if (actor := self._actors.get(connector)) is not None and not actor.ended.done():
            actor.reload(config)

    async def _publish(self, command: PublishTasks) -> Outcome | Rejected:
        return await self.plane.carry_out(command, principal="worker")
