"""Makes connectors and tasks from their configs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.connect.sink import Sink, SinkConnector
from controlplane.connect.source import Source, SourceConnector, SourceTask
from controlplane.core.commands import FenceTasks
from controlplane.core.configdef.key_definition import with_defaults
from controlplane.core.configdef.value_parser import InvalidValue
from controlplane.core.decide.sink_offsets import group_of
from controlplane.core.java.java_library import trim
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.core.plan import Rejected
from controlplane.core.plugins.catalogue import UNDEFINED_VERSION, Plugin
from controlplane.core.state import ClusterState
from controlplane.core.topics.remote_offsets import with_remote
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC, is_remote, topics_of
from controlplane.core.validation.pattern_rules import TOPICS_REGEX, compiled_regex
from controlplane.plane import ControlPlane
from controlplane.settings.config_references import references_in
from controlplane.settings.providers import Providers
from controlplane.worker.config_resolver import (
    ConfigResolver,
    PrivateNotices,
    resolved_in_thread,
)
from controlplane.worker.connector_classes import (
    ConnectorClasses,
    class_name,
    connector_class,
)
from controlplane.worker.data_topics.clients import TaskClients, TopicSubscription
from controlplane.worker.data_topics.outage_retry import until_available
from controlplane.worker.data_topics.override_checks import (
    check_sink_task,
    check_source_connector,
    check_source_task,
)
from controlplane.worker.data_topics.state_topics import refuse_state_topic
from controlplane.worker.data_topics.topic_rules import TopicRules
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.connector_drivers import (
    ConnectorDriver,
    ConnectorRequests,
    RunningConnector,
    driver_of,
)
from controlplane.worker.drivers.sink_drivers import (
    ClassicSinkDriver,
    OneClassSinkDriver,
    SinkContext,
    SinkDriver,
)
from controlplane.worker.drivers.source_context import TaskContext, TransactionRequests
from controlplane.worker.drivers.source_drivers import (
    GeneratorDriver,
    PollingDriver,
    SourceDriver,
)
from controlplane.worker.lifecycle.assignment import Assignment
from controlplane.worker.lifecycle.config_reloads import ConfigReloads
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.lifecycle.task_instance import TaskInstance, TaskRun
from controlplane.worker.lifecycle.tasks_max import resolved_limits, tasks_max
from controlplane.worker.log_context import task_logs
from controlplane.worker.metrics.startups import WorkerStartups
from controlplane.worker.metrics.task_metrics import SinkTaskMetrics, SourceTaskMetrics
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from controlplane.worker.records.conversion import Pipelines, SinkPipeline, SourcePipeline
from controlplane.worker.records.error_reports import ErrorReporter
from controlplane.worker.records.record_errors import ErrorSettings
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.task_identity import TaskIdentity
from controlplane.worker.tasks.at_least_once import AtLeastOnce
from controlplane.worker.tasks.exactly_once import ExactlyOnce, TransactionBoundary
from controlplane.worker.tasks.sink_task import LoadedSinkTask, SinkTaskRun
from controlplane.worker.tasks.source_task import Delivery, LoadedSourceTask, SourceTaskRun
from controlplane.worker.tasks.source_topics import SourceTopics

TASK_CLASS = "task.class"
TOPIC_KEYS = ("topics", TOPICS_REGEX)

OFFSETS_PATIENCE_MS = 60_000
"""Longest wait for the offsets of a source before its tasks start (`default.api.timeout.ms` of
Kafka's consumer). Meanwhile the connector obeys only its deletion, a restart (`RestartInstances`),
and the end of the worker."""


class RuntimeEnvironment(NamedTuple):
    """Classes, settings and config providers of a worker."""

    classes: ConnectorClasses
    settings: RuntimeSettings = RuntimeSettings()
    providers: Providers = Providers({}, {})
    """Resolve references in the configs of connectors (KIP-297)."""


class InstanceFactory:
    """Makes connectors and tasks of one worker."""

    def __init__(  # noqa: PLR0913, PLR0917 - parts of one worker
        self,
        plane: ControlPlane,
        environment: RuntimeEnvironment,
        clients: TaskClients,
        statuses: StatusWriter,
        resolver: ConfigResolver,
        startups: WorkerStartups,
        reloads: ConfigReloads,
    ) -> None:
        self._plane = plane
        self._resolver = resolver
        self._notices = PrivateNotices(plane.notices, resolver.excerpt)
        self._classes, self._settings, _ = environment
        self._clients = clients
        self._statuses = statuses
        self._startups = startups
        self._reloads = reloads
        self._pipelines = Pipelines(self._classes, self._settings)
        self._offsets: dict[str, SourceOffsetStore] = {}
        """Committed offsets of each source, shared by its tasks."""

    def connector(
        self, name: str, config: Mapping[str, Any], requests: ConnectorRequests
    ) -> ConnectorDriver:
        """Return the driver of a connector; its `make` resolves the references in the config.

        Raises:
            ConnectError: its class cannot be used, or the policy forbids its client settings.
        """
        connector = self._classes.named(connector_class(config))
        if connector.kind == "source":
            check_source_connector(
                config, self._plane.context, exactly_once=self._settings.exactly_once
            )
        resolved = partial(self._resolved_connector, name, connector, config)
        return driver_of(connector, RunningConnector(name, resolved, requests), self._notices)

    def version(self, config: Mapping[str, Any]) -> str | None:
        """Return the version of a connector's class for its statuses; None: it has none."""
        path = self._plane.context.plugins.at(self._plane.state.profile)
        plugin = path.connector(connector_class(config))
        if not isinstance(plugin, Plugin) or plugin.version == UNDEFINED_VERSION:
            return None
        return plugin.version

    def published_configs(
        self, config: Mapping[str, Any], configs: Sequence[Mapping[str, str | None]]
    ) -> list[dict[str, str | None]]:
        """Return task configs as they are stored: with the task's class, and a sink's topics.

        Defaults of the connector's class that a task config repeats are not stored.
        """
        connector = self._classes.named(connector_class(config))
        defaults = {key.name: key.default for key in connector.config if key.name not in config}
        added: dict[str, str | None] = {TASK_CLASS: _task_class(connector)}
        if connector.kind == "sink":
            added |= {key: config[key] for key in TOPIC_KEYS if config.get(key)}
        own_configs = [
            {
                key: value
                for key, value in task_config.items()
                if key not in defaults or value != defaults[key]
            }
            for task_config in configs
        ]
        class_keys = [key.name for key in connector.config]
        referring = self._resolver.referring(config, own_configs, class_keys)
        return [task_config | added for task_config in referring]

    async def prepare_tasks(self, name: str, config: Mapping[str, Any]) -> None:
        """Read the committed offsets of a source. A sink needs no preparation.

        If exactly-once support is on, fence older producers first. If the log is unavailable, wait
        for it before the offsets are read, up to `OFFSETS_PATIENCE_MS`.

        Raises:
            ConnectError: the producers cannot be fenced, or a config provider fails.
            LogError: the log cannot be read.
        """
        if self._classes.named(connector_class(config)).kind != "source":
            return
        if self._settings.exactly_once:
            answer = await self._plane.carry_out(FenceTasks(name), principal="worker")
            if isinstance(answer, Rejected):
                raise ConnectError(f"Failed to fence zombie tasks: {answer.sentence}")
        reading = partial(self._read_offsets, name, config)
        self._offsets[name] = await until_available(reading, patience_ms=OFFSETS_PATIENCE_MS)

    async def resolved(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings of a connector with their references resolved.

        Raises:
            ConnectError: a provider fails, or does not answer in time.
        """
        return await resolved_in_thread(self._resolver, settings)

    def forget(self, name: str) -> None:
        """Drop the offsets of a deleted connector."""
        self._offsets.pop(name, None)

    async def _read_offsets(self, name: str, config: Mapping[str, Any]) -> SourceOffsetStore:
        """Read the offsets topics to their ends, and return the connector's offsets."""
        plane, offsets = self._plane, self._clients.offsets
        if offsets.remote_topic(config) is not None:
            # The config may name the producer's brokers by a reference.
            config = await self.resolved(config)
        topics = topics_of(plane.state, config)
        if offsets.remote_topic(config) is not None:
            topics = topics[-1:]
        for topic in topics[:-1]:  # the connector's own topic may not exist yet
            await offsets.create(topic, topics[-1])
        await plane.follower.follow(topics)
        await plane.follower.wait_for(await plane.log.ends(topics))
        # Do not wait for open transactions: those of killed tasks end only when tasks start again.
        state = await self._with_remote(config, awaits_transactions=False)
        # In a thread: a state may have very many offsets. A published state never changes.
        return await asyncio.to_thread(SourceOffsetStore, state, name, config)

    async def _with_remote(
        self, config: Mapping[str, str], *, awaits_transactions: bool
    ) -> ClusterState:
        """Return the state with the offsets on the cluster of a connector's producer, if any."""
        remote = self._clients.offsets.remote_topic(config)
        if remote is None:
            return self._plane.state
        offsets = await self._clients.offsets.read_remote(
            remote, config, awaits_transactions=awaits_transactions
        )
        return with_remote(self._plane.state, remote, offsets)

    async def task(
        self, name: str, number: int, assignment: Assignment, *, paused: bool
    ) -> TaskInstance:
        """Begin a task. The returned instance makes the author's object, and reports a failure.

        Raises:
            ConnectError: the connector's class cannot run here.
        """
        connector = self._classes.named(connector_class(assignment.config))
        identity = TaskIdentity(name, number)
        with task_logs(identity):
            thread = AuthorThread(f"task {identity}", self._notices)
        control = TaskControl(paused=paused)
        control.when_abandoned(thread.leave_behind)
        is_source = connector.kind == "source"
        metrics = (SourceTaskMetrics if is_source else SinkTaskMetrics)(self._startups.tasks)

        resolved = partial(self._resolved, name, connector, assignment.config)

        async def made() -> TaskRun:
            """Make the task in its own thread: the author's code may hang there."""
            draft = _TaskDraft(
                identity,
                connector,
                thread,
                control,
                await thread.call(resolved, assignment.config),
                await thread.call(resolved, assignment.tasks[number]),
            )
            if isinstance(metrics, SourceTaskMetrics):
                return await self._source_run(draft, metrics)
            return await self._sink_run(draft, metrics)

        version = self.version(assignment.config)
        return TaskInstance(
            identity, made, thread, control, self._statuses, self._notices, metrics, version
        )

    async def _source_run(self, draft: "_TaskDraft", metrics: SourceTaskMetrics) -> SourceTaskRun:
        check_source_task(draft.connector_config, self._plane.context, self._settings)
        exactly_once, transaction = self._settings.exactly_once, None
        boundary = TransactionBoundary.of(draft.connector_config) if exactly_once else None
        if boundary is TransactionBoundary.CONNECTOR:
            transaction = TransactionRequests()
        offsets = self._offsets[draft.identity.connector]
        context = TaskContext(draft.identity, draft.config, offsets, transaction)
        driver = await _source_driver(draft, context)
        # The pipeline has another thread than the author's code: a generator that blocks must not
        # hold up records that it has yielded.
        converting = AuthorThread(f"conversion {draft.identity}", self._notices)
        draft.control.when_abandoned(converting.leave_behind)
        try:
            rules = await converting.call(self._topic_rules, draft.connector_config)
            pipeline = await converting.call(
                self._pipelines.source, draft.connector_config, metrics.errors
            )
        except BaseException:
            converting.abandon()
            raise
        draft.control.when_stopped(pipeline.errors.stop)
        loaded = LoadedSourceTask(
            identity=draft.identity,
            driver=driver,
            thread=converting,
            pipeline=pipeline,
            topics=SourceTopics(rules, converting),
            state_topics=self._clients.state_topics(draft.connector_config),
            reporter=self._reporter(draft, pipeline),
            offsets=offsets,
            control=draft.control,
            settings=self._settings,
            config=draft.connector_config,
            note_topic=partial(self._statuses.note_topic, draft.identity),
            notices=self._notices,
            updates_offsets=self._plane.state.profile.updates_offsets,
            metrics=metrics,
        )
        task_and_config = draft.identity, draft.connector_config
        opened = self._exactly_once if exactly_once else self._at_least_once
        return SourceTaskRun(loaded, partial(opened, loaded, *task_and_config))

    @asynccontextmanager
    async def _at_least_once(
        self, loaded: LoadedSourceTask, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[Delivery]:
        async with self._clients.producer(task, config) as producer:
            yield AtLeastOnce(loaded, producer)

    @asynccontextmanager
    async def _exactly_once(
        self, loaded: LoadedSourceTask, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[Delivery]:
        """Open the producer, which fences its predecessor; then read the predecessor's offsets."""
        async with self._clients.transactional_producer(task, config) as producer:
            reading = partial(self._state_with, loaded.offsets.topics, config)
            await loaded.offsets.read_again(reading)
            yield ExactlyOnce(loaded, producer)

    async def _state_with(
        self, offsets_topics: Sequence[str], config: Mapping[str, str]
    ) -> ClusterState:
        """Wait for the end of all transactions that the topics have now; then return the state."""
        own_cluster = [topic for topic in offsets_topics if not is_remote(topic)]
        ends = await until_available(partial(self._clients.offsets.ends, own_cluster))
        await self._plane.follower.wait_for(ends)
        reading = partial(self._with_remote, config, awaits_transactions=True)
        return await until_available(reading)

    async def _sink_run(self, draft: "_TaskDraft", metrics: SinkTaskMetrics) -> SinkTaskRun:
        check_sink_task(draft.connector_config, self._plane.context)
        self._check_dead_letter_topic(draft)
        context = SinkContext(draft.identity, draft.config)
        driver = await _sink_driver(draft, context)
        group = group_of(draft.identity.connector, draft.connector_config, self._plane.context)
        subscription = TopicSubscription(
            [topic.strip() for topic in draft.config.get("topics", "").split(",") if topic.strip()],
            await draft.thread.call(_topics_regex, draft.config),
        )
        # This call makes the transformations, and only the run of the task closes them. So the
        # steps between this call and the start of the run must not fail.
        pipeline = await draft.thread.call(
            self._pipelines.sink, draft.connector_config, metrics.errors
        )
        loaded = LoadedSinkTask(
            driver=driver,
            thread=draft.thread,
            pipeline=pipeline,
            reporter=self._reporter(draft, pipeline),
            control=draft.control,
            settings=self._settings,
            note_topic=partial(self._statuses.note_topic, draft.identity),
            notices=self._notices,
            metrics=metrics,
        )
        task_and_config = draft.identity, draft.connector_config
        run = SinkTaskRun(
            loaded,
            partial(self._clients.consumer, *task_and_config, group, subscription),
            partial(self._clients.dead_letter_producer, *task_and_config),
        )
        context.reporting = run.report
        return run

    def _check_dead_letter_topic(self, draft: "_TaskDraft") -> None:
        config = draft.connector_config
        topic = ErrorSettings.of(config).dead_letter_topic
        refuse_state_topic(draft.identity.connector, topic, self._clients.state_topics(config))

    def _reporter(
        self, draft: "_TaskDraft", pipeline: SourcePipeline | SinkPipeline
    ) -> ErrorReporter:
        return ErrorReporter(draft.identity, pipeline.errors, self._notices, self._resolver.excerpt)

    def _resolved_connector(
        self, name: str, connector: type[Any], config: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the config of a connector as its author gets it.

        Raises:
            ConnectError: a provider fails, `_check_readable` refuses a reference, `tasks.max` is
                invalid, or `TopicRules.of` refuses a setting of `topic.creation.*`.
        """
        _check_readable(config)
        resolved = self._resolved(name, connector, config, config)
        tasks_max(resolved_limits(config, resolved))
        if connector.kind == "source":
            self._topic_rules(resolved)
        return resolved

    def _topic_rules(self, config: Mapping[str, str]) -> TopicRules | None:
        return TopicRules.of(config) if self._settings.producer.create_topics else None

    def _resolved(
        self,
        name: str,
        connector: type[Any],
        connector_config: Mapping[str, Any],
        config: Mapping[str, Any],
    ) -> dict[str, str]:
        """Return a config as authors get it: references resolved, defaults of the class added.

        The connector is restarted when a value expires, unless its config says otherwise
        (`config.action.reload`).
        """
        resolved, ttls_ms = self._resolver.resolved(config, self._notices)
        self._reloads.schedule(name, connector_config, ttls_ms)
        config_with_defaults: dict[str, str] = with_defaults(connector.config, resolved)
        return config_with_defaults


class _TaskDraft(NamedTuple):
    """Parts of a task that is being made, with its resolved configs."""

    identity: TaskIdentity
    connector: type[Any]
    thread: AuthorThread
    control: TaskControl
    connector_config: dict[str, str]
    config: dict[str, str]


async def _source_driver(draft: _TaskDraft, context: TaskContext) -> SourceDriver:
    """Make the author's object in its own thread; return its driver."""
    if issubclass(draft.connector, Source):
        source: Source = await draft.thread.call(draft.connector)
        return GeneratorDriver(source, context, draft.thread)
    assert issubclass(draft.connector, SourceConnector)
    task: SourceTask = await draft.thread.call(draft.connector.task)
    return PollingDriver(task, context, draft.thread)


async def _sink_driver(draft: _TaskDraft, context: SinkContext) -> SinkDriver:
    """Make the author's object in its own thread; return its driver."""
    if issubclass(draft.connector, Sink):
        sink: Sink = await draft.thread.call(draft.connector)
        return OneClassSinkDriver(sink, context, draft.thread)
    assert issubclass(draft.connector, SinkConnector)
    return ClassicSinkDriver(await draft.thread.call(draft.connector.task), context, draft.thread)


_READ_BY_COMMANDS = ("consumer.override.group.id", OFFSETS_TOPIC)
"""Settings that commands on offsets take from the log, with references unresolved."""


def _check_readable(config: Mapping[str, Any]) -> None:
    """Check that no setting in `_READ_BY_COMMANDS` is a reference.

    A task would get the value behind the reference, but a command reads the reference itself. So
    the command would read and alter the offsets of another group or topic.

    Raises:
        ConnectError: a setting is a reference.
    """
    for key in _READ_BY_COMMANDS:
        if any(references_in(str(config.get(key)))):
            raise ConnectError(
                f"{key} refers to a config provider: write its value, because commands on offsets "
                "read it from the log"
            )


def _topics_regex(config: Mapping[str, str]) -> JavaPattern | None:
    """Return the pattern for the topics of a sink; None: it lists their names. May take long.

    Raises:
        ConnectError: the pattern is invalid, or this worker does not support it.
    """
    pattern = config.get(TOPICS_REGEX) or ""
    if not trim(pattern):
        return None
    try:
        return compiled_regex(TOPICS_REGEX, pattern)
    except InvalidValue as invalid:
        raise ConnectError(str(invalid)) from None


def _task_class(connector: type[Any]) -> str:
    """Return the value of `task.class`; a twin of a Java class has that of the original."""
    if hasattr(connector, "java_name"):
        return class_name(connector).removesuffix("Connector") + "Task"
    return class_name(getattr(connector, "task", connector))
