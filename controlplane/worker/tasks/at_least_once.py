"""Delivery at least once: offsets follow the acknowledged records (Kafka: `WorkerSourceTask`)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import OffsetPair, Primitive, RecordMetadata, SourceRecord
from controlplane.connect.source import Mark
from controlplane.event_loop import cancel_all, slices
from controlplane.worker.background_tasks import background_task
from controlplane.worker.connector_classes import class_name
from controlplane.worker.data_topics.clients import (
    DeliveryTimeout,
    Producer,
    ProducerFailure,
    ProducerFenced,
    ProducerRecord,
)
from controlplane.worker.drivers.source_drivers import Acknowledged
from controlplane.worker.log_context import offset_logs
from controlplane.worker.offsets.source_offsets import write_copy, write_offsets
from controlplane.worker.offsets.submitted_records import (
    SourcePartitionId,
    SubmittedRecord,
    SubmittedRecords,
)
from controlplane.worker.records.record_errors import Stage
from controlplane.worker.tasks.source_task import (
    DispatchItem,
    LoadedSourceTask,
    SentRecord,
    record_failure,
)

COMMIT_OFFSETS = 10_000
"""Maximum number of offsets in one write of a commit.

Each write has the flush time-out for itself. So a commit of any size makes progress.
"""


class _InFlight(NamedTuple):
    """A record that is being sent."""

    record: SourceRecord
    converted: ProducerRecord
    submitted: SubmittedRecord


class AtLeastOnce:
    """Sends records, and commits the offsets of acknowledged ones at an interval."""

    def __init__(self, loaded: LoadedSourceTask, producer: Producer) -> None:
        self._loaded = loaded
        self._producer = producer
        self._submitted = SubmittedRecords()
        self._acknowledged: list[Acknowledged] = []
        self._committable: dict[SourcePartitionId, OffsetPair] = {}
        self._unseen: dict[SourcePartitionId, OffsetPair] = {}
        """Committable offsets that the hook `update_offsets` must see first.

        Empty if that hook is not called (`_calls_hook`).
        """
        self._failure: Exception | None = None
        """Failure that ends the task: of a sent record, of the commit loop, or a fenced commit."""
        self._settled = asyncio.Event()
        """Set whenever a record was acknowledged or has failed."""
        self._committing = asyncio.Lock()
        self._telling = asyncio.Lock()
        """Held during the author's calls about acknowledged records."""
        self._calls_hook = loaded.updates_offsets and loaded.driver.has_offsets_hook
        """True if the task has the hook `update_offsets` (KIP-910), and the profile calls it.

        A profile is the behaviour of a Kafka release. Only the profile `kip`, which adds features
        that no release has, calls the hook.
        """
        self._tolerant = loaded.pipeline.errors.settings.tolerant
        self._pausing = False
        """True during a pause: commits take the offsets that the hook has not seen."""
        self._committers: list[asyncio.Task[None]] = []
        """Loops that commit at an interval; empty before the start of the task."""
        self._is_ending = False
        """True once `finish` or `abandon` was called."""

    def started(self) -> None:
        """Begin to commit at an interval."""
        commits = self._commit_at_intervals()
        committer = background_task(commits, "offset commits", self._loaded.notices)
        committer.add_done_callback(self._fail_without_commits)
        self._committers.append(committer)

    async def begin_iteration(self) -> None:
        """Raise a failure that ends the task; tell the task of acknowledged records."""
        self._pausing = False
        self._raise_failure()
        await self._tell_acknowledged()
        self._merge()

    async def before_poll(self) -> None:
        """Ask the task for further offsets (KIP-910). All polled records have been dispatched.

        The returned offsets count as acknowledged. Earlier records of the same partition still hold
        them back, so no offset passes a record in flight. If the hook cannot be called now, the
        offsets that it has not seen wait.
        """
        if self._calls_hook:
            returned = await self._loaded.ask_for_offsets(self._about_to_commit)
            if returned is not None:
                self._commit_unseen()
                self._committable |= self._submitted.submit_acked(returned)

    def _about_to_commit(self) -> Iterable[OffsetPair]:
        return (self._committable | self._unseen).values()

    async def dispatch(self, items: Sequence[DispatchItem], *, complete: bool = True) -> None:
        """Queue the records for sending, in order. Transaction boundaries have no meaning here."""
        del complete
        dispatched = 0
        async for part in slices(items):
            if dispatched:
                self._raise_failure()
            await self._dispatch_slice(part)
            dispatched += len(part)

    async def _dispatch_slice(self, items: Sequence[DispatchItem]) -> None:
        # Create the topics before any record is registered as in flight. If a topic cannot be
        # created, the records are never sent. `finish` must not wait for their acknowledgements.
        records = (item.converted for item in items if isinstance(item, SentRecord))
        topics = {record.topic for record in records if record is not None}
        await self._loaded.topics.ensure(self._producer, topics)
        # The records of a slice are registered in the order of the source before any of them is
        # sent. So no committed offset passes an earlier record of its partition that is in flight.
        in_flight: list[_InFlight] = []
        for item in items:
            match item:
                case Mark(offsets):
                    self._submitted.mark(offsets)
                case SentRecord(record, None):
                    self._loaded.metrics.dropped += 1
                    self._acknowledged.append((record, None))
                case SentRecord(record, ProducerRecord() as converted):
                    submitted = self._submitted.submit(
                        _copied(record.source_partition), _copied(record.source_offset)
                    )
                    in_flight.append(_InFlight(record, converted, submitted))
        futures = await self._producer.send([sent.converted for sent in in_flight])
        for sent, future in zip(in_flight, futures, strict=True):
            self._watch(sent, future)

    def _watch(self, sent: _InFlight, future: "asyncio.Future[RecordMetadata]") -> None:
        def settled(future: "asyncio.Future[RecordMetadata]") -> None:
            self._settled.set()
            if future.cancelled():
                return  # never acknowledged, so no offset passes it
            failure = future.exception()
            if failure is not None and not self._is_tolerated(failure):
                if self._failure is None:
                    text = f"Unrecoverable exception from producer send callback: {failure}"
                    is_refused = isinstance(failure, ProducerFailure)
                    place = sent.converted.place if is_refused else ""
                    self._failure = record_failure(text, place)
                return
            sent.submitted.ack()
            metadata = None if failure is not None else future.result()
            self._acknowledged.append((sent.record, metadata))
            if failure is not None:
                self._report_dropped(sent, failure)
            elif metadata is not None:
                self._loaded.metrics.written += 1
                self._loaded.note_topic(metadata.topic)

        future.add_done_callback(settled)

    def _is_tolerated(self, failure: BaseException) -> bool:
        """True if `errors.tolerance` covers a failed send.

        An outage is no error of a record, nor is another process that has taken over. In these
        cases, the source must not be told that the record was dropped. A source may delete the data
        of a dropped record.
        """
        return self._tolerant and not isinstance(failure, DeliveryTimeout | ProducerFenced)

    def _report_dropped(self, sent: _InFlight, failure: BaseException) -> None:
        """Count and log a record whose failed send is tolerated.

        The warning `record_not_sent` is always logged, as Kafka always logs such a failure. With
        `errors.log.enable`, the error reporter logs a second line.
        """
        loaded, errors = self._loaded, self._loaded.pipeline.errors
        loaded.metrics.dropped += 1
        errors.metrics.failed(tolerated=True)
        loaded.notices.warning("record_not_sent", topic=sent.converted.topic, reason=str(failure))
        name = class_name(type(self))
        loaded.reporter.log(errors.failed_record(Stage.KAFKA_PRODUCE, name, failure, None))

    async def batch_dispatched(self) -> None:
        """Do nothing: offsets are committed at an interval."""

    async def pausing(self) -> None:
        """Let commits during the pause write the offsets that the hook has not seen."""
        self._pausing = True

    async def finish(self, *, failed: bool) -> None:
        """Wait for records in flight, up to the flush time-out, and commit once more.

        The task hears of all acknowledged records, also if it has failed, as in Kafka.
        """
        self._is_ending = True
        await cancel_all(self._committers)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._loaded.settings.offset_flush_timeout_ms / 1_000):
                while self._in_flight() and self._failure is None:
                    self._settled.clear()
                    await self._settled.wait()
        self._commit_unseen()
        await self._commit(tell=not failed)
        await self._tell_acknowledged()
        if not failed:
            self._raise_failure()

    def abandon(self) -> None:
        """Cancel the commits at an interval; no further commit begins."""
        self._is_ending = True
        for committer in self._committers:
            committer.cancel()

    def _fail_without_commits(self, committer: "asyncio.Task[None]") -> None:
        """Fail the task if the loop of its commits has ended: it must not go on without them.

        A client may end the loop with `CancelledError`. `finish` and `abandon` cancel it, too.
        """
        if not committer.cancelled():
            failure = committer.exception()
        elif self._is_ending:
            return
        else:
            failure = ConnectError("The commits of offsets at an interval were cancelled")
        if isinstance(failure, Exception):
            self._failure = self._failure or failure

    def _in_flight(self) -> int:
        self._merge()
        return self._submitted.in_flight

    async def _commit_at_intervals(self) -> None:
        interval_s = self._loaded.settings.offset_flush_interval_ms / 1_000
        with offset_logs(self._loaded.identity):
            while True:
                await asyncio.sleep(interval_s)
                await self._commit(tell=True)

    async def _commit(self, *, tell: bool) -> None:
        """Commit the committable offsets; those that are not written wait for the next commit."""
        async with self._committing:
            if self._pausing or not self._calls_hook:
                self._merge()
            if self._pausing:
                self._commit_unseen()
            pending, self._committable = self._committable, {}
            loaded = self._loaded
            try:
                with loaded.metrics.commit():
                    await self._commit_parts(pending)
            except asyncio.CancelledError:
                self._keep(pending)  # the task's last commit writes them
                raise
            except (ProducerFailure, ProducerFenced, TimeoutError) as failure:
                self._keep(pending)
                reason = str(failure) or "the commit timed out"
                loaded.notices.warning("offsets_not_committed", reason=reason)
                if isinstance(failure, ProducerFenced):  # another process runs the task now
                    lost = ConnectError(f"The offsets could not be committed: {failure}")
                    self._failure = self._failure or lost
                return
            if tell and self._failure is None:
                await self._tell_during_poll()
                await loaded.tell_committed()

    async def _tell_acknowledged(self) -> None:
        """Tell the task of acknowledged records, once earlier calls of this method have ended."""
        async with self._telling:
            acknowledged, self._acknowledged = self._acknowledged, []
            await self._loaded.tell_acknowledged(acknowledged)

    async def _tell_during_poll(self) -> None:
        """Begin to tell the task of acknowledged records: its present poll may take long.

        The calls may wait for the poll. Further commits do not wait for the calls.
        """
        if self._acknowledged and not self._telling.locked():
            telling = self._tell_acknowledged()
            background_task(telling, "acknowledged records", self._loaded.notices)
            await asyncio.sleep(0)  # its calls are now submitted, before those about the commit

    async def _commit_parts(self, pending: dict[SourcePartitionId, OffsetPair]) -> None:
        """Commit offsets, and remove the committed ones from `pending`.

        Each part has at most `COMMIT_OFFSETS` offsets. If one part is refused, the others are
        committed all the same. In a Java worker, too, a refused offset does not stop the others:
        the worker sends each offset separately.

        Raises:
            ProducerFailure, ProducerFenced, TimeoutError: the pending offsets are not committed.
        """
        refusal: ProducerFailure | None = None
        partitions = [*pending]
        for first in range(0, len(partitions), COMMIT_OFFSETS):
            part = partitions[first : first + COMMIT_OFFSETS]
            try:
                await self._commit_part([pending[partition] for partition in part])
            except ProducerFailure as failure:
                refusal = refusal or failure
            else:
                for partition in part:
                    del pending[partition]
        if refusal is not None:
            raise refusal

    async def _commit_part(self, pairs: Sequence[OffsetPair]) -> None:
        """Commit some offsets within the flush time-out, which begins after their conversion."""
        loaded = self._loaded
        batches = await loaded.offsets.batches(pairs)
        timeout_s = loaded.settings.offset_flush_timeout_ms / 1_000
        deadline = asyncio.get_running_loop().time() + timeout_s
        async with asyncio.timeout_at(deadline):
            await write_offsets(self._producer, loaded.offsets, batches)
        # The offsets are durable. If the connector has an offsets topic of its own, the worker's
        # topic gets a copy: a failure of the copy does not repeat the commit.
        await write_copy(self._producer, batches.values_of_copy, loaded.notices, deadline)

    def _keep(self, pending: Mapping[SourcePartitionId, OffsetPair]) -> None:
        """Keep offsets for the next commit; later offsets replace them."""
        self._committable = {**pending, **self._committable}

    def _merge(self) -> None:
        """Take over the offsets of acknowledged records."""
        committable = self._unseen if self._calls_hook else self._committable
        committable |= self._submitted.committable()

    def _commit_unseen(self) -> None:
        """Add the offsets that the hook has not seen to the next commit."""
        self._committable |= self._unseen
        self._unseen.clear()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _copied(fields: Mapping[str, Primitive] | None) -> dict[str, Primitive] | None:
    """Return a copy: the task gets the record itself in `acked`, and may change it."""
    return None if fields is None else dict(fields)
