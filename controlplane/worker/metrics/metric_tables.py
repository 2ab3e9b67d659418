"""Metrics of tasks and of the worker: Kafka's name, the meaning, and the value of each.

Kafka: `ConnectMetricsRegistry`. Metrics `…-rate` are left out: Prometheus computes rates from
totals.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from controlplane.core.records import State
from controlplane.worker.metrics.startups import StartupCounts
from controlplane.worker.metrics.task_metrics import (
    SinkTaskMetrics,
    SourceTaskMetrics,
    TaskMetrics,
)
from controlplane.worker.metrics.windows import Distribution

M = TypeVar("M", bound=TaskMetrics)

TASK = "connector-task-metrics"
SOURCE = "source-task-metrics"
SINK = "sink-task-metrics"
ERRORS = "task-error-metrics"
WORKER = "connect-worker-metrics"
"""Names of Kafka's groups of metrics (`ConnectMetricsRegistry`)."""


class MetricRow(NamedTuple, Generic[M]):
    """A metric of tasks: Kafka's name, its meaning, and the value."""

    group: str
    attribute: str
    about: str
    value: Callable[[M], float]


class SummaryRow(NamedTuple, Generic[M]):
    """Sum and count since the start of a task, in addition to an average of Kafka's."""

    group: str
    attribute: str
    about: str
    values: Callable[[M], Distribution]


def prometheus_name(group: str, attribute: str) -> str:
    """Return the name of a metric of Kafka's: `kafka_connect_`, its group, its attribute.

    The group loses `-metrics` at its end and `connect-` at its beginning.
    """
    place = group.removesuffix("-metrics").removeprefix("connect-")
    return f"kafka_connect_{place}_{attribute}".replace("-", "_")


OF_TASKS: Sequence[MetricRow[TaskMetrics]] = (
    MetricRow(
        TASK,
        "running-ratio",
        "Fraction of the time since its start that the task was running.",
        lambda task: task.states.ratio(State.RUNNING),
    ),
    MetricRow(
        TASK,
        "pause-ratio",
        "Fraction of the time since its start that the task was paused.",
        lambda task: task.states.ratio(State.PAUSED),
    ),
    MetricRow(
        TASK,
        "offset-commit-max-time-ms",
        "Longest recent commit of offsets that succeeded.",
        lambda task: task.commit_ms.maximum,
    ),
    MetricRow(
        TASK,
        "offset-commit-avg-time-ms",
        "Average duration of recent commits of offsets that succeeded.",
        lambda task: task.commit_ms.average,
    ),
    MetricRow(
        TASK,
        "offset-commit-success-percentage",
        "Fraction (0 to 1, as in Kafka) of recent commits that succeeded.",
        lambda task: task.commit_outcomes.fraction(1),
    ),
    MetricRow(
        TASK,
        "offset-commit-failure-percentage",
        "Fraction (0 to 1, as in Kafka) of recent commits that failed.",
        lambda task: task.commit_outcomes.fraction(0),
    ),
    MetricRow(
        TASK,
        "batch-size-max",
        "Records in the largest recent batch.",
        lambda task: task.batch_records.maximum,
    ),
    MetricRow(
        TASK,
        "batch-size-avg",
        "Average number of records in recent batches.",
        lambda task: task.batch_records.average,
    ),
    MetricRow(
        ERRORS,
        "total-record-failures",
        "Failed attempts of operations on records.",
        lambda task: task.errors.failures,
    ),
    MetricRow(
        ERRORS,
        "total-record-errors",
        "Operations on records that failed for good.",
        lambda task: task.errors.errors,
    ),
    MetricRow(
        ERRORS,
        "total-records-skipped",
        "Records dropped because of tolerated errors of transformations or converters.",
        lambda task: task.errors.skipped,
    ),
    MetricRow(ERRORS, "total-retries", "Retries.", lambda task: task.errors.retries),
    MetricRow(
        ERRORS,
        "total-errors-logged",
        "Errors that were logged.",
        lambda task: task.errors.logged,
    ),
    MetricRow(
        ERRORS,
        "deadletterqueue-produce-requests",
        "Attempted writes of dead letters.",
        lambda task: task.errors.dead_letters,
    ),
    MetricRow(
        ERRORS,
        "deadletterqueue-produce-failures",
        "Dead letters that could not be written.",
        lambda task: task.errors.failed_dead_letters,
    ),
    MetricRow(
        ERRORS,
        "last-error-timestamp",
        "Time of the last error, in milliseconds since 1970; 0 without one.",
        lambda task: task.errors.last_error_ms,
    ),
)

OF_SOURCES: Sequence[MetricRow[SourceTaskMetrics]] = (
    MetricRow(
        SOURCE,
        "source-record-poll-total",
        "Records that the task has yielded, before transformations.",
        lambda task: task.polled,
    ),
    MetricRow(
        SOURCE,
        "source-record-write-total",
        "Records of the task that are in the log, after transformations.",
        lambda task: task.written,
    ),
    MetricRow(
        SOURCE,
        "poll-batch-max-time-ms",
        "Longest recent poll that returned records.",
        lambda task: task.poll_ms.maximum,
    ),
    MetricRow(
        SOURCE,
        "poll-batch-avg-time-ms",
        "Average duration of recent polls that returned records.",
        lambda task: task.poll_ms.average,
    ),
    MetricRow(
        SOURCE,
        "source-record-active-count",
        "Records that are not yet in the log.",
        lambda task: task.active,
    ),
    MetricRow(
        SOURCE,
        "source-record-active-count-max",
        "Recent maximum of the number of records that were not yet in the log.",
        lambda task: task.active_records.maximum,
    ),
    MetricRow(
        SOURCE,
        "source-record-active-count-avg",
        "Recent average of the number of records that were not yet in the log.",
        lambda task: task.active_records.average,
    ),
    MetricRow(
        SOURCE,
        "transaction-size-min",
        "Records in the smallest recent transaction that was committed.",
        lambda task: task.transaction_records.minimum,
    ),
    MetricRow(
        SOURCE,
        "transaction-size-max",
        "Records in the largest recent transaction that was committed.",
        lambda task: task.transaction_records.maximum,
    ),
    MetricRow(
        SOURCE,
        "transaction-size-avg",
        "Average number of records in recent transactions that were committed.",
        lambda task: task.transaction_records.average,
    ),
)

OF_SINKS: Sequence[MetricRow[SinkTaskMetrics]] = (
    MetricRow(
        SINK,
        "sink-record-read-total",
        "Records that the task has consumed, before transformations.",
        lambda task: task.read,
    ),
    MetricRow(
        SINK,
        "sink-record-send-total",
        "Records that the task's put has taken, after transformations.",
        lambda task: task.sent,
    ),
    MetricRow(
        SINK,
        "put-batch-max-time-ms",
        "Longest recent put.",
        lambda task: task.put_ms.maximum,
    ),
    MetricRow(
        SINK,
        "put-batch-avg-time-ms",
        "Average duration of recent puts.",
        lambda task: task.put_ms.average,
    ),
    MetricRow(
        SINK,
        "sink-record-active-count",
        "Records that were read, and whose offsets are not committed.",
        lambda task: task.active,
    ),
    MetricRow(
        SINK,
        "sink-record-active-count-max",
        "Recent maximum of the number of records whose offsets were not committed.",
        lambda task: task.active_records.maximum,
    ),
    MetricRow(
        SINK,
        "sink-record-active-count-avg",
        "Recent average of the number of records whose offsets were not committed.",
        lambda task: task.active_records.average,
    ),
    MetricRow(
        SINK,
        "partition-count",
        "Partitions that the task consumes.",
        lambda task: task.partitions,
    ),
    MetricRow(
        SINK,
        "offset-commit-seq-no",
        "Sequence number of the last commit.",
        lambda task: task.commit_number,
    ),
    MetricRow(
        SINK,
        "offset-commit-completion-total",
        "Commits that succeeded.",
        lambda task: task.commits,
    ),
    MetricRow(
        SINK,
        "offset-commit-skip-total",
        "Commits that ended only after a later commit: always 0, as a task awaits each commit "
        "before the next one.",
        lambda _: 0,
    ),
)

TASK_SUMMARIES: Sequence[SummaryRow[TaskMetrics]] = (
    SummaryRow(
        TASK, "offset-commit-time-ms", "Commits that succeeded.", lambda task: task.commit_ms
    ),
    SummaryRow(TASK, "batch-size", "Batches of records.", lambda task: task.batch_records),
)
SOURCE_SUMMARIES: Sequence[SummaryRow[SourceTaskMetrics]] = (
    SummaryRow(
        SOURCE, "poll-batch-time-ms", "Polls that returned records.", lambda task: task.poll_ms
    ),
    SummaryRow(
        SOURCE,
        "transaction-size",
        "Records in transactions that were committed.",
        lambda task: task.transaction_records,
    ),
)
SINK_SUMMARIES: Sequence[SummaryRow[SinkTaskMetrics]] = (
    SummaryRow(SINK, "put-batch-time-ms", "Puts.", lambda task: task.put_ms),
)


class StartupRow(NamedTuple):
    """A metric of starts; `{}` in `about` stands for `connectors` or `tasks`."""

    attribute: str
    about: str
    value: Callable[[StartupCounts], float]


STARTUPS: Sequence[StartupRow] = (
    StartupRow("attempts-total", "Starts of {}.", lambda starts: starts.attempts),
    StartupRow("success-total", "Starts of {} that succeeded.", lambda starts: starts.successes),
    StartupRow("failure-total", "Starts of {} that failed.", lambda starts: starts.failures),
    StartupRow(
        "success-percentage",
        "Fraction (0 to 1, as in Kafka) of recent starts of {} that succeeded.",
        lambda starts: starts.outcomes.fraction(1),
    ),
    StartupRow(
        "failure-percentage",
        "Fraction (0 to 1, as in Kafka) of recent starts of {} that failed.",
        lambda starts: starts.outcomes.fraction(0),
    ),
)
