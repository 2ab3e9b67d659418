"""The fetch loop: a request under way to every leader, the next one sent before decoding."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any

from controlplane.core.entry import Batch
from controlplane.logs.kafka import wire
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.decode import decode
from controlplane.logs.kafka.errors import OFFSET_OUT_OF_RANGE, topic_error
from controlplane.logs.kafka.frames import Piece, piece
from controlplane.logs.kafka.limits import Limits
from controlplane.logs.kafka.metadata import Partition
from controlplane.logs.kafka.wire import Fetched, Isolation
from controlplane.logs.log import LogError, LogNotUsable


class Fetching:
    """Reads partitions from their positions on, each up to its stop if there are stops.

    `positions` move on with every answer: after an error a new `run` goes on where the last one
    ended; nothing is lost and nothing comes twice. `answers` counts good answers: it is how
    others see progress, for an answer may bring nothing but transaction markers. `trouble` is
    for whoever runs this: why it does not run just now; it is over when every leader has given a
    good answer, for those that are well go on answering while another is gone.
    """

    def __init__(
        self,
        positions: Mapping[Partition, int],
        stops: Mapping[Partition, int] | None,
        isolation: Isolation,
        limits: Limits,
    ) -> None:
        self.positions = dict(positions)
        self.answers = 0
        self._ids: dict[str, bytes | None] = {}
        self.trouble: LogError | None = None
        self._stops = stops
        self._isolation: Isolation = isolation
        self._limits = limits

    async def run(self, cluster: Cluster) -> AsyncGenerator[Batch, None]:
        """All batches, until every partition has reached its stop; without stops, for ever.

        Raises:
            LogUnavailable: a broker is gone or no longer leads; run again.
        """
        brokers = await self._brokers(cluster)
        requests = _Requests(cluster)
        try:
            for broker, led in brokers.items():
                await requests.send(broker, self._request(led))
            silent = requests.asked
            async for broker, answer in requests.answers():
                pieces, trouble = self._accept(answer)
                if trouble is None:
                    silent.discard(broker)
                    self.trouble = self.trouble if silent else None
                    await requests.send(broker, self._request(brokers[broker]))
                for batch in self._decoded(pieces):
                    yield batch
                if trouble is not None:
                    raise trouble
        finally:
            await requests.cancel()

    def _unread(self, partition: Partition) -> bool:
        return self._stops is None or self.positions[partition] < self._stops[partition]

    async def _brokers(self, cluster: Cluster) -> dict[int, list[Partition]]:
        """The partitions of topics that are not read to their stops, by leader."""
        topics = {topic for topic, number in self.positions if self._unread((topic, number))}
        if not topics:
            return {}
        layout = await cluster.leaders(topics)
        for topic in topics:
            # Offsets of another topic of the same name would look like ours, but are not.
            if self._ids.setdefault(topic, layout.ids.get(topic)) != layout.ids.get(topic):
                raise topic_error(topic, OFFSET_OUT_OF_RANGE)
        led = layout.led().items()
        return {broker: [at for at in of if at in self.positions] for broker, of in led}

    def _request(self, led: list[Partition]) -> Any:
        """The next request to a leader; None if there is nothing left to ask it for."""
        asked = {part: self.positions[part] for part in led if self._unread(part)}
        return wire.fetch_request(asked, self._isolation, self._limits) if asked else None

    def _accept(self, answer: Any) -> tuple[list[Piece], LogError | None]:
        """Move on behind all that an answer brings; what it brings, and the first trouble."""
        pieces: list[Piece] = []
        trouble: LogError | None = None
        partitions = list(wire.fetched(answer))
        for partition in partitions:
            try:
                pieces += self._taken(partition)
            except LogError as failure:
                trouble = trouble or failure
        if not (pieces or trouble or answer.throttle_time_ms):
            self._pass_void(partitions)
        if trouble is None:
            self.answers += 1
        return pieces, trouble

    def _taken(self, fetched: Fetched) -> list[Piece]:
        topic, number = fetched.partition
        if fetched.code:
            raise topic_error(topic, fetched.code)
        if not fetched.records:
            return []
        taken = piece(fetched, self.positions[fetched.partition])
        if not taken.frames:
            raise LogNotUsable(
                f"topic {topic}, partition {number}: half a record batch came at offset "
                f"{taken.start}; its broker is older than Kafka 0.11"
            )
        self.positions[fetched.partition] = taken.next_offset
        return [taken]

    def _pass_void(self, partitions: list[Fetched]) -> None:
        """Go to the stop where the broker has nothing before it: compaction took all of it.

        Only an answer that is empty throughout tells this; else there was just no room.
        """
        for found in partitions:
            stop = self._stops[found.partition] if self._stops else None
            if stop is not None and stop <= found.readable(self._isolation):
                self.positions[found.partition] = max(self.positions[found.partition], stop)

    def _decoded(self, pieces: list[Piece]) -> Iterator[Batch]:
        for taken in pieces:
            stop = self._stops[taken.partition] if self._stops else None
            batch = decode(taken, stop)
            if batch is not None:
                yield batch


class _Requests:
    """Fetch requests under way, at most one to each broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._under_way: dict[asyncio.Task[Any], int] = {}

    async def send(self, broker: int, request: Any) -> None:
        """Send a request; None sends nothing."""
        if request is None:
            return
        self._under_way[asyncio.create_task(self._cluster.send(broker, request))] = broker
        # The new task writes its request now and not when the caller has decoded an answer.
        await asyncio.sleep(0)

    @property
    def asked(self) -> set[int]:
        """The brokers that have not answered yet."""
        return {*self._under_way.values()}

    async def answers(self) -> AsyncIterator[tuple[int, Any]]:
        """Brokers and their answers as they come, while any is awaited."""
        while self._under_way:
            done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield self._under_way.pop(task), task.result()

    async def cancel(self) -> None:
        """Give up what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
