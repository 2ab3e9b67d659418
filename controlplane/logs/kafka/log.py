"""Log in the topics of a Kafka cluster; it writes records as a worker does."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from uuid import uuid4

import msgspec

from controlplane.core.entry import Position, TopicPartition
from controlplane.core.order import Ends
from controlplane.event_loop import run_to_end
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin, GroupMembers
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin, TopicRefused
from controlplane.logs.kafka.appends.append_queue import AppendQueue
from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.idempotent_appends import IdempotentAppends
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import CLOSED, ReadLimits, WriteLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.admin_requests import BROKER_DEFAULT, TopicSpec
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.protocol.errors import topic_error
from controlplane.logs.kafka.reads.fetch_loop import OwnBatch
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.kafka.reads.reader import CLEANUP, COMPACT_ONLY, KafkaReader
from controlplane.logs.log import Fenced, LogError, LogNotUsable, LogUnavailable, Record
from controlplane.logs.offset_rules import check_partitions, check_topic, partition_in
from controlplane.settings.security import KafkaSecurity

_MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_BESIDE_ATTEMPTS = 3
"""Maximum attempts of `KafkaLog._append_beside` to append records in a transaction.

A broker aborts a transaction that was open for too long, and fences its writer. The log then claims
the transactional id of these appends again, and repeats the append. After an outage, the second
attempt succeeds. The third is a reserve. If it fails, too, the brokers seem to abort every
transaction.
"""


class TopicDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic to create (KIP-605); `cleanup.policy` is always `compact`."""

    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    optional: Mapping[str, str] = {}
    """Configs that a new topic gets only if the brokers accept them. `configs` overrides them."""

    def spec(self, topic: str, partitions: int) -> TopicSpec:
        """Return a new topic with these settings."""
        configs = {**self.optional, **self.configs, CLEANUP: COMPACT_ONLY}
        return TopicSpec(topic, partitions, self.replication_factor, configs)


class KafkaLogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Identity and limits of a writer on Kafka, and its new topics."""

    transactional_id: str
    """Id of the cluster's only writer: `connect-cluster-<group.id>`, as the leader of the workers
    uses it. A claim fences the predecessor: a Java worker or another process of this program."""
    reading: ReadLimits = ReadLimits()
    writing: WriteLimits = WriteLimits()
    headers_in: frozenset[str] | None = None
    """Topics whose records keep their headers; None: all topics. Workers write no headers into
    Connect's topics. Name only the command topic to write the same records as workers."""
    batch_topics: frozenset[str] = frozenset()
    """Topics whose appends of one record batch need no transaction (`FencedBatches`). All writers
    of a `transactional_id` must name the same topics. Other topics need transactions."""
    new_topics: Mapping[str, TopicDefaults] = {}
    """Settings by topic; a topic without an entry gets the brokers' defaults."""


class KafkaLog(KafkaReader):
    """A `Log` in the topics of a cluster, read as committed.

    Appends with an epoch are transactions under `transactional_id`, or single batches in
    `batch_topics`. Appends without an epoch never fence and are never fenced. An idempotent
    producer appends their records if they fit into one record batch. Otherwise the append is a
    transaction under an id of this object. Appends and reads never create a topic.
    """

    def __init__(
        self, cluster: Cluster, settings: KafkaLogSettings, cluster_id: str | None
    ) -> None:
        """Use `connect`, which also checks that a broker answers."""
        super().__init__(cluster, "read_committed", settings.reading, cluster_id)
        self._settings = settings
        self._read_back = ReadBackReader(cluster, settings.reading)
        self._admin = TopicAdmin(cluster, settings.reading)
        self._claimed = self._queue(settings.transactional_id, settings.batch_topics)
        """Queue of the appends with an epoch."""
        self._beside = self._queue(f"{settings.transactional_id}-beside-{uuid4()}")
        """Queue of the appends without an epoch that need a transaction."""
        self._idempotent = IdempotentAppends(
            cluster, settings.writing, settings.headers_in, self._pass_to_tails
        )
        self._partitions: dict[str, int] = {}
        self._own_ends: dict[str, dict[int, int]] = {}
        """End of the own records by topic and partition, kept until the last stable offset reaches
        it."""
        self._appending: set[asyncio.Task[list[Position]]] = set()
        self._abandoned: set[asyncio.Task[list[Position]]] = set()
        """Appends under way whose caller was cancelled."""

    @classmethod
    async def connect(
        cls, bootstrap: str, settings: KafkaLogSettings, security: KafkaSecurity | None = None
    ) -> "KafkaLog":
        """Open a log in the cluster at `host:port[,host:port…]`. Claims nothing.

        Raises:
            LogUnavailable: no broker can be reached.
            LogNotUsable: the brokers refuse the client.
            SettingsError: a certificate or key cannot be used.
        """
        cluster = Cluster(addresses(bootstrap), security or KafkaSecurity(), settings.reading)
        try:
            layout = await cluster.layout([])
        except BaseException:  # a cancellation, too: the caller gets nothing that it could close
            await cluster.close()
            raise
        return cls(cluster, settings, layout.cluster_id)

    @property
    def has_fast_batches(self) -> bool:
        """True if some topics take single batches: a transaction takes five times as long."""
        return bool(self._settings.batch_topics)

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Last stable offset of each partition, or the end of the own records if that is greater.

        A commit returns before its marker is written. Until then the last stable offset lies before
        the committed records.
        """
        return await self._with_own_records(topics, super().ends)

    async def ends_from_leaders(self, topics: Iterable[str]) -> Ends:
        """Return the same as `ends`, with the cached leaders of `KafkaReader`."""
        return await self._with_own_records(topics, super().ends_from_leaders)

    async def _with_own_records(
        self, topics: Iterable[str], stable_ends: Callable[[list[str]], Awaitable[Ends]]
    ) -> Ends:
        await self._wait_for_decisions()
        topic_names = list(topics)
        own_ends = {topic: dict(self._own_ends.get(topic, {})) for topic in topic_names}
        stable = await stable_ends(topic_names)
        for topic, ends in stable.items():
            self._forget_stable(topic, ends)
        return {
            topic: [max(end, own_ends[topic].get(number, 0)) for number, end in enumerate(ends)]
            for topic, ends in stable.items()
        }

    async def topics(self) -> Mapping[str, int]:
        """Visible topics with their number of partitions; see `KafkaReader.topics`.

        Own ends of a deleted topic are forgotten: a later topic of that name is another one.
        """
        numbers = await super().topics()
        for topic in self._own_ends.keys() - numbers.keys():
            del self._own_ends[topic]
        return numbers

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a compacted topic; no effect if it exists as a worker needs it.

        `partitions` -1: the brokers' default for a new topic. Returns once the topic is writable.

        Raises:
            LogNotUsable: the topic exists with another number of partitions or another clean-up
                policy (`TopicAdmin#verifyTopicCleanupPolicyOnlyCompact`), or the brokers refuse it.
            LogUnavailable: the brokers do not create it in time.
        """
        self._check_open()
        layout = await self._cluster.layout([topic])
        if layout.errors.get(topic) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise topic_error(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        existing = layout.leaders.get(topic, {})
        if existing or partitions != BROKER_DEFAULT:
            check_partitions(topic, partitions, len(existing))
        check_topic(topic, max(partitions, 1))
        if not existing and await self._create(topic, partitions):
            self._own_ends.pop(topic, None)
            return
        for problem in await self.check([topic]):
            raise LogNotUsable(f"{problem}; change it, or name another topic")

    async def _create(self, topic: str, partitions: int) -> bool:
        """Create a topic; return False if it exists."""
        new = self._settings.new_topics.get(topic, TopicDefaults())
        try:
            return bool(await self._admin.create([new.spec(topic, partitions)]))
        except TopicRefused as refusal:
            if not new.optional or refusal.code != ErrorCode.INVALID_CONFIG:
                raise
        new = msgspec.structs.replace(new, optional={})
        return bool(await self._admin.create([new.spec(topic, partitions)]))

    async def group_members(self, group: str) -> GroupMembers:
        """Return the members of a group of this cluster; none if there is no such group.

        Raises:
            LogUnavailable: no coordinator answers in time.
            LogNotUsable: this user may not see the group.
        """
        self._check_open()
        return await GroupAdmin(self._cluster, self._settings.reading).members(group)

    async def check_readable(self, topics: Iterable[str]) -> None:
        """Raise `LogNotUsable` for a topic whose records this user may not read.

        A broker refuses access even to a topic that is empty or does not exist.
        """
        limits = msgspec.structs.replace(self._limits, fetch_wait_ms=0)
        positions = {(topic, 0): 0 for topic in topics}
        request = read_requests.fetch_request(positions, "read_uncommitted", limits)
        for fetched in read_requests.fetched(await self._cluster.ask(request)):
            if fetched.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise topic_error(fetched.partition[0], fetched.code)

    async def claim(self) -> int:
        """Become the only writer: fence every other producer of `transactional_id`.

        Raises:
            Fenced: another writer has claimed the id meanwhile.
            LogUnavailable: the brokers do not answer in time.
            LogNotUsable: this user may not use the id.
        """
        self._check_open()
        return await self._claimed.claim()

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all records, or none; see `Log.append`."""
        self._check_open()
        if not records:
            return []
        await self._check_partitions(records)
        try:
            if epoch is not None:
                return await self._claimed.append(records, epoch)
            # A separate task: after a cancelled call it still notes the new ends.
            task = asyncio.create_task(self._append_beside(records))
            self._appending.add(task)
            task.add_done_callback(self._appended)
            return await self._result_of(task)
        except LogError:
            # The cache may be the reason: a topic may have been deleted or recreated.
            self._partitions.clear()
            raise

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now. Appends nothing."""
        self._check_open()
        await self._cluster.layout([])
        if epoch is not None:
            await self._claimed.check(epoch)

    async def close(self) -> None:
        """Wait up to `close_timeout_ms` for appends under way, then close all connections.

        A cancelled call does the same: nobody else could close the connections.
        """
        await run_to_end(self._close())

    async def _close(self) -> None:
        await asyncio.gather(self._claimed.close(), self._beside.close(), self._idempotent.close())
        if self._appending:
            await asyncio.wait([*self._appending])
        await super().close()

    def _queue(
        self, transactional_id: str, batch_topics: frozenset[str] = frozenset()
    ) -> AppendQueue:
        settings = self._settings
        writing = settings.writing
        batches = FencedBatches(
            self._cluster, writing, settings.headers_in, batch_topics, self._pass_to_tails
        )
        transactions = Transactions(
            self._cluster, transactional_id, writing, batches, self._read_back
        )
        return AppendQueue(transactions, writing, self._note_ends)

    def _pass_to_tails(self, partition: TopicPartition, offset: int, octets: bytes) -> None:
        """Pass an appended batch to the tails, which need not fetch it; see `FetchLoop.take`."""
        for fetching in self._fetch_loops.values():
            fetching.take(OwnBatch(partition, offset, octets))

    def _note_ends(self, positions: Sequence[Position]) -> None:
        for topic, partition, offset in positions:
            own_ends = self._own_ends.setdefault(topic, {})
            own_ends[partition] = max(own_ends.get(partition, 0), offset + 1)

    def _forget_stable(self, topic: str, stable_ends: Sequence[int]) -> None:
        """Forget own ends that a last stable offset has passed.

        If the topic is deleted and created again, they would lie past its end for ever.
        """
        own_ends = self._own_ends.get(topic, {})
        for number, end in enumerate(stable_ends):
            if number in own_ends and own_ends[number] <= end:
                del own_ends[number]

    async def _append_beside(self, records: Sequence[Record]) -> list[Position]:
        """Append without an epoch; claim the id of `_beside` again if a time-out has fenced it."""
        if len({(record.topic, record.partition) for record in records}) == 1:
            positions = await self._idempotent.append(records)
            if positions is not None:
                self._note_ends(positions)
                return positions
        for _ in range(_BESIDE_ATTEMPTS):
            epoch = self._beside.epoch or await self._beside.claim()
            try:
                return await self._beside.append(records, epoch)
            except Fenced:
                if self._beside.epoch == epoch:
                    await self._beside.claim()
        raise LogUnavailable(
            "the brokers abort each transaction before its commit: look into their logs"
        )

    async def _result_of(self, task: "asyncio.Task[list[Position]]") -> list[Position]:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._abandoned.add(task)
            raise

    def _appended(self, task: "asyncio.Task[list[Position]]") -> None:
        self._appending.discard(task)
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here: the caller may have gone

    async def _check_partitions(self, records: Iterable[Record]) -> None:
        """Raise `LogNotUsable` unless each topic and partition exists."""
        topic_partitions = {(record.topic, record.partition) for record in records}
        unknown = {
            topic
            for topic, partition in topic_partitions
            if topic not in self._partitions or partition >= self._partitions[topic]
        }
        if unknown:
            layout = await self._cluster.layout(unknown)
            for topic in unknown:
                if topic not in layout.leaders:
                    raise topic_error(topic, layout.errors.get(topic, _MISSING))
                self._partitions[topic] = len(layout.leaders[topic])
        for topic, partition in topic_partitions:
            partition_in(range(self._partitions[topic]), topic, partition)

    async def _wait_for_decisions(self) -> None:
        """Wait until every append whose caller has gone is decided.

        Raises:
            LogUnavailable: one is still undecided after `append_timeout_ms`.
        """
        if self._abandoned:
            timeout_s = self._settings.writing.append_timeout_ms / 1_000
            _, unknown = await asyncio.wait([*self._abandoned], timeout=timeout_s)
            if unknown:
                raise LogUnavailable("the outcome of an append is not known yet: try again")
        await self._claimed.decided()
        await self._beside.decided()
        await self._idempotent.decided()

    def _check_open(self) -> None:
        if self._cluster.closed:
            raise LogUnavailable(CLOSED)
