"""Offsets topics of sources whose producers write to another cluster than the worker's (KIP-618).

Connections are opened per request, as a worker does.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from controlplane.core.fold import Fold
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import OffsetState, Topics
from controlplane.core.topics.partitioner import partition_of
from controlplane.event_loop import now_ms
from controlplane.logs.kafka.admin.client_topics import ClientTopics
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.connector_clusters import remote_access
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.new_topics import new_topic_defaults
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogError, LogUnavailable, Record
from controlplane.projection.loader import load_topics
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.prefixes import READER, WRITER

_STABLE_POLL_S = 0.05
"""Pause between two looks at open transactions."""


class RemoteOffsetTopics:
    """Reads and writes offsets topics on the clusters that the configs of sources select.

    `clients` are the client settings of a connector's config (`WriteOffsets.clients`). Errors are
    `LogError`; a setting that is invalid is a `SettingsError`.
    """

    def __init__(self, bootstrap: str, configuration: Configuration) -> None:
        """Open no connection. If `bootstrap` is empty, the setting `bootstrap.servers` is used."""
        self._bootstrap = bootstrap
        self._configuration = configuration
        self.reading = configuration.settings(ReadLimits, READER)
        self._writing = configuration.settings(WriteLimits, WRITER)

    async def read(
        self,
        topic: str,
        clients: Mapping[str, str],
        profile: Profile,
        *,
        awaits_transactions: bool = False,
    ) -> OffsetState:
        """Return the committed offsets in a topic; empty if there is no such topic.

        `awaits_transactions`: wait until the transactions that the topic has now are decided.
        """
        async with self.opened("consumer", clients) as cluster:
            if await ClientTopics(cluster, 0).partitions(topic) is None:
                return OffsetState()
            reader = KafkaReader(cluster, "read_committed", self.reading, None)
            if awaits_transactions:
                stop = await self._decided_end(cluster, reader, topic)
            else:
                stop = await reader.ends([topic])
            names = Topics(config="", offsets=topic, status="", commands="")
            fold = Fold(profile, topics=names, exactly_once=True)
            await load_topics(reader, fold, [topic], stop)
        return fold.snapshot().offsets[topic]

    async def create(self, topic: str, clients: Mapping[str, str]) -> None:
        """Create a missing topic with the settings of the worker's offsets topic."""
        async with self.opened("admin", clients) as cluster:
            if await ClientTopics(cluster, 0).partitions(topic) is not None:
                return
            worker = self._configuration.settings(WorkerSettings)
            defaults = new_topic_defaults(self._configuration)[worker.topics.offsets]
            spec = defaults.spec(topic, worker.offset_storage_partitions)
            await TopicAdmin(cluster, self.reading).create([spec])

    async def write(
        self,
        topic: str,
        drafts: Sequence[Draft],
        clients: Mapping[str, str],
        transactional_id: str,
    ) -> None:
        """Append offsets, in one transaction if an id is given; durable when this returns."""
        await self.create(topic, clients)
        async with self.opened("producer", clients) as cluster:
            partitions = await ClientTopics(cluster, 0).partitions(topic)
            if partitions is None:
                raise LogUnavailable(f"topic {topic} is not known to the brokers yet: try again")
            at_ms = now_ms()
            records = [
                Record(topic, partition_of(draft.key, partitions), at_ms, draft.key, draft.value)
                for draft in drafts
            ]
            append = self._transact if transactional_id else self._append
            await append(cluster, records, transactional_id)

    async def _transact(
        self, cluster: Cluster, records: Sequence[Record], transactional_id: str
    ) -> None:
        batches = FencedBatches(cluster, self._writing)
        read_back = ReadBackReader(cluster, self.reading)
        transactions = Transactions(cluster, transactional_id, self._writing, batches, read_back)
        try:
            await transactions.claim()
            await transactions.append(records)
        finally:
            await transactions.close()

    async def _append(self, cluster: Cluster, records: Sequence[Record], _: str) -> None:
        appends = IndependentAppends(cluster, self._writing)
        try:
            async with asyncio.timeout(self._writing.append_timeout_ms / 1_000):
                outcomes = await appends.append(records)
        except TimeoutError:
            raise LogUnavailable("the brokers do not acknowledge the offsets in time") from None
        finally:
            await appends.close()
        for outcome in outcomes:
            if isinstance(outcome, LogError):
                raise outcome

    async def _decided_end(self, cluster: Cluster, committed: KafkaReader, topic: str) -> Ends:
        """Return the present ends as soon as no earlier transaction is open.

        Raises:
            LogUnavailable: one is open for longer than `reader.patience.ms`.
        """
        written = KafkaReader(cluster, "read_uncommitted", self.reading, None)
        ends = await written.ends([topic])
        patience_s = self.reading.patience_ms / 1_000
        try:
            async with asyncio.timeout(patience_s):
                # No event tells that a transaction has ended.
                while not _reached(await committed.ends([topic]), ends, topic):  # noqa: ASYNC110
                    await asyncio.sleep(_STABLE_POLL_S)
        except TimeoutError:
            text = f"a transaction in topic {topic} has been open for more than {patience_s:g} s"
            raise LogUnavailable(text) from None
        return ends

    @asynccontextmanager
    async def opened(self, client: str, clients: Mapping[str, str]) -> AsyncIterator[Cluster]:
        """Open the cluster of the producer with the settings of one kind of client."""
        access = await asyncio.to_thread(
            remote_access, self._bootstrap, self._configuration, client, clients
        )
        cluster = await asyncio.to_thread(Cluster, *access, self.reading)
        try:
            yield cluster
        finally:
            await cluster.close()


def _reached(stable: Ends, ends: Ends, topic: str) -> bool:
    """True if the last stable offset of each partition has reached the end.

    The topic may have got more partitions since the ends were read.
    """
    return all(at >= end for at, end in zip(stable[topic], ends[topic], strict=False))
