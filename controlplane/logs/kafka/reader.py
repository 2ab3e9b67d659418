"""Reading the topics of a live cluster that belongs to somebody else."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TypeVar

from controlplane.core.entry import Batch
from controlplane.logs.kafka import wire
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.errors import OFFSET_OUT_OF_RANGE, NoLeader, topic_error
from controlplane.logs.kafka.fetching import Fetching
from controlplane.logs.kafka.limits import Limits
from controlplane.logs.kafka.metadata import Partition
from controlplane.logs.kafka.retry import Retry
from controlplane.logs.kafka.wire import Isolation
from controlplane.logs.log import Ends, LogError, LogNotUsable
from controlplane.security import KafkaSecurity

Answer = TypeVar("Answer")

COMPACT_ONLY = "compact"
"""The only `cleanup.policy` with which a worker of 2.6 or later starts (KAFKA-9916)."""


class KafkaReader:
    """A `ReadableLog` over a Kafka cluster. It never writes, joins no group, creates no topic.

    With `isolation="read_committed"`, which suits everything that is kept, the end of a partition
    is its last stable offset: what an open transaction holds back comes once it is decided, and
    records of aborted transactions come marked. A worker without exactly-once support reads on:
    `isolation="read_uncommitted"` goes to the high watermark as it does. Then `read` marks what
    was aborted when it was called; `tail` marks nothing, for nobody knows yet.

    Offsets of `starts` are where the log begins; compaction may have taken records behind it.
    """

    def __init__(
        self, cluster: Cluster, isolation: Isolation, limits: Limits, cluster_id: str | None
    ) -> None:
        """Use `open`, which also looks whether somebody is there."""
        self.cluster_id = cluster_id
        self._cluster = cluster
        self._isolation: Isolation = isolation
        self._limits = limits
        self._streams: dict[Cluster, Fetching] = {}

    @classmethod
    async def open(
        cls,
        bootstrap: str,
        *,
        security: KafkaSecurity | None = None,
        isolation: Isolation = "read_committed",
        limits: Limits | None = None,
    ) -> "KafkaReader":
        """A reader of the cluster behind `host:port[,host:port…]`.

        Raises:
            LogUnavailable: no broker can be reached.
            LogNotUsable: none lets us in.
            SettingsError: a certificate or key cannot be used.
        """
        limits = limits or Limits()
        cluster = Cluster(addresses(bootstrap), security or KafkaSecurity(), limits)
        try:
            layout = await cluster.layout([])
        except LogError:
            await cluster.close()
            raise
        return cls(cluster, isolation, limits, layout.cluster_id)

    @property
    def interruption(self) -> LogError | None:
        """Why a tail or read gets nothing just now, while it tries again; None if all is well."""
        troubles = (fetching.trouble for fetching in self._streams.values())
        return next((trouble for trouble in troubles if trouble is not None), None)

    async def topics(self) -> Mapping[str, int]:
        """Every topic that we may see, but those of the broker itself, with its partitions."""
        layout = await self._cluster.layout(None)
        return {topic: len(leaders) for topic, leaders in layout.leaders.items()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Where the log of each partition begins."""
        return await self._offsets(topics, wire.EARLIEST, "read_uncommitted")

    async def ends(self, topics: Iterable[str]) -> Ends:
        """The last stable offset, or high watermark, of each partition (see `isolation`)."""
        return await self._offsets(topics, wire.LATEST, self._isolation)

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncGenerator[Batch, None]:
        """All batches from `start` to `stop`, which counts as the end if it lies behind it."""
        topics = list(dict.fromkeys(topics))
        given = _flat(stop or {})
        stops = {
            at: min(end, given.get(at, end)) for at, end in _flat(await self.ends(topics)).items()
        }
        positions = await self._positions(topics, start or {})
        for isolation, limit in await self._passes(topics, stops):
            fetching = Fetching(positions, limit, isolation, self._limits)
            async with aclosing(self._stream(fetching, self._limits.patience_ms)) as batches:
                async for batch in batches:
                    yield batch
            positions = fetching.positions

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncGenerator[Batch, None]:
        """Batches from `start` on, without end; outages are waited out (see `interruption`)."""
        positions = await self._positions(list(dict.fromkeys(topics)), start)
        fetching = Fetching(positions, None, self._isolation, self._limits)
        async with aclosing(self._stream(fetching, None)) as batches:
            async for batch in batches:
                yield batch

    async def check(self, topics: Iterable[str]) -> list[str]:
        """Why a worker of 2.6 or later would not start with these topics: a sentence for each.

        A policy that this user may not see is passed over, as a worker does.
        """
        wanted = list(topics)
        return await self._when_led(lambda: self._check(wanted))

    async def _check(self, wanted: list[str]) -> list[str]:
        layout = await self._cluster.layout(wanted)
        missing = [topic_error(topic, code) for topic, code in layout.errors.items()]
        for trouble in missing:
            if isinstance(trouble, NoLeader):
                raise trouble
        request = wire.configs_request(layout.leaders, "cleanup.policy")
        return [str(trouble) for trouble in missing] + [
            f"topic {topic} has cleanup.policy={policy}: a worker wants {COMPACT_ONLY} alone"
            for topic, policy in wire.configs(await self._cluster.ask(request))
            if policy not in {None, COMPACT_ONLY}
        ]

    async def close(self) -> None:
        """Close every connection; reads and tails under way end with `LogUnavailable`."""
        await asyncio.gather(*(cluster.close() for cluster in (self._cluster, *self._streams)))

    async def _stream(
        self, fetching: Fetching, patience_ms: int | None
    ) -> AsyncGenerator[Batch, None]:
        """All that `fetching` brings, over connections of its own, again after an outage."""
        cluster = self._cluster.twin()
        self._streams[cluster] = fetching
        retry = Retry(self._limits, patience_ms)
        try:
            while True:
                try:
                    async with aclosing(fetching.run(cluster)) as batches:
                        async for batch in batches:
                            yield batch
                except LogError as failure:
                    if cluster.closed:
                        raise
                    fetching.trouble = failure
                    await retry.after(failure, fetching.answers)
                else:
                    return
        finally:
            await cluster.close()
            self._streams.pop(cluster)

    async def _passes(
        self, topics: list[str], stops: Mapping[Partition, int]
    ) -> list[tuple[Isolation, Mapping[Partition, int]]]:
        """What to read with which isolation: only a committed read tells what was aborted."""
        if self._isolation == "read_committed":
            return [("read_committed", stops)]
        stable = _flat(await self._offsets(topics, wire.LATEST, "read_committed"))
        decided = {at: min(stop, stable[at]) for at, stop in stops.items()}
        return [("read_committed", decided), ("read_uncommitted", stops)]

    async def _positions(self, topics: list[str], start: Ends) -> dict[Partition, int]:
        """Where to begin: as given, but not before the log begins, and never behind its end."""
        first = _flat(await self.starts(topics))
        end = _flat(await self._offsets(topics, wire.LATEST, "read_uncommitted"))
        given = {at: offset for at, offset in _flat(start).items() if at[0] in topics}
        for at, offset in given.items():
            if at not in end:
                raise LogNotUsable(f"topic {at[0]} has fewer partitions than offsets are given for")
            if offset > end[at]:
                raise topic_error(at[0], OFFSET_OUT_OF_RANGE)
        return {at: max(offset, given.get(at, offset)) for at, offset in first.items()}

    async def _offsets(
        self, topics: Iterable[str], timestamp: int, isolation: Isolation
    ) -> dict[str, list[int]]:
        """The offset of each partition at a timestamp, asked of its leader."""
        wanted = list(topics)
        return await self._when_led(lambda: self._offsets_now(wanted, timestamp, isolation))

    async def _when_led(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to a question; asked again for a while where a partition has no leader."""
        retry = Retry(self._limits, self._limits.leader_patience_ms)
        while True:
            try:
                return await question()
            except NoLeader as failure:
                await retry.after(failure, progress=0)

    async def _offsets_now(
        self, topics: list[str], timestamp: int, isolation: Isolation
    ) -> dict[str, list[int]]:
        layout = await self._cluster.leaders(topics)
        found = {topic: [0] * len(led) for topic, led in layout.leaders.items()}
        for broker, led in layout.led().items():
            request = wire.offsets_request(led, timestamp, isolation)
            for (topic, number), code, offset in wire.offsets(
                await self._cluster.send(broker, request)
            ):
                if code:
                    raise topic_error(topic, code)
                found[topic][number] = offset
        return found


def _flat(ends: Ends) -> dict[Partition, int]:
    """Offsets by topic and number of the partition."""
    return {
        (topic, number): offset
        for topic, offsets in ends.items()
        for number, offset in enumerate(offsets)
    }
