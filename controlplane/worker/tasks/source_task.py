"""Loop of a source task: poll, convert, send, commit (Kafka: `AbstractWorkerSourceTask`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, NamedTuple, Protocol

from controlplane.connect.errors import ConnectError, RetriableError
from controlplane.connect.records import SourceRecord
from controlplane.connect.source import Mark, OffsetPairs, TransactionAbort, TransactionCommit
from controlplane.failure_text import description_of
from controlplane.notices import Notices
from controlplane.worker.background_tasks import background_task
from controlplane.worker.data_topics.clients import ProducerRecord, note_place
from controlplane.worker.data_topics.state_topics import refuse_state_topic
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.source_context import PolledItem, PolledRecord
from controlplane.worker.drivers.source_drivers import (
    Acknowledged,
    DelayedCall,
    OffsetsToCommit,
    SourceDriver,
)
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.task_control import TaskControl
from controlplane.worker.metrics.task_metrics import SourceTaskMetrics
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from controlplane.worker.records.conversion import SourcePipeline
from controlplane.worker.records.error_reports import ErrorReporter
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.task_identity import TaskIdentity
from controlplane.worker.tasks.source_topics import SourceTopics
from controlplane.worker.tasks.task_end import pipeline_closed, stop_quietly

Boundary = TransactionCommit | TransactionAbort

EMPTY_POLL_S = 0.001
"""Pause after a poll without items, so that a task whose polls never wait does not occupy a core.

It is also the pause between two attempts to call `update_offsets` at the end of a transaction.
"""


RETRIED_POLL_S = 0.1
"""Pause after a poll that raised `RetriableError`; it limits the log lines.

Kafka has no such pause.
"""


class SentRecord(NamedTuple):
    """A record of the source, and its form in the log; None: it is not sent."""

    record: SourceRecord
    converted: ProducerRecord | None


DispatchItem = SentRecord | Mark | Boundary


class ConvertedItems(NamedTuple):
    """Converted items of a poll, up to a record that fails the task."""

    items: list[DispatchItem]
    failure: Exception | None = None
    """Failure of the next record; None: these are all items."""


def record_failure(text: str, place: str) -> ConnectError:
    """Return the failure of a task because of one of its records, which comes from `place`.

    The place is empty if it is unknown, or if the record is not the cause.
    """
    failure = ConnectError(text)
    note_place(failure, place)
    return failure


class LoadedSourceTask(NamedTuple):
    """A loaded source task: the author's object, and the parts through which its records pass."""

    identity: TaskIdentity
    driver: SourceDriver
    thread: AuthorThread
    """Thread in which transformations and converters run."""
    pipeline: SourcePipeline
    topics: SourceTopics
    state_topics: frozenset[str]
    """Topics that get no records: they have the control plane's state."""
    reporter: ErrorReporter
    offsets: SourceOffsetStore
    control: TaskControl
    settings: RuntimeSettings
    config: Mapping[str, Any]
    note_topic: Callable[[str], None]
    """Called with the topic of each record that is in the log (KIP-558)."""
    notices: Notices
    updates_offsets: bool
    """True: `update_offsets` is called (KIP-910). Only the profile `kip` does so, no release."""
    metrics: SourceTaskMetrics

    async def ask_for_offsets(self, about_to_commit: OffsetsToCommit) -> OffsetPairs | None:
        """Show copies of offsets to the task's `update_offsets`, and return its answer (KIP-910).

        The caller must change none of the offsets meanwhile.

        A `RetriableError` is an empty answer. None: the hook cannot be called now, so the offsets
        must not be committed yet.
        """
        try:
            return await self.driver.update_offsets(about_to_commit)
        except RetriableError as failure:
            self.notices.warning(
                "offsets_hook_skipped", reason=await text_in_time(description_of, failure)
            )
            return ()

    async def converted(self, items: Sequence[PolledItem]) -> ConvertedItems:
        """Transform and convert the records of a poll in `thread`, and report those that failed.

        A record fails the task if its error is not tolerated, or if its topic has the control
        plane's state.
        """
        if not any(isinstance(item, PolledRecord) for item in items):
            return ConvertedItems([item for item in items if not isinstance(item, PolledRecord)])

        def converted() -> ConvertedItems:
            sent: list[DispatchItem] = []
            try:
                for item in items:
                    if isinstance(item, PolledRecord):
                        sent.append(self._sent(item))
                    else:
                        sent.append(item)
            except Exception as failure:  # noqa: BLE001 - raised once the others are sent
                return ConvertedItems(sent, failure)
            return ConvertedItems(sent)

        try:
            records: ConvertedItems = await self.thread.call(converted)
        finally:  # also for the record that fails the task
            await self.reporter.report()
        return records

    def _sent(self, polled: PolledRecord) -> SentRecord:
        record, place = polled
        try:
            converted = self.pipeline.converted(record, place)
            if converted is not None:
                refuse_state_topic(self.identity.connector, converted.topic, self.state_topics)
        except Exception as failure:
            note_place(failure, place)
            raise
        return SentRecord(record, converted)

    async def tell_acknowledged(self, records: Sequence[Acknowledged]) -> None:
        """Call the task's `commit_record` or `acked` for each record; Kafka only logs failures."""
        await self._log_failure("acked_hook_failed", self.driver.acknowledged(records))

    async def tell_committed(self) -> None:
        """Call the task's `commit` or `committed`; Kafka only logs failures."""
        await self._log_failure("commit_hook_failed", self.driver.committed())

    async def _log_failure(self, event: str, call: Awaitable[DelayedCall | None]) -> None:
        """Await a call of a hook; log its failure, also if the hook is called later."""
        try:
            delayed = await call
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            await self._log_hook(event, failure)
        else:
            if delayed is not None:
                delayed.add_done_callback(partial(self._log_delayed, event))

    def _log_delayed(self, event: str, call: DelayedCall) -> None:
        if not call.cancelled() and (failure := call.exception()) is not None:
            background_task(self._log_hook(event, failure), "hook report", self.notices)

    async def _log_hook(self, event: str, failure: BaseException) -> None:
        self.notices.warning(event, reason=await text_in_time(description_of, failure))


class Delivery(Protocol):
    """Delivery of records and offsets to the log: at least once, or exactly once."""

    def started(self) -> None:
        """Take note that the task has started: from now on it may be told of commits."""
        ...

    async def begin_iteration(self) -> None:
        """Raise a failure that ends the task, and take note of acknowledgements."""
        ...

    async def before_poll(self) -> None:
        """Prepare the next poll. All items of earlier polls have been dispatched."""
        ...

    async def dispatch(self, items: Sequence[DispatchItem], *, complete: bool = True) -> None:
        """Send the items of one poll in order. `complete` is False if further records follow."""
        ...

    async def batch_dispatched(self) -> None:
        """Take note that all items of one poll are dispatched; also called after an empty poll."""
        ...

    async def pausing(self) -> None:
        """Prepare a pause of the task."""
        ...

    async def finish(self, *, failed: bool) -> None:
        """Commit for the last time: the task has ended."""
        ...

    def abandon(self) -> None:
        """Commit nothing any more: the task was abandoned."""
        ...


class SourceTaskRun:
    """One run of a source task, from its start to its end."""

    def __init__(
        self,
        loaded: LoadedSourceTask,
        open_delivery: Callable[[], AbstractAsyncContextManager[Delivery]],
    ) -> None:
        self._loaded = loaded
        self._open_delivery = open_delivery

    async def run(self, started: Callable[[], None], paused: Callable[[bool], None]) -> None:
        """Run until the task shall stop. `started` is called after the author's `start`.

        Raises:
            Exception: the task failed; everything is closed.
        """
        loaded, driver, control = self._loaded, self._loaded.driver, self._loaded.control
        async with (
            pipeline_closed(loaded.pipeline, loaded.thread, loaded.notices),
            self._open_delivery() as delivery,
        ):
            if control.paused:
                paused(True)
                await control.while_paused()
            if control.stopping:
                return  # never started: no method of the task is called
            async with _stopped(driver, loaded.notices), _finished(delivery):
                await driver.start()
                started()
                delivery.started()
                await self._loop(delivery, paused)

    async def _loop(self, delivery: Delivery, paused: Callable[[bool], None]) -> None:
        control = self._loaded.control
        while not control.stopping:
            await delivery.begin_iteration()
            if control.paused:
                await delivery.pausing()
                paused(True)
                await control.while_paused()
                if not control.stopping:
                    paused(False)
                continue
            await delivery.before_poll()
            began_s = monotonic()
            items = await self._polled()
            if items is None:
                return
            if records := sum(isinstance(item, PolledRecord) for item in items):
                self._loaded.metrics.polled_batch(records, monotonic() - began_s)
            converted, failure = await self._loaded.converted(items)
            await delivery.dispatch(converted, complete=failure is None)
            if failure is not None:  # as in Kafka, the records before the failed one are sent
                raise failure
            await delivery.batch_dispatched()
            if not items:
                await asyncio.sleep(EMPTY_POLL_S)

    async def _polled(self) -> Sequence[PolledItem] | None:
        """Poll; None: the task shall stop, and a poll that can be cancelled is cancelled.

        If the driver repeats polls, a `RetriableError` counts as an empty poll. Otherwise, the task
        fails.
        """
        control = self._loaded.control
        poll = asyncio.ensure_future(self._loaded.driver.poll())
        stop = asyncio.ensure_future(control.until_stopped())
        try:
            await asyncio.wait({poll, stop}, return_when=asyncio.FIRST_COMPLETED)
            return poll.result() if poll.done() else None
        except RetriableError as failure:
            if not self._loaded.driver.repeats_polls:
                raise
            self._loaded.notices.warning(
                "source_polled_again", reason=await text_in_time(description_of, failure)
            )
            await asyncio.sleep(RETRIED_POLL_S)
            return []
        finally:
            for waiting in (poll, stop):
                waiting.cancel()
            await asyncio.gather(poll, stop, return_exceptions=True)


@asynccontextmanager
async def _stopped(driver: SourceDriver, notices: Notices) -> AsyncIterator[None]:
    """Stop the author's task at the end of the block, whatever happened in it."""
    try:
        yield
    finally:
        await stop_quietly(driver, notices)


@asynccontextmanager
async def _finished(delivery: Delivery) -> AsyncIterator[None]:
    """Commit for the last time at the end of the block; not if it was abandoned."""
    try:
        yield
    except asyncio.CancelledError:
        delivery.abandon()
        raise
    except BaseException:
        await delivery.finish(failed=True)
        raise
    else:
        await delivery.finish(failed=False)
