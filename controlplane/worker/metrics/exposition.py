"""Metrics of a worker as Prometheus reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)

from controlplane.core.text.safe_text import utf8_text
from controlplane.worker.metrics.metric_tables import (
    OF_SINKS,
    OF_SOURCES,
    OF_TASKS,
    SINK_SUMMARIES,
    SOURCE_SUMMARIES,
    STARTUPS,
    TASK_SUMMARIES,
    WORKER,
    MetricRow,
    SummaryRow,
    prometheus_name,
)
from controlplane.worker.metrics.startups import StartupCounts, WorkerStartups
from controlplane.worker.metrics.task_metrics import (
    SinkTaskMetrics,
    SourceTaskMetrics,
    TaskMetrics,
)
from controlplane.worker.task_identity import TaskIdentity

M = TypeVar("M", bound=TaskMetrics)

_TASK_LABELS = ("connector", "task")


class ConnectorInfo(NamedTuple):
    """Name, class, kind and version of a running connector."""

    connector: str
    class_name: str
    kind: str
    version: str


def metric_families(
    tasks: Mapping[TaskIdentity, TaskMetrics],
    connectors: Iterable[ConnectorInfo],
    startups: WorkerStartups,
) -> Iterator[Metric]:
    """Yield the metrics of what a worker runs."""
    sources = _of_kind(tasks, SourceTaskMetrics)
    sinks = _of_kind(tasks, SinkTaskMetrics)
    yield from _families(OF_TASKS, tasks)
    yield from _families(OF_SOURCES, sources)
    yield from _families(OF_SINKS, sinks)
    yield from _summaries(TASK_SUMMARIES, tasks)
    yield from _summaries(SOURCE_SUMMARIES, sources)
    yield from _summaries(SINK_SUMMARIES, sinks)
    yield _connector_info(connectors)
    yield from _of_startups("connector", startups.connectors)
    yield from _of_startups("task", startups.tasks)


def _of_kind(tasks: Mapping[TaskIdentity, TaskMetrics], kind: type[M]) -> dict[TaskIdentity, M]:
    return {task: metrics for task, metrics in tasks.items() if isinstance(metrics, kind)}


def _families(
    rows: Iterable[MetricRow[M]], tasks: Mapping[TaskIdentity, M]
) -> Iterator[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily]:
    for row in rows:
        name = prometheus_name(row.group, row.attribute)
        family = _family_class(row.attribute)(name, row.about, labels=_TASK_LABELS)
        for task, metrics in tasks.items():
            family.add_metric(_labels(task), row.value(metrics))
        yield family


def _family_class(
    attribute: str,
) -> type[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily]:
    """Return the type of a metric: unknown for a counter whose name lacks `_total`."""
    if attribute.endswith("-total"):
        return CounterMetricFamily
    is_count = attribute.startswith(("total-", "deadletterqueue-"))
    return UnknownMetricFamily if is_count else GaugeMetricFamily


def _summaries(
    rows: Iterable[SummaryRow[M]], tasks: Mapping[TaskIdentity, M]
) -> Iterator[SummaryMetricFamily]:
    for row in rows:
        name = prometheus_name(row.group, row.attribute)
        family = SummaryMetricFamily(name, row.about, labels=_TASK_LABELS)
        for task, metrics in tasks.items():
            values = row.values(metrics)
            family.add_metric(_labels(task), count_value=values.count, sum_value=values.total)
        yield family


def _connector_info(connectors: Iterable[ConnectorInfo]) -> InfoMetricFamily:
    """Return the text attributes of connectors (`connector-metrics`)."""
    family = InfoMetricFamily(
        "kafka_connect_connector",
        "Class, type and version of a connector that this worker runs.",
        labels=("connector",),
    )
    for connector, class_name, kind, version in connectors:
        details = {
            "connector_class": utf8_text(class_name),
            "connector_type": kind,
            "connector_version": utf8_text(version),
        }
        family.add_metric((utf8_text(connector),), details)
    return family


def _of_startups(subject: str, starts: StartupCounts) -> Iterator[Metric]:
    for row in STARTUPS:
        attribute = f"{subject}-startup-{row.attribute}"
        family_class = _family_class(attribute)
        name, about = prometheus_name(WORKER, attribute), row.about.format(f"{subject}s")
        yield family_class(name, about, row.value(starts))


def _labels(task: TaskIdentity) -> tuple[str, str]:
    return utf8_text(task.connector), str(task.number)
