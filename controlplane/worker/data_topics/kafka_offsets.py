"""Offsets of sources in topics on brokers: the worker's, or those of the connector's producer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from controlplane.controller.remote_offsets import RemoteOffsetTopics
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.state import OffsetState
from controlplane.core.topics.remote_offsets import remote_topic
from controlplane.core.topics.source_partitions import is_remote
from controlplane.event_loop import sliced
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.new_topics import new_topic_defaults
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import Fenced, LogError
from controlplane.plane import ControlPlane
from controlplane.settings import Configuration
from controlplane.worker.data_topics.clients import OffsetWriter, ProducerFailure, ProducerFenced
from controlplane.worker.data_topics.kafka_connections import ClientConnection
from controlplane.worker.data_topics.kafka_producer import RecordPlacer, appended
from controlplane.worker.data_topics.outage_retry import until_available


class BrokerOffsets:
    """Offsets topics on the worker's cluster, and on other ones (`OffsetTopics`)."""

    on_brokers = True

    def __init__(
        self,
        own: ClientConnection,
        configuration: Configuration,
        new_writer: Callable[[], "BrokerOffsetWriter"],
        remote: RemoteOffsetTopics,
        plane: ControlPlane,
    ) -> None:
        """`own`: the connections of the worker itself; `new_writer` makes a task's producer."""
        self._remote = remote
        self._plane = plane
        self._own = own
        self._configuration = configuration
        self._new_writer = new_writer
        self._high_watermarks = KafkaReader(own.cluster, "read_uncommitted", remote.reading, None)

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[OffsetWriter]:
        """Open a producer of its own: a topic that cannot be written delays only this task."""
        writer = self._new_writer()
        try:
            yield writer
        finally:
            await writer.close()

    async def create(self, topic: str, like: str) -> None:
        """Create a connector's own topic with the settings of the worker's topic."""
        own = self._own
        if await own.topics.partitions(topic) is not None:
            return
        defaults = new_topic_defaults(self._configuration)[like]
        partitions = await own.topics.partitions(like)
        assert partitions is not None, "the plane has created it"
        admin = TopicAdmin(own.cluster, self._remote.reading)
        await admin.create([defaults.spec(topic, partitions)])

    def remote_topic(self, config: Mapping[str, str]) -> str | None:
        """Return the topic on the cluster of a connector's producer.

        None: the producer uses the worker's cluster.
        """
        return remote_topic(self._plane.state, config, self._plane.context.worker)

    async def read_remote(
        self, topic: str, config: Mapping[str, str], *, awaits_transactions: bool
    ) -> OffsetState:
        """Create a missing topic there, and return its offsets."""
        await self._remote.create(topic, config)
        profile = self._plane.context.profile
        return await self._remote.read(
            topic, config, profile, awaits_transactions=awaits_transactions
        )

    async def ends(self, topics: Sequence[str]) -> Ends:
        """Return the high watermarks: the records of open transactions lie before them."""
        return await self._high_watermarks.ends(topics)


class RoutedOffsetWriter:
    """Writes offsets to the worker's cluster, and to a connector's remote topic (`OffsetWriter`).

    The topic's name shows the cluster of a draft. All drafts of a call belong to one cluster: the
    caller decides which cluster gets its offsets first.
    """

    def __init__(self, home: OffsetWriter, remote: OffsetWriter) -> None:
        self._home = home
        self._remote = remote

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns."""
        await self._home.write_offsets([draft for draft in offsets if not is_remote(draft.topic)])
        await self._remote.write_offsets([draft for draft in offsets if is_remote(draft.topic)])


class BrokerOffsetWriter:
    """Writes the offsets of one task to topics on brokers (`OffsetWriter`)."""

    def __init__(
        self,
        appends: IndependentAppends,
        placer: RecordPlacer,
        check_claim: Callable[[], Awaitable[None]],
    ) -> None:
        """`check_claim` raises `Fenced` if another process has claimed the plane's log."""
        self._appends = appends
        self._placer = placer
        self._check_claim = check_claim
        self._turn = asyncio.Lock()

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns. Brokers that are away are waited for.

        No broker fences these appends. So the claim is checked first: a process that was replaced
        must not replace newer offsets.

        Raises:
            ProducerFailure: the brokers refuse them.
            ProducerFenced: another process has claimed the control plane's log.
        """
        if not offsets:
            return
        async with self._turn:
            await self._check_unclaimed()
            records = [await self._placer.placed_offset(draft) async for draft in sliced(offsets)]
            try:
                async with aclosing(appended(self._appends, records)) as outcomes:
                    async for _, outcome in outcomes:
                        if isinstance(outcome, LogError):
                            raise outcome
            except LogError as failure:
                raise ProducerFailure(str(failure)) from failure

    async def close(self) -> None:
        """Close the connections."""
        await self._appends.close()

    async def _check_unclaimed(self) -> None:
        try:
            await until_available(self._check_claim)
        except Fenced as failure:
            raise ProducerFenced(str(failure)) from failure
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure
