"""Fetch loop: one request in flight per leader; the next one is sent before decoding.

A tail has a session with each leader, in which requests and answers name only what has changed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any

from controlplane.core.entry import Batch, TopicPartition
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.errors import OFFSET_OUT_OF_RANGE, fetch_error, topic_error
from controlplane.logs.kafka.protocol.read_requests import FetchedPartition, Isolation
from controlplane.logs.kafka.reads.decoder import decode
from controlplane.logs.kafka.reads.fetch_session import FetchSession
from controlplane.logs.kafka.reads.frames import PartitionFrames, partition_frames
from controlplane.logs.log import LogError, LogNotUsable
from controlplane.logs.tail import ReadProgress


class FetchLoop:
    """Reads partitions from their positions on, each up to its stop if there are stops.

    `positions` advance with every answer. After an error a new `run` continues from them, so no
    record is lost or repeated. `answers` counts successful answers. An answer without records is
    progress, too: it may contain transaction markers. The caller of `run` sets `trouble` to the
    current failure. `run` clears it only once every leader has answered: while one is gone, the
    others still answer.

    A tail passes its start offsets as `reported`. It then also gets `ReadProgress` for positions
    that advance past offsets without records.
    """

    def __init__(
        self,
        positions: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int] | None,
        isolation: Isolation,
        limits: ReadLimits,
        reported: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.positions = dict(positions)
        self._reported = None if reported is None else dict(reported)
        self.answers = 0
        self._ids: dict[str, bytes | None] = {}
        self._readable: dict[TopicPartition, int] = {}
        """Ends of the partitions in the last answers that named them."""
        self._sessions: dict[int, FetchSession] = {}
        """Sessions of a tail, by broker."""
        self.trouble: LogError | None = None
        self._stops = stops
        self._isolation: Isolation = isolation
        self._limits = limits

    async def run(self, cluster: Cluster) -> AsyncGenerator[Batch, None]:
        """Yield batches until every partition has reached its stop; without stops, forever.

        Raises:
            LogUnavailable: a broker is gone or no longer the leader; call `run` again.
        """
        brokers = await self._brokers(cluster)
        if self._stops is None:
            self._sessions = {
                broker: FetchSession(self._isolation, self._limits) for broker in brokers
            }
        for progress in self._progress():
            yield progress
        requests = _FetchRequests(cluster)
        try:
            for broker, led in brokers.items():
                await requests.send(broker, self._request(broker, led))
            silent = requests.unanswered
            async for broker, answer in requests.answers():
                frames, trouble = self._accept(broker, answer, brokers[broker])
                if trouble is None:
                    silent.discard(broker)
                    self.trouble = self.trouble if silent else None
                    await requests.send(broker, self._request(broker, brokers[broker]))
                for batch in self._decode_batches(frames):
                    yield batch
                for progress in self._progress():
                    yield progress
                # Raised after the records are yielded: a new `run` would not yield them again.
                if trouble is not None:
                    raise trouble
        finally:
            await requests.cancel()

    def _is_unread(self, partition: TopicPartition) -> bool:
        return self._stops is None or self.positions[partition] < self._stops[partition]

    async def _brokers(self, cluster: Cluster) -> dict[int, list[TopicPartition]]:
        """Return the partitions of the topics to fetch, by leader.

        A topic is included, with all its known partitions, while at least one of them is unread.
        """
        topics = {topic for topic, number in self.positions if self._is_unread((topic, number))}
        if not topics:
            return {}
        layout = await cluster.leaders(topics)
        for topic in topics:
            # A recreated topic has the same name but another id; our offsets are invalid in it.
            if self._ids.setdefault(topic, layout.ids.get(topic)) != layout.ids.get(topic):
                raise topic_error(topic, OFFSET_OUT_OF_RANGE)
        led = layout.led().items()
        return {
            broker: [partition for partition in partitions if partition in self.positions]
            for broker, partitions in led
        }

    def _request(self, broker: int, led: list[TopicPartition]) -> Any:
        """Build the next fetch request for a leader; None if all its partitions are read."""
        if broker in self._sessions and led:
            return self._sessions[broker].request(led, self.positions)
        positions = {part: self.positions[part] for part in led if self._is_unread(part)}
        return (
            read_requests.fetch_request(positions, self._isolation, self._limits)
            if positions
            else None
        )

    def _accept(
        self, broker: int, answer: Any, led: list[TopicPartition]
    ) -> tuple[list[PartitionFrames], LogError | None]:
        """Advance the positions past an answer; return its batches and the first failure."""
        session = self._sessions.get(broker)
        if session is not None and session.is_lost(answer):
            return [], None
        frames: list[PartitionFrames] = []
        trouble: LogError | None = None
        partitions = list(read_requests.fetched(answer))
        for partition in partitions:
            self._readable[partition.partition] = partition.readable(self._isolation)
            try:
                frames += self._take_frames(partition)
            except LogError as failure:
                trouble = trouble or failure
        _, code = read_requests.session_of(answer)
        if code and trouble is None:
            trouble = fetch_error(code)
        # A throttled answer does not prove an empty range. The broker sends it at once and without
        # records, even if there are some (KIP-219).
        if not (frames or trouble or answer.throttle_time_ms):
            self._skip_empty_ranges(led)
        if trouble is None:
            self.answers += 1
        return frames, trouble

    def _take_frames(self, fetched: FetchedPartition) -> list[PartitionFrames]:
        topic, number = fetched.partition
        if fetched.code:
            raise topic_error(topic, fetched.code)
        if not fetched.records:
            return []
        fetched_frames = partition_frames(fetched, self.positions[fetched.partition])
        if not fetched_frames.frames:
            raise LogNotUsable(
                f"topic {topic}, partition {number}: half a record batch came at offset "
                f"{fetched_frames.start}: use brokers of Kafka 0.11 or newer"
            )
        self.positions[fetched.partition] = fetched_frames.next_offset
        return [fetched_frames]

    def _skip_empty_ranges(self, led: list[TopicPartition]) -> None:
        """Advance positions over offsets whose records compaction has removed.

        Only an answer without any records proves that no records are left. With records of one
        partition, the answer may have reached its size limit before the records of another. A read
        advances to its stop. A tail advances to the end in the last answer that named the
        partition. The broker determines this end before it looks for records. In a session it names
        each partition whose end has changed.
        """
        for partition in led:
            readable = self._readable.get(partition, 0)
            stop = readable if self._stops is None else self._stops.get(partition)
            if stop is not None and stop <= readable:
                self.positions[partition] = max(self.positions[partition], stop)

    def _decode_batches(self, frames: list[PartitionFrames]) -> Iterator[Batch]:
        for fetched_frames in frames:
            stop = self._stops[fetched_frames.partition] if self._stops else None
            batch = decode(fetched_frames, stop)
            if batch is not None:
                if self._reported is not None:
                    self._reported[fetched_frames.partition] = batch.end
                yield batch

    def _progress(self) -> Iterator[ReadProgress]:
        """Yield each position that has advanced past offsets without records, once."""
        if self._reported is None:
            return
        for partition, position in self.positions.items():
            if position > self._reported.get(partition, 0):
                self._reported[partition] = position
                yield ReadProgress(*partition, position)


class _FetchRequests:
    """Fetch requests in flight, at most one to each broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._in_flight: dict[asyncio.Task[Any], int] = {}

    async def send(self, broker: int, request: Any) -> None:
        """Send a request in a new task; do nothing for None."""
        if request is None:
            return
        self._in_flight[asyncio.create_task(self._cluster.send(broker, request))] = broker
        # Yield to the new task, so that it sends the request before the caller decodes an answer.
        await asyncio.sleep(0)

    @property
    def unanswered(self) -> set[int]:
        """Brokers that have not answered yet."""
        return {*self._in_flight.values()}

    async def answers(self) -> AsyncIterator[tuple[int, Any]]:
        """Yield brokers with their answers in order of arrival, until no request is in flight."""
        while self._in_flight:
            done, _ = await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield self._in_flight.pop(task), task.result()

    async def cancel(self) -> None:
        """Cancel all requests in flight, and wait for their tasks."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
