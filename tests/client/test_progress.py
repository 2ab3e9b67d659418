"""`offsets progress`, `get --lag` and `describe`: lag of sinks, last changes of sources."""

import re

from tests.client.client_calls import PARTITION, ClusterCalls

SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "file": "/out.txt",
    "topics": "lines",
}


def test_a_source_has_a_row_per_partition(cluster: ClusterCalls) -> None:
    """A row per source partition, with time and record of its last change."""
    cluster.create(initial_state="STOPPED")
    assert cluster.output("offsets", "progress", "orders") == "orders has no offsets\n"
    at = {"offsets": [{"partition": PARTITION, "offset": {"position": 5}}]}
    cluster.output("offsets", "alter", "orders", "-f", cluster.file("five.json", at))
    (entry,) = cluster.json("offsets", "progress", "orders")["offsets"]
    assert entry["offset"] == {"position": 5}
    shown = cluster.output("offsets", "progress", "orders")
    assert shown.startswith("PARTITION")
    for cell in (entry["changed_at"], entry["record"], '{"position": 5}'):
        assert cell in shown


def test_an_offset_has_the_time_since_it_is_unchanged(cluster: ClusterCalls) -> None:
    """The age counts from the first record with the value; later equal records do not count."""
    cluster.create(initial_state="STOPPED")
    five = {"offsets": [{"partition": PARTITION, "offset": {"position": 5}}]}
    alter = ("offsets", "alter", "orders", "-f", cluster.file("five.json", five))
    cluster.output(*alter)
    (entry,) = cluster.json("offsets", "progress", "orders")["offsets"]
    cluster.output(*alter)
    assert cluster.json("offsets", "progress", "orders")["offsets"] == [entry]
    assert cluster.json("offsets", "orders") == five
    for words in (("offsets", "orders"), ("offsets", "progress", "orders")):
        heads, _, row = cluster.output(*words).splitlines()
        assert re.split("  +", heads) == ["PARTITION", "OFFSET", "UNCHANGED SINCE", "RECORD"]
        assert re.search(re.escape(entry["changed_at"]) + r" \(\d+ (s|min)\)  ", row)
        past = cluster.output(*words, "--as-of", entry["record"])
        assert f"{entry['changed_at']}  {entry['record']}" in past


def test_the_lag_of_a_sink_is_unknown_without_a_cluster(cluster: ClusterCalls) -> None:
    """An embedded log has no brokers, so the lag of a sink is unknown."""
    document = {"name": "archive", "config": SINK}
    cluster.create()
    cluster.output("apply", "-f", cluster.file("archive.json", document))
    reason = cluster.refused("offsets", "progress", "archive", code=4)
    assert reason.endswith("they lie in its consumer group, not in the log that is read here")
    described = cluster.output("describe", "archive")
    assert "Lag: ? (`controlplane offsets progress archive` says why)\n" in described
    assert "Lag" not in cluster.output("describe", "orders")
    listed = {
        line.split()[0]: line.split()[-1]
        for line in cluster.output("get", "--lag").split("\n")
        if line
    }
    assert (listed["NAME"], listed["archive"]) == ("LAG", "?")
    assert listed["orders"] != "?"
    documents = cluster.json("get", "--lag")
    assert documents["archive"]["lag"] is None
    assert "lag" not in documents["orders"]
    assert "lag" not in cluster.json("get")["archive"]


def test_an_unknown_connector_is_refused(cluster: ClusterCalls) -> None:
    """A name that does not exist is refused."""
    cluster.create()
    assert cluster.refused("offsets", "progress", "nobody") == "Connector nobody not found"
