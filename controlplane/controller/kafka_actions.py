"""Actions outside of the logs on real clusters: consumer groups of sinks, producers of sources."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from msgspec import UNSET

from controlplane.controller.external import STILL_ACTIVE, ExternalActionFailed
from controlplane.controller.remote_offsets import RemoteOffsetTopics
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    AskRemoteOffsets,
    DeleteGroup,
    FenceProducers,
    GroupOffsets,
    RestartInstances,
    WriteOffsets,
)
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import OffsetState
from controlplane.core.views.group_progress import LogEnd
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin, GroupRefusal
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.log import LogError
from controlplane.logs.names import brokers_of
from controlplane.settings import Configuration
from controlplane.settings.errors import SettingsError


class KafkaActions:
    """Actions on the clusters that a worker of these settings would use (`ExternalActions`).

    Every action can be repeated. Restarts do nothing here: they concern no cluster, and a worker
    performs them itself.
    """

    def __init__(
        self, clusters: ConnectorClusters, remote: RemoteOffsetTopics | None = None
    ) -> None:
        """`remote`: offsets of sources on other clusters; None: they are not read or written."""
        self._clusters = clusters
        self._remote = remote

    async def perform(self, action: AnyAction) -> None:
        """Perform an action; repeating it has no further effect.

        Raises:
            ExternalActionFailed: a cluster refuses, or cannot be reached.
        """
        match action:
            case AlterGroup():
                await self._alter(action)
            case DeleteGroup():
                await self._delete(action)
            case FenceProducers():
                await self._fence(action)
            case RestartInstances():
                pass
            case WriteOffsets():
                await self._write(action)

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group.

        Raises:
            ExternalActionFailed: its offsets cannot be read.
        """
        async with self._groups(admin) as groups:
            committed = await groups.committed(group)
        return tuple((*partition, offset) for partition, offset in committed.items())

    @property
    def reads_remote(self) -> bool:
        """True if offsets of sources on other clusters are read and written."""
        return self._remote is not None

    async def remote_offsets(self, question: AskRemoteOffsets, profile: Profile) -> OffsetState:
        """Offsets of a source on the cluster of its producer; empty if the topic is missing.

        Raises:
            ExternalActionFailed: they cannot be read.
        """
        assert self._remote is not None, "see `reads_remote`"
        topic, clients = question.topic, _texts(question.clients)
        try:
            # Markers are written after the commit, so the last transaction may look open.
            return await self._remote.read(topic, clients, profile, awaits_transactions=True)
        except (LogError, SettingsError) as failure:
            raise ExternalActionFailed("", str(failure)) from failure

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """End of each partition that a group reads, or the reason why it is unknown.

        Raises:
            ExternalActionFailed: no broker answers.
        """
        async with self._groups(admin) as groups:
            return await groups.ends(partitions)

    async def _alter(self, action: AlterGroup) -> None:
        answer = f"Failed to alter consumer group offsets for connector {action.connector}"
        put = {(topic, partition): offset for topic, partition, offset in action.put}
        async with self._groups(action.admin, answer, action.connector, "alter") as groups:
            # Commits come first: they create a missing group, and a missing group refuses removals.
            await groups.commit(action.group, put)
            await groups.remove(action.group, action.remove)

    async def _delete(self, action: DeleteGroup) -> None:
        answer = f"Failed to reset consumer group offsets for connector {action.connector}"
        async with self._groups(action.admin, answer, action.connector, "reset") as groups:
            await groups.delete(action.group)

    async def _write(self, action: WriteOffsets) -> None:
        answer = f"Failed to write the offsets of source connector {action.connector}"
        if self._remote is None:
            raise ExternalActionFailed(answer, "this control plane writes to one cluster only")
        clients = _texts(action.clients)
        try:
            await self._remote.write(action.topic, action.records, clients, action.transactional_id)
        except (LogError, SettingsError) as failure:
            raise ExternalActionFailed(answer, str(failure)) from failure

    async def _fence(self, action: FenceProducers) -> None:
        answer = "Failed to perform zombie fencing for source connector prior to modifying offsets"
        async with self._fencing_groups(action, answer) as groups:
            for transactional_id in action.transactional_ids:
                await groups.fence(transactional_id)

    @asynccontextmanager
    async def _fencing_groups(
        self, action: FenceProducers, answer: str
    ) -> AsyncIterator[GroupAdmin]:
        """Open the cluster of the producers to fence."""
        if action.clients is UNSET or self._remote is None:
            async with self._groups(action.admin, answer) as groups:
                yield groups
            return
        try:
            async with self._remote.opened("admin", _texts(action.clients)) as cluster:
                yield GroupAdmin(cluster, self._remote.reading)
        except (LogError, SettingsError) as failure:
            raise ExternalActionFailed(answer, str(failure)) from failure

    @asynccontextmanager
    async def _groups(
        self, admin: AdminOverrides, answer: str = "", connector: str = "", verb: str = ""
    ) -> AsyncIterator[GroupAdmin]:
        """Open the groups of a connector's cluster, and translate failures.

        Raises:
            ExternalActionFailed: with `answer` as the worker's answer, and the reason, which a
                worker only logs. Groups with members get `STILL_ACTIVE`.
        """
        settings = {} if admin is UNSET else admin
        try:
            async with self._clusters.groups(_texts(settings)) as groups:
                yield groups
        except GroupRefusal as refusal:
            if verb and refusal.is_active:
                active = STILL_ACTIVE.format(verb=verb, connector=connector)
                raise ExternalActionFailed(active) from refusal
            raise ExternalActionFailed(answer, str(refusal)) from refusal
        except (LogError, SettingsError) as failure:
            raise ExternalActionFailed(answer, str(failure)) from failure


@asynccontextmanager
async def cluster_groups(where: str, configuration: Configuration) -> AsyncIterator[KafkaActions]:
    """Open the consumer groups of the cluster at a `kafka://` address, for reads.

    Connections to the clusters are opened on the first request.
    """
    clusters = ConnectorClusters(brokers_of(where), configuration)
    try:
        yield KafkaActions(clusters)
    finally:
        await clusters.close()


def _texts(settings: Properties) -> dict[str, str]:
    """Return the client settings that are texts; a config may have nulls."""
    return {key: value for key, value in settings.items() if isinstance(value, str)}
