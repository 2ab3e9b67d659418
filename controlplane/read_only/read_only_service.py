"""Read-only service of a log, for `serve` and for commands about a log."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from controlplane.controller.external import (
    HasGroups,
    known_policy,
    sink_offsets,
    sink_progress,
)
from controlplane.controller.log_groups import StoredGroups
from controlplane.core.commands import AnyCommand, CreateConnector, ResetOffsets
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.decide.prediction import partition_assumptions
from controlplane.core.plan import AskGroup, GroupOffsets, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.group_progress import GroupProgress
from controlplane.logger_levels import Loggers
from controlplane.logs.log_factory import OpenedLog
from controlplane.logs.names import is_cluster
from controlplane.notices import Notices
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.forecast import forecast
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.service import Service, States, compose
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.prefixes import FOLLOWER
from controlplane.settings.worker_settings import decision_settings


class ReadOnlySettings(NamedTuple):
    """Topics to follow, endpoints to serve, and the facts that the log lacks."""

    topics: Topics
    context: Context
    limits: FollowerLimits
    endpoint_set: EndpointSet
    where: str = ""
    configuration: Configuration = Configuration()
    """Access to the cluster, if `where` is one: its consumer groups have the offsets of sinks."""


def read_only_settings(
    where: str,
    configuration: Configuration,
    profile: Profile,
    plugins: Plugins,
    *,
    exactly_once: bool,
) -> ReadOnlySettings:
    """Build the settings of the read-only service of a log; `exactly_once` beats the setting.

    Raises:
        SettingsError: a value is invalid.
    """
    listeners = listener_configuration(where, configuration).settings(WorkerSettings)
    return ReadOnlySettings(
        configuration.settings(WorkerSettings).topics,
        decision_context(configuration, profile, plugins, exactly_once=exactly_once),
        configuration.settings(FollowerLimits, FOLLOWER),
        EndpointSet.ALL if listeners.admin_listeners is None else EndpointSet.PUBLIC,
        where,
        configuration,
    )


def decision_context(
    configuration: Configuration, profile: Profile, plugins: Plugins, *, exactly_once: bool
) -> Context:
    """Build the context of decisions; `exactly_once` beats the setting.

    Raises:
        SettingsError: a value is invalid.
    """
    worker = configuration.make(WorkerSettings, decision_settings)
    worker = msgspec.structs.replace(worker, exactly_once_source=exactly_once)
    return Context(profile=profile, worker=worker, plugins=plugins)


def listener_configuration(
    where: str, configuration: Configuration, *, own: bool = False
) -> Configuration:
    """Return the settings that may hold our listeners.

    The properties file of a Kafka cluster belongs to its workers, and so do `listeners` in it. The
    exception is `own`: this process is the worker.
    """
    if is_cluster(where) and not own:
        return configuration.only(lambda source: source.is_ours)
    return configuration


async def with_stored_group(
    state: ClusterState, command: AnyCommand, context: Context, groups: StoredGroups
) -> Context:
    """Return the context with the committed offsets that the decision asks for, if any.

    Raises:
        LogError: the log cannot be read.
    """
    if not isinstance(command, ResetOffsets | CreateConnector):
        return context
    question = decide(state, command, context)
    if not isinstance(question, AskGroup) or not await groups.refresh():
        return context
    return msgspec.structs.replace(context, group=groups.rows(question.group))


class ReadOnlyPlanner:
    """Plans commands by the state of a follower; writes nothing (`rest.service.Planner`)."""

    def __init__(
        self,
        follower: Follower,
        context: Context,
        assumed: Iterable[str] = (),
        groups: StoredGroups | None = None,
    ) -> None:
        """`assumed`: topics that may have more partitions than the log shows.

        `groups`: consumer groups in the log. Without them, plans assume empty groups.
        """
        self._follower = follower
        self._context = context
        self._assumed = tuple(assumed)
        self._groups = groups

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """Plan a command as the log's writer would, with the assumptions behind the plan."""
        context = msgspec.structs.replace(self._context, profile=profile or self._context.profile)
        state = await self._follower.state(context.profile)
        if self._groups is not None:
            context = await with_stored_group(state, command, context, self._groups)
        decided = forecast(state, command, context, believe_hooks=believe_hooks, advises=False)
        if isinstance(decided.decision, Rejected):
            return decided.decision
        partitions = partition_assumptions(decided.decision, state, self._assumed)
        return msgspec.structs.replace(decided.decision, assumed=(*decided.assumed, *partitions))


class FollowedSinkGroups:
    """Consumer groups of the sinks that a follower knows (`rest.service.SinkGroups`)."""

    def __init__(self, states: States, context: Context, groups: HasGroups) -> None:
        self._states = states
        self._context = known_policy(context)
        self._groups = groups

    async def group_offsets(self, connector: str) -> GroupOffsets | None:
        """Read the committed offsets of a sink connector's consumer group.

        Raises:
            ExternalActionFailed: a cluster refuses, or cannot be reached.
        """
        return await sink_offsets(await self._state(), connector, self._context, self._groups)

    async def group_progress(self, connector: str) -> GroupProgress | None:
        """Read the committed offsets with the ends of their partitions.

        Raises:
            ExternalActionFailed: a cluster refuses, or cannot be reached.
        """
        return await sink_progress(await self._state(), connector, self._context, self._groups)

    async def _state(self) -> ClusterState:
        return await self._states.state(self._context.profile)


class StoredSinkGroups(FollowedSinkGroups):
    """Consumer groups that an embedded log has: a worker stores them there."""

    def __init__(self, states: States, context: Context, stored: StoredGroups) -> None:
        super().__init__(states, context, stored)
        self._stored = stored

    async def group_offsets(self, connector: str) -> GroupOffsets | None:
        """Read the committed offsets of a sink; None while the log has no groups."""
        return await super().group_offsets(connector) if await self._stored.refresh() else None

    async def group_progress(self, connector: str) -> GroupProgress | None:
        """Read the committed offsets with their ends; None while the log has no groups."""
        return await super().group_progress(connector) if await self._stored.refresh() else None


def stored_groups(opened: OpenedLog) -> StoredGroups | None:
    """Return the reader of the groups in an embedded log; None for other logs."""
    return StoredGroups(opened.log) if opened.form == "sqlite" else None


@asynccontextmanager
async def sink_groups(
    opened: OpenedLog, settings: ReadOnlySettings, states: States, context: Context
) -> AsyncIterator[FollowedSinkGroups | None]:
    """Open the consumer groups of a cluster or an embedded log; None for a dump, which has none.

    Connections to the clusters are opened on the first request.
    """
    if not is_cluster(settings.where):
        stored = stored_groups(opened)
        yield None if stored is None else StoredSinkGroups(states, context, stored)
        return
    # Imported here: a dump or an embedded log needs no Kafka client.
    from controlplane.controller.kafka_actions import cluster_groups  # noqa: PLC0415

    async with cluster_groups(settings.where, settings.configuration) as actions:
        yield FollowedSinkGroups(states, context, actions)


@asynccontextmanager
async def reading_service(
    opened: OpenedLog,
    settings: ReadOnlySettings,
    *,
    live: bool,
    notices: Notices | None = None,
    loggers: Loggers | None = None,
) -> AsyncIterator[Service]:
    """Follow an open log and answer from it; commands are planned, none is executed.

    A `live` follower reads on as the log grows; otherwise it stops at the current end.
    """
    context = settings.context
    follower = Follower(
        opened.log,
        topics=settings.topics,
        exactly_once=context.worker.exactly_once_source,
        live=live,
        limits=settings.limits,
        notices=notices,
    )
    async with follower, sink_groups(opened, settings, follower, context) as groups:
        yield compose(
            follower,
            opened.log,
            context,
            watching=ChangeFeed(follower, opened.log, context.profile),
            planner=ReadOnlyPlanner(follower, context, opened.assumed, stored_groups(opened)),
            groups=groups,
            cluster_id=opened.cluster_id,
            loggers=loggers,
            endpoint_set=settings.endpoint_set,
        )
