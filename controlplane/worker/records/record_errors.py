"""Errors of single records: retries, tolerance, log lines, dead letters (KIP-298, KIP-610).

Kafka: `RetryWithToleranceOperator`. Transformations and converters run in a thread of the task, so
a retry may wait there. The event loop takes the failures, and ends the wait by `stop`.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from threading import Event
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from controlplane.connect.errors import ConnectError, RetriableError
from controlplane.core.entry import Entry, Headers
from controlplane.core.java.java_library import trim
from controlplane.failure_text import description_of, message_of, trace_of
from controlplane.worker.metrics.error_metrics import ErrorMetrics

T = TypeVar("T")

FIRST_DELAY_MS = 300
"""First pause before an operation is retried; it doubles each time (`RETRIES_DELAY_MIN_MS`)."""


class Stage(Enum):
    """Stage at which a record failed (Kafka: `Stage`)."""

    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


class ErrorSettings(NamedTuple):
    """Settings `errors.*` of a connector (KIP-298)."""

    retry_timeout_ms: int = 0
    """Time for retries; -1: without end."""
    retry_delay_max_ms: int = 60_000
    tolerant: bool = False
    log: bool = False
    log_records: bool = False
    dead_letter_topic: str = ""
    dead_letter_headers: bool = False

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "ErrorSettings":
        """Read the settings of a connector's config; as in Kafka, outer blanks do not count."""
        return cls(
            int(config.get("errors.retry.timeout") or 0),
            int(config.get("errors.retry.delay.max.ms") or 60_000),
            tolerant=trim(config.get("errors.tolerance") or "") == "all",
            log=_is_true(config.get("errors.log.enable")),
            log_records=_is_true(config.get("errors.log.include.messages")),
            dead_letter_topic=trim(config.get("errors.deadletterqueue.topic.name") or ""),
            dead_letter_headers=_is_true(
                config.get("errors.deadletterqueue.context.headers.enable")
            ),
        )


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"


class ErrorTexts(NamedTuple):
    """Class and texts of the exception for which a record failed."""

    class_name: str
    message: str
    trace: str


class FailedRecord(NamedTuple):
    """A record that failed, and where."""

    stage: Stage
    class_name: str
    reason: str
    """Description of the exception for the log line; empty if failures are not logged."""
    texts: ErrorTexts | None
    """Texts for the headers of the dead letter; None: it gets none."""
    entry: Entry | None
    """The record in the log; None: it comes from a source."""


class ToleranceExceeded(ConnectError):
    """A record failed, and `errors.tolerance` is `none`."""


class RetriesStopped(ConnectError):
    """The task stops while a record is retried. The record did not fail: it is read again later."""


class RecordErrors:
    """Runs the stages of one task, and keeps the failures until they are reported."""

    def __init__(self, settings: ErrorSettings, metrics: ErrorMetrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or ErrorMetrics()
        self._failures: list[FailedRecord] = []
        self._stopping = Event()

    def stop(self) -> None:
        """End the wait of a retry: neither that retry nor another one follows."""
        self._stopping.set()

    def run(
        self, stage: Stage, class_name: str, operation: Callable[[], T], entry: Entry | None
    ) -> T | None:
        """Run a stage for one record, with retries; None: it failed, and that is tolerated.

        Raises:
            ToleranceExceeded: it failed.
            RetriesStopped: the task stops.
        """
        try:
            return self._retried(operation)
        except RetriesStopped:
            raise
        except Exception as error:
            self.metrics.gave_up(tolerated=self.settings.tolerant)
            self._failures.append(self.failed_record(stage, class_name, error, entry))
            if not self.settings.tolerant:
                raise ToleranceExceeded("Tolerance exceeded in error handler") from error
            return None

    def failed_record(
        self, stage: Stage, class_name: str, error: BaseException, entry: Entry | None
    ) -> FailedRecord:
        """Return a failure with the texts that its report needs; called in a thread of the task.

        Reading a text may run author's code, which may block.
        """
        settings = self.settings
        reason = description_of(error) if settings.log else ""
        texts = None
        if settings.dead_letter_topic and settings.dead_letter_headers and entry is not None:
            texts = ErrorTexts(_java_name(error), message_of(error), trace_of(error))
        return FailedRecord(stage, class_name, reason, texts, entry)

    @property
    def failed(self) -> int:
        """Number of failures that are not reported yet."""
        return len(self._failures)

    def take_failures(self) -> list[FailedRecord]:
        """Return the failures since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def _retried(self, operation: Callable[[], T]) -> T:
        timeout_ms = self.settings.retry_timeout_ms
        deadline = None if timeout_ms < 0 else monotonic() + timeout_ms / 1_000
        delay_ms = FIRST_DELAY_MS
        while True:
            try:
                return operation()
            except RetriableError as error:
                self.metrics.attempt_failed()
                left_s = None if deadline is None else deadline - monotonic()
                if left_s is not None and left_s <= 0:
                    raise
                pause_s = min(delay_ms, self.settings.retry_delay_max_ms) / 1_000
                self._stopping.wait(pause_s if left_s is None else min(pause_s, left_s))
                self.metrics.retried()  # as Kafka, also if the task stops
                if self._stopping.is_set():
                    raise RetriesStopped("The task stops: nothing is retried") from error
                delay_ms *= 2
            except Exception:
                self.metrics.attempt_failed()
                raise


def dead_letter_headers(
    failed: FailedRecord, connector: str, task: int, excerpt: Callable[[str], str]
) -> Headers:
    """Return the headers with the reason of a dead letter; `excerpt` removes secrets."""
    entry, texts = failed.entry, failed.texts
    if texts is None:
        return ()
    context: dict[str, Any] = {
        "topic": entry.topic if entry else "",
        "partition": entry.partition if entry else -1,
        "offset": entry.offset if entry else -1,
        "connector.name": connector,
        "task.id": task,
        "stage": failed.stage.value,
        "class.name": failed.class_name,
        "exception.class.name": texts.class_name,
        "exception.message": texts.message,
        "exception.stacktrace": texts.trace,
    }
    return tuple(
        (f"__connect.errors.{name}", excerpt(str(value)).encode("utf-8", "replace"))
        for name, value in context.items()
    )


def _java_name(error: BaseException) -> str:
    """Return the class of an error by its full name."""
    return f"{type(error).__module__}.{type(error).__qualname__}"
