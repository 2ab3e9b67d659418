"""Partition counts of topics for the clients of connectors; brokers may create missing topics."""

import asyncio
from collections.abc import Mapping

from aiokafka.protocol.metadata import MetadataRequest

from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.protocol.errors import topic_error
from controlplane.logs.log import LogUnavailable

_AUTO_CREATE = True


class ClientTopics:
    """Cache of partition counts, refreshed after `max_age_ms`.

    `auto_create`: the request lets brokers create a missing topic, if they are configured so
    (`auto.create.topics.enable`), as Kafka's clients do.
    """

    def __init__(self, cluster: Cluster, max_age_ms: int) -> None:
        self._cluster = cluster
        self._max_age_s = max_age_ms / 1_000
        self._partitions: dict[str, int] = {}
        self._counted_at: dict[str, float] = {}

    async def partitions(self, topic: str, *, auto_create: bool = False) -> int | None:
        """Return the number of partitions of a topic; None: there is no such topic.

        Raises:
            LogUnavailable: no broker answers, and the count is not cached.
            LogNotUsable: this user may not see the topic, or no topic can have the name.
        """
        now = asyncio.get_running_loop().time()
        count = self._partitions.get(topic)
        if count is not None and now - self._counted_at[topic] < self._max_age_s:
            return count
        try:
            count = await self._request_count(topic, auto_create=auto_create)
        except LogUnavailable:
            if count is None:
                raise
            return count
        if count is not None:
            self._partitions[topic], self._counted_at[topic] = count, now
        return count

    async def _request_count(self, topic: str, *, auto_create: bool) -> int | None:
        layout = await self._cluster.layout([topic])
        if auto_create and layout.errors.get(topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._cluster.ask(MetadataRequest([topic], _AUTO_CREATE))
            return None
        code = layout.errors.get(topic, 0)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if code:
            raise topic_error(topic, code)
        leaders: Mapping[int, int] = layout.leaders.get(topic, {})
        if not leaders:
            raise LogUnavailable(f"the partitions of topic {topic} are unknown just now")
        return len(leaders)
