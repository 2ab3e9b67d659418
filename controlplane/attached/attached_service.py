"""Service of an attached cluster: reads from its topics, commands through its workers."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import msgspec

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.cluster_check import (
    IdentifiedCluster,
    admission,
    check_brokers,
    check_partitions,
    check_topics,
)
from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.connect_client import ConnectClient, ConnectRequest
from controlplane.attached.execution import AttachedSurroundings
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.group_check import check_group
from controlplane.attached.planner import ClusterPlanner
from controlplane.attached.release_watch import ReleaseWatch
from controlplane.core.plugins import CatalogueError, Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import Loggers
from controlplane.logs.log import Log
from controlplane.logs.log_factory import OpenedLog
from controlplane.plugins import catalogued
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.read_only.read_only_service import ReadOnlySettings, sink_groups
from controlplane.rest.service import Service, compose

if TYPE_CHECKING:
    from controlplane.logs.kafka.reads.reader import KafkaReader


@asynccontextmanager
async def attached_service(  # noqa: PLR0913 - parts, by name
    opened: OpenedLog,
    settings: ReadOnlySettings,
    *,
    client: ConnectClient,
    cluster: IdentifiedCluster,
    trail_log: Log,
    around: AttachedSurroundings,
    loggers: Loggers | None = None,
) -> AsyncIterator[Service]:
    """Follow the topics of a cluster, and send commands to its workers.

    Raises:
        LogNotUsable: workers, brokers, topics, group and trail are not of one cluster.
        LogUnavailable: the log or the trail cannot be read.
    """
    check_brokers(cluster, opened.cluster_id)
    config_topic = settings.topics.config
    check_partitions(cluster, config_topic, (await opened.log.topics()).get(config_topic, 1))
    client.admission = admission(client, cluster, (worker.url for worker in cluster.workers))
    plugins = await cluster_plugins(client)
    context = msgspec.structs.replace(settings.context, profile=cluster.profile, plugins=plugins)
    follower = Follower(
        opened.log,
        topics=settings.topics,
        exactly_once=context.worker.exactly_once_source,
        limits=settings.limits,
        notices=around.notices,
    )
    follow_up = LogFollowUp(follower, opened.log, cluster.profile, around.limits)
    states = follow_up.states
    async with follower, sink_groups(opened, settings, states, context) as groups:
        await follower.state(cluster.profile)
        with follower.pinned(cluster.profile), follow_up.open():
            compared = await check_topics(client, cluster, follower, around.limits)
            await _check_group(opened, settings, cluster, around.note)
            watch = ReleaseWatch(cluster, around.notices)
            client.admission = admission(client, cluster, compared, follower, watch.update)
            identity = ClusterIdentity(opened.cluster_id, config_topic)
            trail = await Trail.open(trail_log, settings.topics.commands, identity, around.now_ms())
            planner = ClusterPlanner(context, client, cluster.origin)
            async with (
                AttachedPlane.open(client, planner, follow_up, trail, around) as plane,
                watch.running(client, around.limits.release_check_ms),
            ):
                yield compose(
                    states,
                    opened.log,
                    context,
                    watching=ChangeFeed(follower, opened.log, cluster.profile),
                    commands=plane,
                    groups=groups,
                    cluster_id=opened.cluster_id,
                    loggers=loggers,
                    endpoint_set=settings.endpoint_set,
                    dialect=root_dialect(cluster.profile),
                    dialect_origin=cluster.origin,
                    workers=plane,
                    trail=trail.log,
                )


async def _check_group(
    opened: OpenedLog,
    settings: ReadOnlySettings,
    cluster: IdentifiedCluster,
    note: Callable[[str], object],
) -> None:
    """Check the Connect group of the workers, if the log is in Kafka; note what is not checked.

    Raises:
        LogNotUsable: the group is not that of the settings, or of the config topic.
    """
    if opened.form == "kafka":
        groups = cast("KafkaReader", opened.log).groups
        group_id = named_group(settings)
        config_topic = settings.topics.config
        await check_group(groups, cluster.workers, config_topic, group_id, note)


def named_group(settings: ReadOnlySettings) -> str | None:
    """Group of the cluster's workers that the settings name; None: they name none."""
    is_named = "group.id" in settings.configuration.values
    return settings.context.worker.group_id if is_named else None


def root_dialect(profile: Profile) -> Profile:
    """Profile for paths that name no release: the cluster's, with KIP-980 and KIP-995."""
    return msgspec.structs.replace(profile, creates_in_state=True, creates_with_offsets=True)


async def cluster_plugins(client: ConnectClient) -> Plugins:
    """Plugins that the cluster lists; the workers judge every other class.

    Raises:
        NoWorkerAnswers: no worker has answered.
    """
    answer = await client.send(ConnectRequest("GET", "/connector-plugins?connectorsOnly=false"))
    try:
        return catalogued(answer.body if answer.is_success else b"[]", trusting=True)
    except CatalogueError:
        return catalogued(trusting=True)
