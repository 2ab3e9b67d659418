"""Fetch loop: one request in flight per leader; the next one is sent before decoding.

A tail has a session with each leader, in which requests and answers name only what has changed.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from typing import Any, NamedTuple

from controlplane.core.entry import Batch, TopicPartition
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.errors import OFFSET_OUT_OF_RANGE, fetch_error, topic_error
from controlplane.logs.kafka.protocol.read_requests import FetchedPartition, Isolation
from controlplane.logs.kafka.reads.decoder import decode
from controlplane.logs.kafka.reads.fetch_session import FetchSession
from controlplane.logs.kafka.reads.frames import (
    PartitionFrames,
    appended_frames,
    partition_frames,
)
from controlplane.logs.log import LogError, LogNotUsable
from controlplane.logs.tail import ReadProgress

OWN_BATCHES = 100
"""Maximum number of batches of this process that wait for the consumer of a tail. Each has at most
half a MiB, so all have at most 50 MiB."""

OWN_PAUSE_MS = 5
"""Pause of a tail before its next fetch if the last one has returned only batches of `take`.

A fetch takes about as much processor time as an append. Without the pause, a fetch would follow
each append of a command, and delay the next one. Records of other writers are read 5 ms later at
most."""


class OwnBatch(NamedTuple):
    """A record batch that this process has appended, as sent. The broker has acknowledged it."""

    partition: TopicPartition
    offset: int
    octets: bytes


class FetchLoop:
    """Reads partitions from their positions on, each up to its stop if there are stops.

    `positions` advance with every answer. After an error a new `run` continues from them, so no
    record is lost or repeated. `answers` counts successful answers. An answer without records is
    progress, too: it may contain transaction markers. The caller of `run` sets `trouble` to the
    current failure. `run` clears it only once every leader has answered: while one is gone, the
    others still answer.

    A tail passes its start offsets as `reported`. It then also gets `ReadProgress` for positions
    that advance past offsets without records.

    A tail yields a batch of this process as soon as its append is acknowledged (`take`). A fetch
    would return it later, and take more time of the processor.
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
        self._own: deque[OwnBatch] = deque(maxlen=OWN_BATCHES)
        """Batches of this process that were not yielded yet. A fetch returns those that do not fit
        in."""
        self._own_producers: set[int] = set()
        """Ids of this process's producers."""
        self._changed = asyncio.Event()
        """Set if an answer or a batch of this process has arrived."""
        self.trouble: LogError | None = None
        self._stops = stops
        self._isolation: Isolation = isolation
        self._limits = limits

    def take(self, own: OwnBatch) -> None:
        """Take an acknowledged batch of this process, to yield it; a read does nothing.

        The batch is dropped unless it lies at the position of its partition. Other records precede
        it otherwise, or a fetch has returned it. At the position of a committed read, every
        earlier transaction has ended, so a fetch would return the same records.
        """
        if self._reported is not None and own.partition in self.positions:
            self._own.append(own)
            self._changed.set()

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
        requests = _FetchRequests(cluster, self._changed)
        try:
            for broker, led in brokers.items():
                await requests.send(broker, self._request(broker, led))
            silent = requests.unanswered
            async for answered in requests.answers():
                for batch in self._decode_batches(self._accept_own()):
                    yield batch
                if answered is None:
                    continue
                broker, answer = answered
                frames, trouble = self._accept(broker, answer, brokers[broker])
                if trouble is None:
                    silent.discard(broker)
                    self.trouble = self.trouble if silent else None
                    await self._send_next(requests, broker, brokers[broker], frames)
                for batch in self._decode_batches(frames):
                    yield batch
                for progress in self._progress():
                    yield progress
                # Raised after the records are yielded: a new `run` would not yield them again.
                if trouble is not None:
                    raise trouble
        finally:
            await requests.cancel()

    async def _send_next(
        self,
        requests: "_FetchRequests",
        broker: int,
        led: list[TopicPartition],
        frames: Iterable[PartitionFrames],
    ) -> None:
        """Send the next request to a leader, after a pause if its answer was known already."""
        if self._are_own(frames):
            requests.send_later(broker, partial(self._request, broker, led))
        else:
            await requests.send(broker, self._request(broker, led))

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

    def _accept_own(self) -> Iterator[PartitionFrames]:
        """Advance the positions past batches of this process; yield those that come next."""
        while self._own:
            partition, offset, octets = self._own.popleft()
            frames = appended_frames(partition, offset, octets)
            self._own_producers.add(frames.frames[0].batch.producer_id)
            if self.positions.get(partition) == offset:
                self.positions[partition] = frames.next_offset
                yield frames

    def _are_own(self, frames: Iterable[PartitionFrames]) -> bool:
        """Return True if an answer has only batches that this process passes to `take`."""
        batches = [frame.batch for fetched in frames for frame in fetched.frames]
        return bool(batches) and all(
            batch.producer_id in self._own_producers and not batch.is_transactional
            for batch in batches
        )

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

    def _decode_batches(self, frames: Iterable[PartitionFrames]) -> Iterator[Batch]:
        for fetched_frames in frames:
            if fetched_frames.next_offset == fetched_frames.start:  # all are batches of `take`
                continue
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

    def __init__(self, cluster: Cluster, changed: asyncio.Event) -> None:
        """`changed`: this object sets it for each answer, the caller for anything else."""
        self._cluster = cluster
        self._changed = changed
        self._in_flight: dict[asyncio.Task[Any], int] = {}

    async def send(self, broker: int, request: Any) -> None:
        """Send a request in a new task; do nothing for None."""
        if request is None:
            return
        self._add(broker, self._cluster.send(broker, request))
        # Yield to the new task, so that it sends the request before the caller decodes an answer.
        await asyncio.sleep(0)

    def send_later(self, broker: int, new_request: Callable[[], Any]) -> None:
        """Send a request after `OWN_PAUSE_MS`."""
        self._add(broker, self._delayed(broker, new_request))

    async def _delayed(self, broker: int, new_request: Callable[[], Any]) -> Any:
        await asyncio.sleep(OWN_PAUSE_MS / 1_000)
        return await self._cluster.send(broker, new_request())

    def _add(self, broker: int, answer: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(answer)
        task.add_done_callback(lambda _: self._changed.set())
        self._in_flight[task] = broker

    @property
    def unanswered(self) -> set[int]:
        """Brokers that have not answered yet."""
        return {*self._in_flight.values()}

    async def answers(self) -> AsyncIterator[tuple[int, Any] | None]:
        """Yield brokers with their answers, until no request is in flight.

        Each time that `changed` was set, None comes first.
        """
        while self._in_flight:
            await self._changed.wait()
            self._changed.clear()
            yield None
            for task in [task for task in self._in_flight if task.done()]:
                yield self._in_flight.pop(task), task.result()

    async def cancel(self) -> None:
        """Cancel all requests in flight, and wait for their tasks."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
