"""A worker's settings apply where a command serves the log itself, as they do in `serve`."""

import json

import pytest

from tests.client.client_calls import ClusterCalls


@pytest.fixture
def tracking_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn `topic.tracking.enable` off, as a worker's environment does."""
    monkeypatch.setenv("CONTROLPLANE_TOPIC_TRACKING_ENABLE", "false")


@pytest.mark.usefixtures("tracking_disabled")
def test_topics_are_refused_while_topic_tracking_is_disabled(
    cluster: ClusterCalls,
) -> None:
    """The command prints the 403 of `serve`, not a list of topics."""
    cluster.create()
    assert "Topic tracking is disabled." in cluster.refused("topics", "orders")


@pytest.mark.usefixtures("tracking_disabled")
def test_describe_leaves_topics_out_while_topic_tracking_is_disabled(
    cluster: ClusterCalls,
) -> None:
    """The topics of a connector are unknown, not empty."""
    cluster.create()
    assert json.loads(cluster.output("describe", "orders", "-o", "json"))["topics"] is None


@pytest.mark.parametrize("listeners", ["", "http://127.0.0.1:1"])
def test_administration_is_left_out_if_it_has_a_listener_of_its_own(
    cluster: ClusterCalls, monkeypatch: pytest.MonkeyPatch, listeners: str
) -> None:
    """The main listener then has no `/admin/loggers` (KIP-495), not even for a dry run."""
    cluster.create()
    level = ("patch", "logger", "root", "WARN", "--dry-run")
    cluster.output(*level)
    monkeypatch.setenv("CONTROLPLANE_ADMIN_LISTENERS", listeners)
    assert "which has no PUT /admin/loggers/root" in cluster.refused(*level)
