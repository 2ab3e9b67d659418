"""Reader of the topics of a live Kafka cluster."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TypeVar

from controlplane.core.entry import Batch, TopicPartition
from controlplane.core.order import Ends
from controlplane.event_loop import backoff
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.admin_requests import topic_configs, topic_configs_request
from controlplane.logs.kafka.protocol.errors import OFFSET_OUT_OF_RANGE, NoLeader, topic_error
from controlplane.logs.kafka.protocol.metadata import ClusterLayout
from controlplane.logs.kafka.protocol.read_requests import Isolation
from controlplane.logs.kafka.reads.fetch_loop import FetchLoop
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable
from controlplane.settings.security import KafkaSecurity

T = TypeVar("T")

LAYOUT_S = 1.0
"""Lifetime of the leaders that `KafkaReader.ends_from_leaders` caches, in seconds."""

CLEANUP = "cleanup.policy"
COMPACT_ONLY = "compact"
"""The only `cleanup.policy` with which a worker of 2.6 or later starts (KAFKA-9216)."""


class KafkaReader:
    """A `ReadableLog` over a Kafka cluster. It never writes, joins no group, creates no topic.

    With `isolation="read_committed"` the end of a partition is its last stable offset. Records of
    an open transaction appear once it is decided, and records of aborted transactions are marked.
    Use this isolation for data that is stored. `isolation="read_uncommitted"` reads to the high
    watermark, like a worker without exactly-once support. Then `read` marks aborted records up to
    the last stable offset. `tail` marks none, because their transactions may still be open.

    `starts` are the first offsets of the log, even if compaction has removed their records.
    """

    def __init__(
        self, cluster: Cluster, isolation: Isolation, limits: ReadLimits, cluster_id: str | None
    ) -> None:
        """Use `open`, which also checks that a broker answers."""
        self.cluster_id = cluster_id
        self._cluster = cluster
        self._isolation: Isolation = isolation
        self._limits = limits
        self._fetch_loops: dict[Cluster, FetchLoop] = {}
        self._layouts: dict[frozenset[str], ClusterLayout] = {}
        """Leaders by sets of topics, for `ends_from_leaders`, until `_layouts_end`."""
        self._layouts_end = 0.0

    @classmethod
    async def open(
        cls,
        bootstrap: str,
        *,
        security: KafkaSecurity | None = None,
        isolation: Isolation = "read_committed",
        limits: ReadLimits | None = None,
    ) -> "KafkaReader":
        """Open a reader of the cluster at `host:port[,host:port…]`.

        Raises:
            LogUnavailable: no broker can be reached.
            LogNotUsable: the brokers refuse the client.
            SettingsError: a certificate or key cannot be used.
        """
        limits = limits or ReadLimits()
        cluster = Cluster(addresses(bootstrap), security or KafkaSecurity(), limits)
        try:
            layout = await cluster.layout([])
        except BaseException:  # a cancellation, too: the caller gets nothing that it could close
            await cluster.close()
            raise
        return cls(cluster, isolation, limits, layout.cluster_id)

    @property
    def interruption(self) -> LogError | None:
        """Failure that a tail or read is retrying at the moment; None without one."""
        troubles = (fetching.trouble for fetching in self._fetch_loops.values())
        return next((trouble for trouble in troubles if trouble is not None), None)

    @property
    def groups(self) -> GroupAdmin:
        """Groups of the cluster."""
        return GroupAdmin(self._cluster, self._limits)

    async def topics(self) -> Mapping[str, int]:
        """Visible topics with their number of partitions, without internal topics of brokers."""
        layout = await self._cluster.layout(None)
        return {topic: len(leaders) for topic, leaders in layout.leaders.items()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """First offset of each partition; compaction may have removed its record."""
        return await self._offsets(topics, read_requests.EARLIEST, "read_uncommitted")

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Last stable offset or high watermark of each partition (see `isolation`)."""
        return await self._offsets(topics, read_requests.LATEST, self._isolation)

    async def ends_from_leaders(self, topics: Iterable[str]) -> Ends:
        """Return the present ends from leaders that were cached for at most `LAYOUT_S`.

        This saves one of two requests. If a broker is no longer the leader, it refuses the request,
        and the leaders are looked up again. Partitions that were added meanwhile are missing.
        """
        now, topic_set = asyncio.get_running_loop().time(), frozenset(topics)
        if now > self._layouts_end:
            self._layouts.clear()
            self._layouts_end = now + LAYOUT_S
        try:
            layout = self._layouts.get(topic_set) or await self._cluster.leaders(topic_set)
            ends = await self._offsets_at(layout, read_requests.LATEST, self._isolation)
        except LogError:
            self._layouts.clear()
            return await self.ends(topic_set)
        self._layouts[topic_set] = layout
        return ends

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncGenerator[Batch, None]:
        """Yield all batches from `start` to `stop`, limited by the current end."""
        topics = list(dict.fromkeys(topics))
        limits = _flat(stop or {})
        stops = {
            at: min(end, limits.get(at, end)) for at, end in _flat(await self.ends(topics)).items()
        }
        starts = await self._positions(topics, start or {})
        # A partition that was added after the first request has no stop.
        positions = {at: offset for at, offset in starts.items() if at in stops}
        for isolation, limit in await self._passes(topics, stops):
            fetching = FetchLoop(positions, limit, isolation, self._limits)
            async with aclosing(self._stream(fetching, self._limits.patience_ms)) as batches:
                async for batch in batches:
                    yield batch
            positions = fetching.positions

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncGenerator[Batch, None]:
        """Yield batches from `start` on, without end; waits out outages (see `interruption`)."""
        positions = await self._positions(list(dict.fromkeys(topics)), start)
        fetching = FetchLoop(positions, None, self._isolation, self._limits, _flat(start))
        async with aclosing(self._stream(fetching, None)) as batches:
            async for batch in batches:
                yield batch

    async def check(self, topics: Iterable[str]) -> list[str]:
        """Return a sentence for each topic that is missing, or that a worker refuses.

        A worker of 2.6 or later refuses to start with another `cleanup.policy` than `compact`. Like
        a worker, this method ignores a policy that this user may not see.
        """
        topic_names = list(topics)
        return await self._with_leaders(lambda: self._check(topic_names))

    async def _check(self, topic_names: list[str]) -> list[str]:
        layout = await self._cluster.layout(topic_names)
        missing = [topic_error(topic, code) for topic, code in layout.errors.items()]
        for trouble in missing:
            if isinstance(trouble, NoLeader):
                raise trouble
        request = topic_configs_request(layout.leaders, [CLEANUP])
        return [str(trouble) for trouble in missing] + [
            f"topic {answer.topic} has {CLEANUP}={policy}: a worker wants {COMPACT_ONLY} alone"
            for answer, configs in topic_configs(await self._cluster.ask(request))
            if (policy := configs.get(CLEANUP)) not in {None, COMPACT_ONLY}
        ]

    async def close(self) -> None:
        """Close all connections; running reads and tails raise `LogUnavailable`."""
        await asyncio.gather(*(cluster.close() for cluster in (self._cluster, *self._fetch_loops)))

    async def _stream(
        self, fetching: FetchLoop, patience_ms: int | None
    ) -> AsyncGenerator[Batch, None]:
        """Yield the batches of a fetch loop over separate connections; retry after failures."""
        cluster = self._cluster.twin()
        self._fetch_loops[cluster] = fetching
        retry = Retry(self._limits, patience_ms)
        try:
            while True:
                try:
                    async with aclosing(fetching.run(cluster)) as batches:
                        async for batch in batches:
                            yield batch
                except LogError as failure:
                    # `close` was called: a retry could not succeed.
                    if cluster.closed:
                        raise
                    fetching.trouble = failure
                    await retry.after(failure, fetching.answers)
                else:
                    return
        finally:
            await cluster.close()
            self._fetch_loops.pop(cluster)

    async def _passes(
        self, topics: list[str], stops: Mapping[TopicPartition, int]
    ) -> list[tuple[Isolation, Mapping[TopicPartition, int]]]:
        """Return the passes of a read, each with isolation and stops.

        Only a committed read reports aborted transactions. So an uncommitted read first reads to
        the last stable offset as committed, then the rest.
        """
        if self._isolation == "read_committed":
            return [("read_committed", stops)]
        stable = _flat(await self._offsets(topics, read_requests.LATEST, "read_committed"))
        decided = {at: min(stop, stable[at]) for at, stop in stops.items()}
        return [("read_committed", decided), ("read_uncommitted", stops)]

    async def _positions(self, topics: list[str], start: Ends) -> dict[TopicPartition, int]:
        """Return the start positions: as given, but not before the first offset.

        Raises:
            LogNotUsable: a start lies past the end, or there are more starts than partitions.
        """
        first = _flat(await self.starts(topics))
        end = _flat(await self._offsets(topics, read_requests.LATEST, "read_uncommitted"))
        requested = {at: offset for at, offset in _flat(start).items() if at[0] in topics}
        for at, offset in requested.items():
            if at not in end:
                raise LogNotUsable(
                    f"topic {at[0]} has fewer partitions than start offsets: "
                    "give one offset per partition"
                )
            if offset > end[at]:
                raise topic_error(at[0], OFFSET_OUT_OF_RANGE)
        return {at: max(offset, requested.get(at, offset)) for at, offset in first.items()}

    async def _offsets(
        self, topics: Iterable[str], timestamp: int, isolation: Isolation
    ) -> dict[str, list[int]]:
        """Request the offset of each partition at a timestamp from the leaders."""
        topic_names = list(topics)
        return await self._with_leaders(
            lambda: self._offsets_now(topic_names, timestamp, isolation)
        )

    async def _with_leaders(self, query: Callable[[], Awaitable[T]]) -> T:
        """Run a query; retry it for `leader_patience_ms` while a partition has no leader."""
        retry = Retry(self._limits, self._limits.leader_patience_ms)
        while True:
            try:
                return await query()
            except NoLeader as failure:
                await retry.after(failure, progress=0)

    async def _offsets_now(
        self, topics: list[str], timestamp: int, isolation: Isolation
    ) -> dict[str, list[int]]:
        layout = await self._cluster.leaders(topics)
        return await self._offsets_at(layout, timestamp, isolation)

    async def _offsets_at(
        self, layout: ClusterLayout, timestamp: int, isolation: Isolation
    ) -> dict[str, list[int]]:
        offsets = {topic: [0] * len(leaders) for topic, leaders in layout.leaders.items()}
        for broker, partitions_led in layout.led().items():
            request = read_requests.offsets_request(partitions_led, timestamp, isolation)
            for (topic, number), code, offset in read_requests.offsets(
                await self._cluster.send(broker, request)
            ):
                if code:
                    raise topic_error(topic, code)
                offsets[topic][number] = offset
        return offsets


def _flat(ends: Ends) -> dict[TopicPartition, int]:
    """Flatten offsets by topic to offsets by partition."""
    return {
        (topic, number): offset
        for topic, offsets in ends.items()
        for number, offset in enumerate(offsets)
    }


class Retry:
    """Retry policy for failures; pauses grow until there is progress again.

    An unavailable log is retried for `patience_ms` (None: without end). A refusal is raised at
    once, or retried for `ReadLimits.refusal_patience_ms` if there was progress before. Damaged
    bytes are never read again.
    """

    def __init__(self, limits: ReadLimits, patience_ms: int | None) -> None:
        self._limits = limits
        self._patience_ms = patience_ms
        self._progress = 0
        self._since = 0.0
        self._pauses: Iterator[float] | None = None

    async def after(self, failure: LogError, progress: int) -> None:
        """Wait before the next attempt, or raise `failure`. `progress` is a growing counter."""
        now = asyncio.get_running_loop().time()
        if self._pauses is None or progress > self._progress:
            self._progress, self._since = progress, now
            limits = self._limits
            self._pauses = backoff(limits.retry_backoff_ms, limits.retry_backoff_max_ms)
        patience_ms = self._patience(failure)
        if patience_ms is not None and (now - self._since) * 1000 >= patience_ms:
            raise failure
        await asyncio.sleep(next(self._pauses))

    def _patience(self, failure: LogError) -> int | None:
        if isinstance(failure, LogUnavailable):
            return self._patience_ms
        if isinstance(failure, LogNotUsable) and self._progress:
            return self._limits.refusal_patience_ms
        return 0
