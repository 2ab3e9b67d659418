"""Loop of a sink task: consume, convert, put, commit (Kafka: `WorkerSinkTask`)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic
from typing import Any, NamedTuple

from controlplane.connect.errors import ConnectError, RetriableError
from controlplane.connect.records import SinkRecord
from controlplane.core.entry import Entry, TopicPartition
from controlplane.failure_text import description_of, message_of
from controlplane.notices import Notices
from controlplane.worker.connector_classes import class_name
from controlplane.worker.data_topics.clients import (
    Consumer,
    Producer,
    ProducerFailure,
    RebalanceCallbacks,
)
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.sink_drivers import SinkDriver
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.metrics.task_metrics import SinkTaskMetrics
from controlplane.worker.records.conversion import DeliveredRecord, SinkPipeline
from controlplane.worker.records.error_reports import ErrorReport, ErrorReporter, SinkReports
from controlplane.worker.records.record_errors import FailedRecord, Stage
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.tasks.task_end import pipeline_closed, stop_quietly

POLL_S = 0.5
"""Longest wait for records. A pause or a requested commit takes effect after it; a stop ends it."""

RETRY_S = 1.0
"""Pause before a batch is put again, unless the task has set another one (`retry_after`)."""


class LoadedSinkTask(NamedTuple):
    """A loaded sink task: the author's object, and the parts that bring records to it."""

    driver: SinkDriver
    thread: AuthorThread
    pipeline: SinkPipeline
    reporter: ErrorReporter
    control: TaskControl
    settings: RuntimeSettings
    note_topic: Callable[[str], None]
    """Called with the topic of each record that was converted (KIP-558)."""
    notices: Notices
    metrics: SinkTaskMetrics

    async def converted(
        self, entries: Sequence[Entry], dead_letters: Producer | None
    ) -> list[tuple[Entry, SinkRecord | None]]:
        """Convert and transform records in the author's thread, and report those that failed.

        None: the record was dropped, or its error is tolerated.

        Raises:
            ToleranceExceeded: a record failed, and with it the task.
        """
        topics = dict[str, None]()

        def converted() -> list[tuple[Entry, SinkRecord | None]]:
            return [(entry, self.pipeline.converted(entry, topics)) for entry in entries]

        try:
            records: list[tuple[Entry, SinkRecord | None]] = await self.thread.call(converted)
        finally:  # also for the record that fails the task
            for topic in topics:
                self.note_topic(topic)
            await self.reporter.report(dead_letters)
        return records

    async def offsets_to_commit(
        self, consumed: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int] | None:
        """Call the task's `pre_commit`; None: it failed, which Kafka only logs."""
        try:
            return await self.driver.pre_commit(dict(consumed))
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            self.metrics.commit_failed()
            self.notices.warning(
                "sink_not_flushed", reason=await text_in_time(description_of, failure)
            )
            return None

    def failed_record(self, record: SinkRecord, error: BaseException) -> FailedRecord:
        """Count a record that the task cannot take, and return it with its entry (KIP-610)."""
        errors = self.pipeline.errors
        errors.metrics.failed(tolerated=errors.settings.tolerant)
        author, pipeline = class_name(type(self.driver.author)), self.pipeline
        entry = record.entry if isinstance(record, DeliveredRecord) else pipeline.reverted(record)
        return errors.failed_record(Stage.TASK_PUT, author, error, entry)


OpenConsumer = Callable[[RebalanceCallbacks], AbstractAsyncContextManager[Consumer]]
OpenProducer = Callable[[], AbstractAsyncContextManager[Producer | None]]


class SinkTaskRun:
    """One run of a sink task, from its start to its end."""

    def __init__(
        self, loaded: LoadedSinkTask, open_consumer: OpenConsumer, open_producer: OpenProducer
    ) -> None:
        self._loaded = loaded
        self._open_consumer = open_consumer
        self._open_producer = open_producer
        self._consumer: Consumer
        self._dead_letters: Producer | None
        tolerant = loaded.pipeline.errors.settings.tolerant
        self._reports = SinkReports(loaded.reporter, tolerant=tolerant)
        loaded.control.when_stopped(loaded.pipeline.errors.stop)
        self._consumed: dict[TopicPartition, int] = {}
        """Offset after the records that were put or dropped, by partition.

        An assignment or a rewind sets it to the position of the consumer.
        """
        self._committed: dict[TopicPartition, int] = {}
        """Offsets of the last commit, the assignment or a rewind: a failed flush goes back to them.

        Kafka: `lastCommittedOffsets`.
        """
        self._rewound: set[TopicPartition] = set()
        """Partitions that were rewound, and whose offset was not committed since."""
        self._uncommitted: set[TopicPartition] = set()
        """Partitions whose offset in `_committed` is that of an assignment or a rewind.

        No commit of this run has written this offset.
        """
        self._batch: list[SinkRecord] = []
        """Converted records that were not put yet."""
        self._behind_batch: dict[TopicPartition, int] = {}
        """Offset after the records of the batch, by partition."""
        self._redelivering = False
        self._next_commit = 0.0

    async def run(self, started: Callable[[], None], paused: Callable[[bool], None]) -> None:
        """Run until the task shall stop. `started` is called after the author's `start`.

        Raises:
            Exception: the task failed; everything is closed.
        """
        loaded, control = self._loaded, self._loaded.control
        async with (
            pipeline_closed(loaded.pipeline, loaded.thread, loaded.notices),
            self._open_producer() as self._dead_letters,
            self._open_consumer(self) as self._consumer,
        ):
            if control.paused:
                paused(True)
                await control.while_paused()
            if not control.stopping:
                async with self._stopped():
                    await self._consume(started, paused)

    async def _consume(self, started: Callable[[], None], paused: Callable[[bool], None]) -> None:
        control = self._loaded.control
        await self._loaded.driver.start()
        started()
        self._set_next_commit()
        while not control.stopping:
            if control.paused:
                await self._rest(paused)
            else:
                await self._iterate()

    @asynccontextmanager
    async def _stopped(self) -> AsyncIterator[None]:
        """Commit, close and stop at the end of the block; an abandoned task commits nothing."""
        try:
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self._close_quietly()
            raise
        else:
            await self._close([*self._consumer.assignment])
        finally:
            await stop_quietly(self._loaded.driver, self._loaded.notices)

    async def _close_quietly(self) -> None:
        """Commit and close after a failure, which a second one must not hide."""
        try:
            await self._close([*self._consumer.assignment])
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            self._loaded.notices.warning(
                "partitions_not_closed", reason=await text_in_time(description_of, failure)
            )

    async def _rest(self, paused: Callable[[bool], None]) -> None:
        """Commit, then take part in rebalances only, until the task shall go on."""
        control = self._loaded.control
        await self._commit(closing=False)
        paused(True)
        while control.paused and not control.stopping:
            # As in Kafka, rewind first: a rebalance could take the partitions away meanwhile.
            await self._rewind(self._loaded.driver.context.take_rewinds())
            await self._attended(POLL_S, control.while_paused())
        if not control.stopping:
            paused(False)

    async def _attended(self, seconds: float, change: Coroutine[Any, Any, None]) -> None:
        """Take part in rebalances for a time, or until `change` ends."""
        changed = asyncio.ensure_future(change)
        attending = asyncio.ensure_future(self._consumer.attend(seconds))
        try:
            await asyncio.wait({attending, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not attending.done():
                self._consumer.wake_up()
            await attending  # not cancelled by a change: a rebalance may be under way
        finally:
            for waiting in (attending, changed):
                waiting.cancel()
            await asyncio.gather(attending, changed, return_exceptions=True)

    async def _iterate(self) -> None:
        context, loop = self._loaded.driver.context, asyncio.get_running_loop()
        if context.take_commit_request() or loop.time() >= self._next_commit:
            await self._commit(closing=False)
            self._set_next_commit()
        await self._rewind(context.take_rewinds())
        await self._pause_partitions()
        entries = await self._polled(max(0.0, min(POLL_S, self._next_commit - loop.time())))
        if entries is None:
            return
        self._loaded.metrics.read += len(entries)
        await self._convert(entries)
        await self._deliver()

    def _set_next_commit(self) -> None:
        interval_s = self._loaded.settings.offset_flush_interval_ms / 1_000
        self._next_commit = asyncio.get_running_loop().time() + interval_s

    async def _polled(self, timeout_s: float) -> Sequence[Entry] | None:
        """Poll; None: the task shall stop."""
        if not self._redelivering:
            return await self._poll(timeout_s)
        entries = await self._polled_before_redelivery()
        return None if self._loaded.control.stopping else entries

    async def _polled_before_redelivery(self) -> Sequence[Entry]:
        """Wait before the batch is put again; the group may rebalance meanwhile, as in Kafka.

        All partitions are paused. Only a partition that a rebalance adds may return records.
        Even if the wait is 0 s, the consumer is polled once: else its group could not rebalance.
        """
        retry_s = self._loaded.driver.context.take_retry_s()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (RETRY_S if retry_s is None else retry_s)
        entries: Sequence[Entry] = ()
        while not entries and not self._loaded.control.stopping:
            left_s = deadline - loop.time()
            await self._consumer.pause(self._consumer.assignment)
            entries = await self._poll(max(0.0, min(POLL_S, left_s)))
            if loop.time() >= deadline:
                break
        return entries

    async def _poll(self, timeout_s: float) -> Sequence[Entry]:
        """Poll; a stop wakes the consumer up."""
        poll = asyncio.ensure_future(self._consumer.poll(timeout_s))
        stop = asyncio.ensure_future(self._loaded.control.until_stopped())
        try:
            await asyncio.wait({poll, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not poll.done():
                self._consumer.wake_up()
            return await poll  # not cancelled by a stop: a rebalance may be under way
        finally:
            for waiting in (poll, stop):
                waiting.cancel()
            await asyncio.gather(poll, stop, return_exceptions=True)

    async def _rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Consume from other offsets on, as the task requested.

        Raises:
            ConnectError: a partition is not assigned to the task.
        """
        for topic, partition in offsets:
            if (topic, partition) not in self._consumer.assignment:
                place = self._loaded.driver.context.rewind_place((topic, partition))
                raise ConnectError(
                    f"No current assignment for partition {topic}-{partition}: task.rewind takes "
                    f"only partitions of task.assignment. It was called at {place}"
                )
        await self._seek(offsets)
        rewound = offsets.keys() & self._consumed.keys()
        self._committed |= {partition: offsets[partition] for partition in rewound}
        self._rewound |= rewound
        self._uncommitted |= rewound

    async def _seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Consume from other offsets on, and drop waiting records of these partitions."""
        if not offsets:
            return
        await self._consumer.seek(offsets)
        self._consumed |= {
            partition: offset
            for partition, offset in offsets.items()
            if partition in self._consumed
        }
        self._drop_batch(offsets)
        self._measure_positions()

    def _drop_batch(self, partitions: Collection[TopicPartition]) -> None:
        """Drop waiting records of partitions that are read again."""
        self._batch = [
            record
            for record in self._batch
            if (record.original_topic, record.original_kafka_partition) not in partitions
        ]
        for partition in partitions:
            self._behind_batch.pop(partition, None)

    async def _pause_partitions(self) -> None:
        """Pause and resume partitions, as the task requested."""
        paused = self._loaded.driver.context.paused
        await self._consumer.pause(paused)
        await self._consumer.resume(self._consumer.assignment - paused)

    async def _convert(self, entries: Sequence[Entry]) -> None:
        """Convert and transform records in the author's thread, and add them to the batch."""
        if not entries:
            return
        for entry, record in await self._loaded.converted(entries, self._dead_letters):
            self._behind_batch[entry.topic, entry.partition] = entry.offset + 1
            if record is not None:
                self._batch.append(record)
        self._measure_positions()

    async def _deliver(self) -> None:
        """Put the batch; after a retriable failure it is put again later.

        Raises:
            ConnectError: the task failed.
        """
        began_s = monotonic()
        try:
            await self._loaded.driver.put(self._batch)
            self._reports.raise_swallowed()
        except RetriableError as failure:
            self._redelivering = True
            self._loaded.notices.warning(
                "sink_put_again", reason=await text_in_time(message_of, failure)
            )
        except Exception as failure:
            raise ConnectError(
                "Exiting WorkerSinkTask due to unrecoverable exception."
            ) from failure
        else:
            self._loaded.metrics.put_batch(len(self._batch), monotonic() - began_s)
            self._redelivering = False
            self._consumed |= self._behind_batch
            self._batch, self._behind_batch = [], {}

    def report(self, record: SinkRecord, error: BaseException) -> ErrorReport:
        """Report a record that the task cannot take; called in a thread of the task (KIP-610).

        Raises:
            ToleranceExceeded: no error is tolerated.
        """
        failed = self._loaded.failed_record(record, error)
        return self._reports.begin(failed, error, self._dead_letters)

    # --- commits ----------------------------------------------------------------------------------

    async def _commit(self, *, closing: bool) -> None:
        """Ask the task which offsets may be committed, and commit those that have changed.

        If the task cannot flush, the records since the last commit are put again. `closing`: the
        partitions are about to be closed, so nothing is put again.
        """
        self._loaded.metrics.commit_number += 1
        await self._reports.settled(self._consumed)
        began_s = monotonic()
        offered = await self._loaded.offsets_to_commit(self._consumed)
        if offered is None:
            if not closing:
                await self._rewind_to_committed()
            return
        await self._reports.settled(self._consumed)  # those of the flush
        self._warn_of_ignored(offered)
        changed = {
            partition: offset
            for partition, offset in offered.items()
            if self._may_commit(partition, offset)
        }
        if changed:  # as in Kafka, the first commit also commits the positions of idle partitions
            idle = {partition: self._committed[partition] for partition in self._uncommitted}
            changed = idle | changed
        try:
            async with asyncio.timeout(self._loaded.settings.offset_flush_timeout_ms / 1_000):
                if changed:
                    await self._consumer.commit(changed)
        except (ProducerFailure, TimeoutError) as failure:
            self._loaded.metrics.commit_failed()
            reason = str(failure) or "the commit timed out"
            self._loaded.notices.warning("offsets_not_committed", reason=reason)
        else:
            self._loaded.metrics.committed(monotonic() - began_s)
            self._committed |= changed
            self._rewound -= changed.keys()
            self._uncommitted -= changed.keys()
            self._measure_positions()

    def _warn_of_ignored(self, offered: Mapping[TopicPartition, int]) -> None:
        """Warn of offsets of the task that are never committed, as Kafka does."""
        for (topic, partition), offset in offered.items():
            consumed = self._consumed.get((topic, partition))
            if consumed is None or offset > consumed:
                facts = {"partition": f"{topic}-{partition}", "offset": offset}
                self._loaded.notices.warning("sink_offset_ignored", **facts, consumed=consumed)

    def _may_commit(self, partition: TopicPartition, offset: int) -> bool:
        """True if the commit of an offset is due, and all records before the offset are consumed.

        The commit is due if the offset differs from the committed one, or after a rewind. False for
        a partition that is not assigned.
        """
        consumed = self._consumed.get(partition)
        if consumed is None or offset > consumed:
            return False
        return partition in self._rewound or offset != self._committed.get(partition)

    async def _rewind_to_committed(self) -> None:
        await self._seek(
            {
                partition: offset
                for partition, offset in self._committed.items()
                if partition in self._consumed
            }
        )

    # --- assignment -------------------------------------------------------------------------------

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Open the new partitions, if any. Partitions that the task has paused stay paused.

        The author's `open` may rewind or pause partitions. As in Kafka, this takes effect before
        the task gets further records.
        """
        positions = {partition: self._consumer.position(partition) for partition in partitions}
        self._consumed |= positions
        self._committed |= positions
        self._uncommitted |= positions.keys()
        self._loaded.driver.context.assigned(self._consumer.assignment)
        self._loaded.metrics.partitions = len(self._consumer.assignment)
        self._measure_positions()
        if partitions:
            await self._loaded.driver.open(partitions)
            await self._rewind(self._loaded.driver.context.take_rewinds())
        await self._consumer.pause(self._loaded.driver.context.paused)

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit and close partitions that another task will consume."""
        await self._close(partitions)
        self._unassign(partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions that another task may consume already; commit nothing, as in Kafka."""
        await self._loaded.driver.close(partitions)
        self._forget(partitions)
        self._unassign(partitions)

    def _unassign(self, partitions: Sequence[TopicPartition]) -> None:
        left = self._consumer.assignment - {*partitions}
        self._loaded.driver.context.revoked(left)
        self._loaded.metrics.partitions = len(left)

    async def _close(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        try:
            await self._commit(closing=True)
        finally:
            await self._loaded.driver.close(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop waiting records and offsets: the next owner begins at the committed offsets."""
        self._drop_batch({*partitions})
        for partition in partitions:
            self._consumed.pop(partition, None)
            self._committed.pop(partition, None)
        self._rewound -= {*partitions}
        self._uncommitted -= {*partitions}
        self._measure_positions()

    def _measure_positions(self) -> None:
        self._loaded.metrics.moved(self._consumed | self._behind_batch, self._committed)
