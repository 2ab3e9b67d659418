"""Metrics of the state, under the names of existing Kafka Connect dashboards, and own names.

Three families of names are in use; existing panels and alerts depend on each:

- `kafka_connect_worker_*` and `kafka_connect_connector_status`: the JMX exporter's names for a
  worker's MBeans, by the rules that Strimzi ships. There they count one worker, and panels sum
  them up; here they count the whole cluster, once.
- `kafka_connect_up`, `…_connectors_count`, `…_connector_state_running`, `…_connector_tasks_state`:
  names of exporters that query the REST API.
- `controlplane_*`: facts that only a reader of the log knows.

Facts of a worker's own process (throughput, errors) are in no log. A worker in this process adds
its own (`controlplane.worker.metrics`), without `connector-count` and `task-count`, which this
module counts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from controlplane.core import views
from controlplane.core.order import Ends
from controlplane.core.records import State, Target
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import utf8_text

TASK_STATES = ("running", "paused", "failed", "unassigned", "restarting", "destroyed")
"""States by which tasks are counted (`ConnectMetricsRegistry`)."""

NUMBERED = {"failed": 0, "running": 1, "unassigned": 2, "paused": 3}
"""Numbers of the task states in exporters; the other states have none."""


def of_state(state: ClusterState) -> Iterator[Metric]:
    """Yield the metrics of a state."""
    names = views.connectors(state)
    yield _gauge("kafka_connect_connectors_count", "Connectors.", len(names))
    yield _gauge("kafka_connect_worker_connector_count", "Connectors.", len(names))
    tasks = sum(len(_tasks(state, name)) for name in names)
    yield _gauge("kafka_connect_worker_task_count", "Tasks of all connectors.", tasks)
    yield from _of_tasks(state, names)
    yield from _of_connectors(state, names)
    yield _gauge(
        "controlplane_commands_unfinished",
        "Accepted commands that are not finished.",
        sum(trace.unfinished for trace in state.commands.values()),
    )
    yield _gauge(
        "controlplane_unreadable_records",
        "Records that a worker cannot decode or use.",
        state.unreadable_count,
    )


def of_log(read: Ends, ends: Ends | None, *, followed: bool) -> Iterator[Metric]:
    """Yield the read positions of the log; without `ends`, no lag."""
    yield _gauge("kafka_connect_up", "1 if the log can be followed.", int(followed))
    yield _gauge("controlplane_log_followed", "1 if the log can be followed.", int(followed))
    position = GaugeMetricFamily(
        "controlplane_log_position", "Offset of the next record to read.", labels=_POSITION_LABELS
    )
    lag = GaugeMetricFamily(
        "controlplane_projection_lag_records", "Offsets still to be read.", labels=_POSITION_LABELS
    )
    for topic, partition, offset in _positions(read):
        position.add_metric((_text(topic), str(partition)), offset)
    for topic, partition, end in _positions(ends or {}):
        parts = read.get(topic, ())
        position_read = parts[partition] if partition < len(parts) else 0
        lag.add_metric((_text(topic), str(partition)), max(0, end - position_read))
    yield position
    yield lag


_POSITION_LABELS = ("topic", "partition")


def _positions(ends: Ends) -> Iterator[tuple[str, int, int]]:
    for topic, parts in sorted(ends.items()):
        for partition, end in enumerate(parts):
            yield topic, partition, end


def _of_tasks(state: ClusterState, names: Sequence[str]) -> Iterator[Metric]:
    """Yield the status of each task, and the number of tasks per state."""
    status = GaugeMetricFamily(
        "kafka_connect_connector_status",
        "1 for the reported state of a task.",
        labels=("connector", "task", "status"),
    )
    numbered = GaugeMetricFamily(
        "kafka_connect_connector_tasks_state",
        "The state of a task: 0 failed, 1 running, 2 unassigned, 3 paused.",
        labels=("connector", "state", "worker_id", "id"),
    )
    counted = {
        task_state: GaugeMetricFamily(
            f"kafka_connect_worker_connector_{task_state}_task_count",
            f"Tasks of a connector: {task_state}.",
            labels=("connector",),
        )
        for task_state in ("total", *TASK_STATES)
    }
    for name in names:
        tasks = _tasks(state, name)
        reported = state.status.tasks.get(name, {})
        numbers: Counter[str] = Counter(total=len(tasks))
        for task in tasks:
            if task not in reported:
                continue
            task_state = _lower(reported[task].state)
            numbers[task_state] += 1
            status.add_metric((_text(name), str(task), task_state), 1)
            if task_state in NUMBERED:
                labels = _text(name), task_state, _text(reported[task].worker_id), str(task)
                numbered.add_metric(labels, NUMBERED[task_state])
        for task_state, family in counted.items():
            family.add_metric((_text(name),), numbers[task_state])
    yield from (status, numbered, *counted.values())


def _of_connectors(state: ClusterState, names: Sequence[str]) -> Iterator[Metric]:
    """Yield the status and the target state of connectors."""
    running = GaugeMetricFamily(
        "kafka_connect_connector_state_running",
        "1 if a connector is reported as running; `state` is its reported state.",
        labels=("connector", "state", "worker_id"),
    )
    targets = GaugeMetricFamily(
        "controlplane_connector_target_state",
        "1 for the requested state of a connector.",
        labels=("connector", "state"),
    )
    for name in names:
        status = state.status.connectors.get(name)
        if status is not None:
            reported = _lower(status.state)
            labels = _text(name), reported, _text(status.worker_id)
            running.add_metric(labels, int(reported == "running"))
        target = views.target(state, name)
        if target is not None:
            targets.add_metric((_text(name), _lower(target)), 1)
    yield from (running, targets)


def _tasks(state: ClusterState, name: str) -> range:
    """Return a connector's tasks; none if a worker could not list them either."""
    try:
        return views.task_ids(state, name)
    except views.ReadFailed:
        return range(0)


def _lower(state: State | Target) -> str:
    """Return a state in the exporters' spelling."""
    return str(state.value).lower()


def _text(name: str | None) -> str:
    """Return text of the log as a label; lone surrogates, which UTF-8 lacks, are escaped."""
    return utf8_text(name or "")


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value)
