"""Counts of failed records of one task (Kafka: `ErrorHandlingMetrics`)."""

from collections.abc import Callable
from threading import Lock

from controlplane.event_loop import now_ms


class ErrorMetrics:
    """Counts since the task was started. Threads of the task and the event loop record them."""

    def __init__(self, now: Callable[[], int] = now_ms) -> None:
        self._now_ms = now
        self._lock = Lock()
        self.failures = 0
        """Number of failed attempts of operations, retries included."""
        self.errors = 0
        """Operations that failed for good."""
        self.skipped = 0
        """Records dropped because of tolerated errors of transformations or converters."""
        self.retries = 0
        self.logged = 0
        self.dead_letters = 0
        """Attempted writes of dead letters."""
        self.failed_dead_letters = 0
        self.last_error_ms = 0
        """Time of the last error, in milliseconds since 1970; 0 without one."""

    def attempt_failed(self) -> None:
        """Count a failed attempt of an operation."""
        with self._lock:
            self.failures += 1

    def retried(self) -> None:
        """Count one retry of an operation."""
        with self._lock:
            self.retries += 1

    def gave_up(self, *, tolerated: bool) -> None:
        """Count an operation that failed for good; its attempts are counted already."""
        with self._lock:
            self.errors += 1
            self.skipped += tolerated
            self.last_error_ms = self._now_ms()

    def failed(self, *, tolerated: bool) -> None:
        """Count a failure outside of transformations and converters.

        Such failures are a record that a sink reports (KIP-610), and a send that is tolerated.
        """
        with self._lock:
            self.failures += 1
            self.errors += not tolerated
            self.last_error_ms = self._now_ms()

    def was_logged(self) -> None:
        """Count a log line about a failed record."""
        with self._lock:
            self.logged += 1

    def dead_letters_requested(self, letters: int) -> None:
        """Count attempted writes of dead letters."""
        with self._lock:
            self.dead_letters += letters

    def dead_letters_failed(self, letters: int) -> None:
        """Count dead letters that could not be written."""
        with self._lock:
            self.failed_dead_letters += letters
