"""Metrics of a worker, as a scrape reads them."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import until


class _WorkerCollector(Collector):
    def __init__(self, worker: ConnectWorker) -> None:
        self._worker = worker

    def collect(self) -> Any:
        """Return the metrics of the worker."""
        return self._worker.metrics()


def scraped(worker: ConnectWorker) -> list[Metric]:
    """All families, parsed from the text that Prometheus gets."""
    registry = CollectorRegistry()
    registry.register(_WorkerCollector(worker))
    return [*text_string_to_metric_families(generate_latest(registry).decode())]


def measured(worker: ConnectWorker, name: str = "s", task: str | None = "0") -> dict[str, float]:
    """Samples of one task by name; None: samples without a task.

    The prefix `kafka_connect_` is left out.
    """
    labels = {} if task is None else {"connector": name, "task": task}
    return {
        sample.name.removeprefix("kafka_connect_"): sample.value
        for family in scraped(worker)
        for sample in family.samples
        if sample.labels == labels
    }


async def until_measured(worker: ConnectWorker, name: str = "s", **expected: float) -> None:
    """Wait until a task has these values."""
    try:
        await until(lambda: expected.items() <= measured(worker, name).items())
    except TimeoutError:
        now = measured(worker, name)
        raise AssertionError({key: (now.get(key), expected[key]) for key in expected}) from None
