"""Test of a connector: the fixture `connector_trial` runs it on a log in memory."""

from controlplane.connectors import GeneratorSource
from controlplane.worker.blocking_trial import StartTrial


def test_orders_arrive(connector_trial: StartTrial) -> None:
    """Three orders are in the topic, and their offset is committed."""
    config = {"topic": "orders", "rate": "100", "count": "3"}
    run = connector_trial(GeneratorSource, config)
    assert len(run.records("orders", 3)) == 3
    assert run.offsets({"order": 3}) == [({"task": 0}, {"order": 3})]
