"""`topics`: the topics that a connector has used, and connectors that do not exist."""

from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from tests.cli.command_calls import embedded
from tests.client.client_calls import ClusterCalls

USED = Entry(
    *("connect-status", 0, 0, 1_795_000_000_000, b"status-topic-lines:connector-gone"),
    b'{"topic":{"name":"lines","connector":"gone","task":0,"discoverTimestamp":1}}',
)
"""Topic that a deleted connector has used."""


@pytest.mark.parametrize(
    "words", [("topics", "nosuch"), ("topics", "reset", "nosuch"), ("get", "topics", "nosuch")]
)
def test_a_connector_that_does_not_exist_is_refused(
    cluster: ClusterCalls, words: tuple[str, ...]
) -> None:
    """Connect answers with an empty list; the command says that there is no such connector."""
    cluster.create()
    assert cluster.refused(*words) == "there is no connector nosuch: `controlplane get` lists all"
    assert cluster.output("topics", "orders") == "orders has used no topics\n"


def test_topics_of_a_deleted_connector_can_be_reset(tmp_path: Path) -> None:
    """The recorded topics of a deleted connector can be listed and reset."""
    configured = Entry("connect-configs", 0, 0, 0, b"connector-gone", None)
    log = embedded(tmp_path / "state.db", [configured, USED])
    cluster = ClusterCalls(f"sqlite:///{log}", tmp_path)
    assert cluster.output("topics", "gone") == "lines\n"
    cluster.output("topics", "reset", "gone")
    assert "there is no connector gone" in cluster.refused("topics", "gone")
