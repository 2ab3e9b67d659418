"""Averages, maxima and ratios over time, and the names of metrics."""

from math import isnan
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from controlplane.core.records import State
from controlplane.worker.metrics.exposition import metric_families
from controlplane.worker.metrics.metric_tables import (
    OF_SINKS,
    OF_SOURCES,
    OF_TASKS,
    MetricRow,
    prometheus_name,
)
from controlplane.worker.metrics.startups import StartupCounts, WorkerStartups
from controlplane.worker.metrics.task_metrics import SinkTaskMetrics, SourceTaskMetrics
from controlplane.worker.metrics.windows import WINDOW_S, Distribution, StateTimes
from controlplane.worker.task_identity import TaskIdentity

DOCUMENT = Path(__file__).parents[2] / "docs" / "connectors.md"


class FakeClock:
    """Clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time that the test has set."""
        return self.now_s


def test_old_values_leave_averages_and_extremes() -> None:
    """A value counts for 30 to 60 seconds; count and sum keep it."""
    clock = FakeClock()
    values = Distribution(clock)
    assert isnan(values.average)
    assert isnan(values.maximum)
    assert isnan(values.minimum)
    values.record(10)
    clock.now_s = WINDOW_S
    for value in (2, 12, 4):
        values.record(value)
    assert (values.average, values.maximum, values.minimum) == (7, 12, 2)
    clock.now_s = 2 * WINDOW_S
    values.record(5)
    assert (values.average, values.maximum, values.minimum) == (23 / 4, 12, 2)
    clock.now_s = 3 * WINDOW_S
    assert (values.average, values.maximum, values.minimum) == (5, 5, 5)
    clock.now_s = 4 * WINDOW_S
    assert isnan(values.maximum)
    assert isnan(values.minimum)
    assert (values.count, values.total) == (5, 33)


def test_a_long_pause_empties_the_window() -> None:
    """After a long pause, only the new value is in the window."""
    clock = FakeClock()
    values = Distribution(clock)
    for now_s, value in ((0, 9), (WINDOW_S, 8), (5 * WINDOW_S, 1)):
        clock.now_s = now_s
        values.record(value)
    assert (values.average, values.maximum) == (1, 1)


def test_outcomes_are_fractions() -> None:
    """Fractions, not per cent, as Kafka's `Frequencies` has them; 0 without outcomes."""
    outcomes = Distribution()
    assert (outcomes.fraction(0), outcomes.fraction(1)) == (0, 0)
    for outcome in (1, 1, 1, 0):
        outcomes.record(outcome)
    assert (outcomes.fraction(0), outcomes.fraction(1)) == (0.25, 0.75)


def test_a_ratio_is_the_share_of_time() -> None:
    """A ratio is the time in a state, divided by the time since the first state."""
    clock = FakeClock()
    times = StateTimes(clock)
    assert times.ratio(State.RUNNING) == 0
    clock.now_s = 100
    for state, lasts_s in ((State.RUNNING, 1), (State.PAUSED, 2), (State.RUNNING, 3)):
        times.change(state)
        clock.now_s += lasts_s
    assert times.ratio(State.RUNNING) == pytest.approx(4 / 6)
    assert times.ratio(State.PAUSED) == pytest.approx(2 / 6)
    assert times.ratio(State.FAILED) == 0


@pytest.mark.parametrize(
    ("group", "attribute", "name"),
    [
        (
            "source-task-metrics",
            "source-record-poll-total",
            "kafka_connect_source_task_source_record_poll_total",
        ),
        ("connector-task-metrics", "batch-size-avg", "kafka_connect_connector_task_batch_size_avg"),
        ("task-error-metrics", "total-retries", "kafka_connect_task_error_total_retries"),
        ("connect-worker-metrics", "task-count", "kafka_connect_worker_task_count"),
    ],
)
def test_names_are_those_of_the_jmx_exporter(group: str, attribute: str, name: str) -> None:
    """Strimzi's rules give these names to the MBeans of a Java worker."""
    assert prometheus_name(group, attribute) == name


KAFKAS = {
    "connector-task-metrics": """
        running-ratio pause-ratio offset-commit-max-time-ms offset-commit-avg-time-ms batch-size-max
        batch-size-avg offset-commit-failure-percentage offset-commit-success-percentage""",
    "source-task-metrics": """
        source-record-poll-total source-record-write-total poll-batch-max-time-ms
        poll-batch-avg-time-ms source-record-active-count source-record-active-count-max
        source-record-active-count-avg transaction-size-min transaction-size-max
        transaction-size-avg""",
    "sink-task-metrics": """
        sink-record-read-total sink-record-send-total partition-count offset-commit-seq-no
        offset-commit-completion-total offset-commit-skip-total put-batch-max-time-ms
        put-batch-avg-time-ms sink-record-active-count sink-record-active-count-max
        sink-record-active-count-avg""",
    "task-error-metrics": """
        total-record-failures total-record-errors total-records-skipped total-retries
        total-errors-logged deadletterqueue-produce-requests deadletterqueue-produce-failures
        last-error-timestamp""",
    "connect-worker-metrics": """
        connector-startup-attempts-total connector-startup-success-total
        connector-startup-failure-total connector-startup-success-percentage
        connector-startup-failure-percentage task-startup-attempts-total task-startup-success-total
        task-startup-failure-total task-startup-success-percentage
        task-startup-failure-percentage""",
}
"""Numeric metrics of `ConnectMetricsRegistry`, without rates and metrics of a worker's group."""


class _Families(Collector):
    def collect(self) -> Any:
        """Return the metrics of a source and a sink with a strange name."""
        starts = StartupCounts()
        tasks = {
            TaskIdentity("a\ud800\n", 0): SourceTaskMetrics(starts),
            TaskIdentity("b", 1): SinkTaskMetrics(starts),
        }
        return metric_families(tasks, [], WorkerStartups())


def test_every_metric_of_kafka_is_there() -> None:
    """The exposition has Kafka's metrics and no others; the OpenMetrics parser accepts it."""
    registry = CollectorRegistry()
    registry.register(_Families())
    text = generate_latest(registry).decode()  # type: ignore[no-untyped-call] # it has no types
    families = [*text_string_to_metric_families(text)]  # type: ignore[no-untyped-call] # as above
    names = {sample.name for family in families for sample in family.samples}
    expected = {
        prometheus_name(group, attribute)
        for group, attributes in KAFKAS.items()
        for attribute in attributes.split()
    }
    assert expected <= names
    others = {name for name in names - expected if not name.endswith(("_sum", "_count"))}
    assert not others


def test_the_document_names_every_metric() -> None:
    """The table of docs/connectors.md has each metric of tasks by Kafka's name."""
    text = DOCUMENT.read_text("utf-8")
    rows: list[MetricRow[Any]] = [*OF_TASKS, *OF_SOURCES, *OF_SINKS]
    assert [row.attribute for row in rows if f"`{row.attribute}`" not in text] == []
