"""Metrics of one run of a task; the next run begins with new ones.

Kafka: `TaskMetricsGroup`, `SourceTaskMetricsGroup`, `SinkTaskMetricsGroup`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from controlplane.core.entry import TopicPartition
from controlplane.core.records import State
from controlplane.worker.metrics.error_metrics import ErrorMetrics
from controlplane.worker.metrics.startups import Startup, StartupCounts
from controlplane.worker.metrics.windows import Clock, Distribution, StateTimes

_MS = 1_000


class TaskMetrics:
    """Metrics that tasks of both kinds have."""

    def __init__(self, starts: StartupCounts, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._startup = Startup(starts)
        self.states = StateTimes(clock)
        self.commit_ms = Distribution(clock)
        """Durations in milliseconds of commits that succeeded."""
        self.commit_outcomes = Distribution(clock)
        """1 for a commit that succeeded, 0 for one that failed."""
        self.batch_records = Distribution(clock)
        """Sizes of batches that were polled, or put."""
        self.errors = ErrorMetrics()

    def reached(self, state: State) -> None:
        """Enter a state. The first RUNNING or FAILED is the outcome of the start."""
        self.states.change(state)
        if state is State.RUNNING:
            self._startup.succeeded()
        elif state is State.FAILED:
            self._startup.failed()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Measure a commit of offsets; it has failed if the block raises."""
        began_s = self._clock()
        try:
            yield
        except Exception:
            self.commit_failed()
            raise
        self.committed(self._clock() - began_s)

    def committed(self, took_s: float) -> None:
        """Count a commit that succeeded, with its duration in seconds."""
        self.commit_ms.record(_MS * took_s)
        self.commit_outcomes.record(1)

    def commit_failed(self) -> None:
        """Count a commit that failed."""
        self.commit_outcomes.record(0)


class SourceTaskMetrics(TaskMetrics):
    """Metrics of a source task (`SourceTaskMetricsGroup`)."""

    def __init__(self, starts: StartupCounts, clock: Clock = monotonic) -> None:
        super().__init__(starts, clock)
        self.polled = 0
        """Records that the task has yielded, before transformations."""
        self.written = 0
        """Records that are in the log."""
        self.dropped = 0
        """Records that were filtered, aborted, or whose errors are tolerated."""
        self.poll_ms = Distribution(clock)
        self.active_records = Distribution(clock)
        """Number of active records, observed at each poll with records."""
        self.transaction_records = Distribution(clock)
        """Numbers of records in committed transactions; none without exactly-once support."""

    def polled_batch(self, records: int, took_s: float) -> None:
        """Count the records of a poll."""
        self.polled += records
        self.poll_ms.record(_MS * took_s)
        self.batch_records.record(records)
        self.active_records.record(self.active)

    @property
    def active(self) -> int:
        """Records that were polled and are neither in the log nor dropped."""
        return self.polled - self.written - self.dropped


class SinkTaskMetrics(TaskMetrics):
    """Metrics of a sink task (`SinkTaskMetricsGroup`)."""

    def __init__(self, starts: StartupCounts, clock: Clock = monotonic) -> None:
        super().__init__(starts, clock)
        self.read = 0
        """Records that were consumed, before transformations."""
        self.sent = 0
        """Number of records in the calls of `put` that have returned."""
        self.put_ms = Distribution(clock)
        self.partitions = 0
        """Number of partitions that the task consumes."""
        self.commit_number = 0
        """Sequence number of the last commit, failed ones included."""
        self.active = 0
        """Records that were read, and whose offsets are not committed."""
        self.active_records = Distribution(clock)
        """Number of active records, observed whenever it may have changed."""

    def put_batch(self, records: int, took_s: float) -> None:
        """Count the records of a `put` that has returned."""
        self.sent += records
        self.put_ms.record(_MS * took_s)
        self.batch_records.record(records)

    def moved(
        self, consumed: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
    ) -> None:
        """Compute the active records from the next offsets to consume, and the committed ones."""
        self.active = sum(
            max(0, consumed[partition] - offset)
            for partition, offset in committed.items()
            if partition in consumed
        )
        self.active_records.record(self.active)

    @property
    def commits(self) -> int:
        """Number of commits that succeeded."""
        return int(self.commit_outcomes.total)
