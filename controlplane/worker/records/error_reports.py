"""Reports of failed records: log lines and dead letters (KIP-298, KIP-610)."""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from controlplane.core.entry import Entry, TopicPartition
from controlplane.event_loop import sliced
from controlplane.notices import Notices
from controlplane.worker.data_topics.clients import Producer, ProducerRecord
from controlplane.worker.records.record_errors import (
    FailedRecord,
    RecordErrors,
    ToleranceExceeded,
    dead_letter_headers,
)
from controlplane.worker.task_identity import TaskIdentity


class ErrorReport:
    """A report that is on its way (`ErrantRecordReporter`).

    `await` it in a coroutine, or call `wait` elsewhere.
    """

    def __init__(self, sending: "Future[None]") -> None:
        self._sending = sending

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a coroutine until the report is in the log, or has failed.

        A coroutine that stops waiting does not cancel the report: the next commit awaits it.
        """
        return asyncio.shield(asyncio.wrap_future(self._sending)).__await__()

    def wait(self) -> None:
        """Block the calling thread until the report is in the log, or has failed."""
        self._sending.result()


class ErrorReporter:
    """Reports the failures of one task as its `errors.*` settings say."""

    def __init__(
        self,
        task: TaskIdentity,
        errors: RecordErrors,
        notices: Notices,
        excerpt: Callable[[str], str],
    ) -> None:
        self._task = task
        self._errors = errors
        self._notices = notices
        self._excerpt = excerpt
        """Removes the values of config providers from the headers of dead letters."""

    async def report(self, dead_letters: Producer | None = None) -> None:
        """Report the failures since the last call; return when the dead letters are in the log.

        Raises:
            ProducerFailure, ProducerFenced: a dead letter cannot be written.
        """
        await self.report_each(self._errors.take_failures(), dead_letters)

    async def report_each(
        self, failures: Sequence[FailedRecord], dead_letters: Producer | None
    ) -> None:
        """Report these failures; return when the dead letters are in the log.

        Raises:
            ProducerFailure, ProducerFenced: a dead letter cannot be written.
        """
        topic = self._errors.settings.dead_letter_topic
        letters: list[ProducerRecord] = []
        # In slices: the search of a trace for secrets may take milliseconds.
        async for failed in sliced(failures):
            self.log(failed)
            if topic and failed.entry is not None:
                letters.append(self._letter(topic, failed, failed.entry))
        if dead_letters is not None and letters:
            await self._send(dead_letters, letters)

    def log(self, failed: FailedRecord) -> None:
        """Write and count the log line of a failure, if `errors.log.enable` is true."""
        settings = self._errors.settings
        if not settings.log:
            return
        facts: dict[str, Any] = {}
        if settings.log_records and failed.entry is not None:
            entry = failed.entry
            facts = {"record": f"{entry.topic}-{entry.partition}@{entry.offset}"}
        self._errors.metrics.was_logged()
        self._notices.warning(
            "record_failed",
            task=str(self._task),
            stage=failed.stage.value,
            class_name=failed.class_name,
            reason=failed.reason,
            **facts,
        )

    async def _send(self, producer: Producer, letters: Sequence[ProducerRecord]) -> None:
        """Write dead letters.

        Raises:
            ProducerFailure, ProducerFenced: one of them cannot be written.
        """
        metrics = self._errors.metrics
        metrics.dead_letters_requested(len(letters))
        sending = await producer.send(letters)
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            metrics.dead_letters_failed(len(failures))
            raise failures[0]

    def _letter(self, topic: str, failed: FailedRecord, entry: Entry) -> ProducerRecord:
        """Return the record as it was in the log, with the reason in its headers if wanted."""
        context = dead_letter_headers(failed, *self._task, self._excerpt)
        return ProducerRecord(
            topic,
            entry.key,
            entry.value,
            timestamp=entry.timestamp if entry.timestamp >= 0 else None,
            headers=(*entry.headers, *context),
        )


class SinkReports:
    """Reports of records that a sink task cannot take (KIP-610)."""

    def __init__(self, reporter: ErrorReporter, *, tolerant: bool) -> None:
        self._reporter = reporter
        self._tolerant = tolerant
        self._loop = asyncio.get_running_loop()
        self._sending: set[Future[None]] = set()
        """Reports that are under way or have failed. The next commit awaits them."""
        self._refused: list[tuple[Entry | None, BaseException]] = []
        """Reported records and their errors, if no error is tolerated."""

    def begin(
        self, failed: FailedRecord, error: BaseException, dead_letters: Producer | None
    ) -> ErrorReport:
        """Begin to report a record; called in a thread of the task.

        Raises:
            ToleranceExceeded: no error is tolerated.
        """
        sending = asyncio.run_coroutine_threadsafe(
            self._reporter.report_each([failed], dead_letters), self._loop
        )
        self._sending.add(sending)
        sending.add_done_callback(self._settle)
        if not self._tolerant:
            self._refused.append((failed.entry, error))
            raise ToleranceExceeded("Error tolerance exceeded") from error
        return ErrorReport(sending)

    def _settle(self, sending: "Future[None]") -> None:
        """Forget a report that has succeeded; keep a failed one, so that the next commit fails."""
        if not sending.cancelled() and sending.exception() is None:
            self._sending.discard(sending)

    def raise_swallowed(self) -> None:
        """Raise the error of a refused record, although the sink's `put` has raised none.

        The sink has swallowed it, or has reported the record in another thread. Kafka:
        `WorkerErrantRecordReporter.maybeThrowAsyncError`.

        Raises:
            ToleranceExceeded: a record was refused.
        """
        if self._refused:
            _, error = self._refused[0]
            raise ToleranceExceeded("Tolerance exceeded in error handler") from error

    async def settled(self, consumed: Mapping[TopicPartition, int]) -> None:
        """Wait until all reports are in the log: offsets are committed only afterwards (KIP-610).

        `consumed`: offsets after the records that the task has taken, by partition.

        Raises:
            ToleranceExceeded: the offsets are beyond a refused record.
            Exception: a report has failed.
        """
        await asyncio.gather(*map(asyncio.wrap_future, [*self._sending]))
        if any(_is_passed(entry, consumed) for entry, _ in self._refused):
            self.raise_swallowed()


def _is_passed(entry: Entry | None, consumed: Mapping[TopicPartition, int]) -> bool:
    """True if the offsets are beyond a record, or the partition of the record is unknown."""
    if entry is None:
        return True
    offset = consumed.get((entry.topic, entry.partition))
    return offset is None or entry.offset < offset
