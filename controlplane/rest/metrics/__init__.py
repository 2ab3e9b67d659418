"""What Prometheus is told: what is counted as it happens, and what the state says when it asks.

    metrics = Metrics()
    around = Surroundings(notices=metrics.noticing(logger))
    async with ControlPlane.open("sqlite:///state.db", around=around) as plane:
        app = metrics.counting(protected(metrics.exposing(plane.app, plane.service), ...))

Each `Metrics` has a registry of its own: several control planes in one process do not mix.
"""

from controlplane.rest.metrics.counted import Metrics

__all__ = ["Metrics"]
