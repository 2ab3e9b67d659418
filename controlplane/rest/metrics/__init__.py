"""Prometheus metrics: counters of events, and gauges read from the state at each scrape.

    metrics = Metrics()
    around = Surroundings(notices=metrics.counting_logger(logger))
    async with ControlPlane.open("sqlite:///state.db", around=around) as plane:
        app = metrics.with_metrics(plane.app, plane.service)
        app = metrics.counting_requests(protected(app, protection), profile)

Each `Metrics` has its own registry: several control planes in one process do not mix.
"""

from controlplane.rest.metrics.counters import Metrics

__all__ = ["Metrics"]
