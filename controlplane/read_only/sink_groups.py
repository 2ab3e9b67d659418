"""Consumer groups of sinks, for a service that only reads a cluster."""

from controlplane.controller.external import known_policy, sink_offsets, sink_progress
from controlplane.controller.kafka_actions import KafkaActions
from controlplane.core.context import Context
from controlplane.core.plan import GroupOffsets
from controlplane.core.records import Properties
from controlplane.core.views.group_progress import GroupProgress
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.names import brokers_of
from controlplane.projection.follower import Follower
from controlplane.settings import Configuration


class FollowedSinkGroups:
    """Consumer groups of the sinks that a follower knows (`rest.service.SinkGroups`)."""

    def __init__(
        self, where: str, configuration: Configuration, follower: Follower, context: Context
    ) -> None:
        """`where`: the cluster, as `kafka://…`. Connections are opened on the first request."""
        self._clusters = ConnectorClusters(brokers_of(where), configuration)
        self._actions = KafkaActions(self._clusters)
        self._follower = follower
        self._context = known_policy(context)

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """Read the committed offsets of a sink connector's consumer group.

        Raises:
            ExternalActionFailed: a cluster refuses, or cannot be reached.
        """
        config = await self._config(connector)
        return await sink_offsets(connector, config, self._context, self._actions)

    async def group_progress(self, connector: str) -> GroupProgress:
        """Read the committed offsets with the ends of their partitions.

        Raises:
            ExternalActionFailed: a cluster refuses, or cannot be reached.
        """
        config = await self._config(connector)
        return await sink_progress(connector, config, self._context, self._actions)

    async def close(self) -> None:
        """Close the connections to all clusters whose groups were read."""
        await self._clusters.close()

    async def _config(self, connector: str) -> Properties:
        state = await self._follower.state(self._context.profile)
        return state.config.connectors.get(connector, {})
