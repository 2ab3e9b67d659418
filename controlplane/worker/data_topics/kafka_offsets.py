"""Offsets of sources in topics on brokers: the worker's, or those of the connector's producer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from math import ceil

from controlplane.controller.remote_offsets import RemoteOffsetTopics
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.state import OffsetState
from controlplane.core.topics.remote_offsets import remote_topic
from controlplane.event_loop import sliced
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.new_topics import new_topic_defaults
from controlplane.logs.kafka.protocol.errors import BatchTooLarge
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import Fenced, Log, LogError, LogUnavailable, ProbedLog, Record
from controlplane.plane import ControlPlane
from controlplane.settings import Configuration
from controlplane.worker.data_topics.client_settings import ProducerSettings, write_limits
from controlplane.worker.data_topics.clients import OffsetWriter, ProducerFailure, ProducerFenced
from controlplane.worker.data_topics.kafka_connections import ClientConnection
from controlplane.worker.data_topics.kafka_producer import RecordPlacer, appended
from controlplane.worker.data_topics.outage_retry import until_available

OFFSETS_PER_TURN = 100
"""Number of offsets that a task appends in one turn. A command waits until the present turn ends.
With 1,000 offsets in ten turns, a command took 15 ms; with four turns, 25 ms."""

TURNS_MAX = 20
"""Maximum number of turns of a write. Each turn is a round trip, and the flush time-out limits all
turns together."""


class BrokerOffsets:
    """Offsets topics on the worker's cluster, and on other ones (`OffsetTopics`)."""

    on_brokers = True

    def __init__(
        self,
        own: ClientConnection,
        configuration: Configuration,
        remote: RemoteOffsetTopics,
        plane: ControlPlane,
    ) -> None:
        """`own`: the connections of the worker itself."""
        self._remote = remote
        self._plane = plane
        self._own = own
        self._configuration = configuration
        self._settings = ProducerSettings()
        self._placer = RecordPlacer(own.topics, self._settings, plane.now_ms)
        self._high_watermarks = KafkaReader(own.cluster, "read_uncommitted", remote.reading, None)

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[OffsetWriter]:
        """Open a writer with the present epoch of the control plane.

        Each writer has a separate producer for connectors' own topics; it connects when it is used.
        If such a topic cannot be written, this delays only one task.
        """
        plane, own_topic = self._plane, self._plane.state.topics.offsets
        claimed = ClaimedOffsetWriter(plane.log, plane.epoch, self._placer)
        appends = IndependentAppends(self._own.cluster, write_limits(self._settings))
        others = BrokerOffsetWriter(appends, self._placer, partial(check_claim, plane))
        try:
            yield RoutedOffsetWriter(lambda topic: topic == own_topic, claimed, others)
        finally:
            await others.close()

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
        """Create a topic on the cluster of a connector's producer, if missing; read its offsets."""
        await self._remote.create(topic, config)
        profile = self._plane.context.profile
        return await self._remote.read(
            topic, config, profile, awaits_transactions=awaits_transactions
        )

    async def ends(self, topics: Sequence[str]) -> Ends:
        """Return the high watermarks: the records of open transactions lie before them."""
        return await self._high_watermarks.ends(topics)


class RoutedOffsetWriter:
    """Passes each offset to one of two writers, which its topic selects (`OffsetWriter`).

    The caller makes one call per topic, in the order in which the topics must be written.
    """

    def __init__(
        self, is_for_first: Callable[[str], bool], first: OffsetWriter, second: OffsetWriter
    ) -> None:
        """`is_for_first` gets the topic of a draft; True: the first writer writes this draft.

        A draft names its topic as `ClusterState.offsets` does: with a mark if the topic is on
        another cluster (`remote_name`).
        """
        self._is_for_first = is_for_first
        self._first = first
        self._second = second

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns."""
        parts: tuple[list[Draft], list[Draft]] = [], []
        for draft in offsets:
            parts[0 if self._is_for_first(draft.topic) else 1].append(draft)
        await self._first.write_offsets(parts[0])
        await self._second.write_offsets(parts[1])


class ClaimedOffsetWriter:
    """Writes offsets of one task to the worker's topic, with the plane's epoch (`OffsetWriter`).

    The brokers refuse an append of an older epoch. So a process that hangs and wakes up replaces no
    offset of its successor. Each partition has an append of its own, which needs no transaction. A
    crash between two appends leaves some source partitions at their earlier offsets. Their records
    are repeated, as after a crash before the commit. A Java worker sends each offset separately,
    too.
    """

    def __init__(self, log: Log, epoch: int, placer: RecordPlacer) -> None:
        """`epoch`: the epoch of the plane at the start of the task."""
        self._log = log
        self._epoch = epoch
        self._placer = placer
        self._turn = asyncio.Lock()

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns. Brokers that are away are waited for.

        The appends share a queue with those of commands, so a large commit is several turns. After
        a cancellation, an append under way may still succeed. It precedes all later ones.

        Raises:
            ProducerFailure: the brokers refuse an offset. If it is too large, the others are
                appended all the same.
            ProducerFenced: another process has claimed the control plane's log.
        """
        if not offsets:
            return
        async with self._turn:
            # A control plane that claims the log writes a transaction marker to each partition.
            # From then on, the partition refuses older epochs. A Java worker that claims the log
            # writes no markers, so the partitions still accept this epoch. Only the transaction
            # coordinator refuses it. So ask the coordinator before the first append.
            await _performed(partial(_check_epoch, self._log, self._epoch))
            size = max(OFFSETS_PER_TURN, ceil(len(offsets) / TURNS_MAX))
            refusal: ProducerFailure | None = None
            for first in range(0, len(offsets), size):
                try:
                    await self._write_turn(offsets[first : first + size])
                except ProducerFailure as failure:
                    if not isinstance(failure.__cause__, BatchTooLarge):
                        raise
                    refusal = refusal or failure
            if refusal is not None:
                raise refusal

    async def _write_turn(self, offsets: Sequence[Draft]) -> None:
        by_partition: dict[int, list[Record]] = {}
        async for draft in sliced(offsets):
            record = await self._placer.placed_offset(draft)
            by_partition.setdefault(record.partition, []).append(record)
        refusals: list[BatchTooLarge] = []
        await _performed(partial(self._append_each, by_partition, refusals))
        if refusals:
            raise ProducerFailure(str(refusals[0])) from refusals[0]

    async def _append_each(
        self, by_partition: dict[int, list[Record]], refusals: list[BatchTooLarge]
    ) -> None:
        """Append to all partitions concurrently; delete finished partitions from `by_partition`.

        So `by_partition` keeps the records that a retry after an outage must append. If an offset
        is too large for its topic, the error goes to `refusals`. Its partition then counts as
        finished, because `_append` has appended the other offsets.
        """
        appends = [self._append(records) for records in by_partition.values()]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        failures: list[BaseException] = []
        for partition, outcome in zip([*by_partition], outcomes, strict=True):
            if isinstance(outcome, BatchTooLarge):
                refusals.append(outcome)
            elif outcome is not None:
                failures.append(outcome)
                continue
            del by_partition[partition]
        if failures:
            # The caller repeats the append after an outage (`LogUnavailable`). Other failures are
            # permanent, so one of them is raised first: no retry would help.
            raise min(failures, key=lambda failure: isinstance(failure, LogUnavailable))

    async def _append(self, records: Sequence[Record]) -> None:
        """Append records of one partition; halve a batch that is too large.

        So an offset that the topic never accepts does not stop the other offsets of the same turn.
        """
        try:
            await self._log.append(records, self._epoch)
        except BatchTooLarge:
            if len(records) == 1:
                raise
            middle, refusal = len(records) // 2, None
            for half in (records[:middle], records[middle:]):
                try:
                    await self._append(half)
                except BatchTooLarge as failure:
                    refusal = failure
            if refusal is not None:
                raise refusal from None


class BrokerOffsetWriter:
    """Writes the offsets of one task to topics outside of the plane's log (`OffsetWriter`).

    These are connectors' own topics, on the worker's cluster or another one. A process learns their
    names only after its claim. So the claim writes no markers to them, and no broker fences the
    appends. Instead, the claim is checked before each append. A process that hangs between the two
    may still replace newer offsets once, when it wakes up.
    """

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

        Raises:
            ProducerFailure: the brokers refuse them.
            ProducerFenced: another process has claimed the control plane's log.
        """
        if not offsets:
            return
        async with self._turn:
            await _performed(self._check_claim)
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


async def check_claim(plane: ControlPlane) -> None:
    """Raise `Fenced` if another process has claimed the plane's log, `LogError` if it is away."""
    await _check_epoch(plane.log, plane.epoch)


async def _check_epoch(log: Log, epoch: int) -> None:
    if isinstance(log, ProbedLog):
        await log.check_writable(epoch)


async def _performed(attempt: Callable[[], Awaitable[None]]) -> None:
    """Repeat an attempt while the brokers are away; raise the failures of an `OffsetWriter`."""
    try:
        await until_available(attempt)
    except Fenced as failure:
        raise ProducerFenced(str(failure)) from failure
    except LogError as failure:
        raise ProducerFailure(str(failure)) from failure
