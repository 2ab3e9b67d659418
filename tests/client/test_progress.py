"""`offsets progress`, `get --lag` and `describe`: lag of sinks, last changes of sources."""

import asyncio
import re

import pytest

from controlplane.logs.log import Record
from controlplane.logs.names import path_of
from controlplane.logs.sqlite import SqliteLog
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


@pytest.fixture
def with_groups(cluster: ClusterCalls) -> ClusterCalls:
    """Log with a stopped sink: a worker has stored offset 5 of 9 there."""
    document = {"name": "archive", "config": SINK, "initial_state": "STOPPED"}
    cluster.output("apply", "-f", cluster.file("archive.json", document))

    async def produce() -> None:
        log = await SqliteLog.open(path_of(cluster.where))
        await log.create_topic("lines", 1)
        await log.append([Record("lines", 0, 1, None, b"line")] * 9)
        await log.close()

    asyncio.run(produce())
    cluster.commit("connect-archive", {("lines", 0): 5})
    return cluster


def test_a_log_has_the_offsets_of_its_sinks(with_groups: ClusterCalls) -> None:
    """Each command shows the offsets and the lag that the log has, without a worker."""
    for words in (("offsets", "archive"), ("offsets", "progress", "archive")):
        heads, _, row, lag = with_groups.output(*words).splitlines()
        assert heads.split() == ["TOPIC", "PARTITION", "OFFSET", "END", "LAG"]
        assert row.split() == ["lines", "0", "5", "9", "4"]
        assert lag == "lag of consumer group connect-archive: 4 records"
    assert "Lag: 4 records\n" in with_groups.output("describe", "archive")
    assert with_groups.json("get", "--lag")["archive"]["lag"] == 4
    assert with_groups.json("offsets", "archive") == archive_offsets(5)


def archive_offsets(offset: int) -> object:
    """Document with an offset of the sink."""
    partition = {"kafka_topic": "lines", "kafka_partition": 0}
    return {"offsets": [{"partition": partition, "offset": {"kafka_offset": offset}}]}


def test_offsets_in_a_log_are_altered_and_reset(with_groups: ClusterCalls) -> None:
    """`alter` and `reset` change the offsets with which a worker will continue."""
    edited = with_groups.file("two.json", archive_offsets(2))
    with_groups.output("offsets", "alter", "archive", "-f", edited)
    assert with_groups.json("offsets", "archive") == archive_offsets(2)
    dry = with_groups.output("offsets", "reset", "archive", "--dry-run")
    assert "delete-group" in dry
    assert "has committed nothing" not in dry
    with_groups.output("offsets", "reset", "archive", "--yes")
    assert with_groups.json("offsets", "archive") == {"offsets": []}
    assert with_groups.output("offsets", "progress", "archive") == "archive has no offsets\n"
    listed = with_groups.ask("get", "--lag")
    assert listed.out.split()[-1] == "?"
    assert listed.err == "archive: its consumer group has no offsets yet\n"


def test_a_lag_without_some_partitions_has_the_reason(with_groups: ClusterCalls) -> None:
    """The sum is that of the other partitions: the reason names those that it lacks."""
    with_groups.commit("connect-archive", {("gone", 0): 5})
    listed = with_groups.ask("get", "--lag")
    assert listed.out.split()[-1] == "4"
    assert listed.err.startswith("archive: gone-0: ")


def test_a_log_without_groups_refuses_offsets_of_a_sink(cluster: ClusterCalls) -> None:
    """No worker has run on the log: `alter` is refused, and `reset` has nothing to do."""
    document = {"name": "archive", "config": SINK, "initial_state": "STOPPED"}
    cluster.output("apply", "-f", cluster.file("archive.json", document))
    edited = cluster.file("two.json", archive_offsets(2))
    refused = cluster.refused("offsets", "alter", "archive", "-f", edited, code=4)
    assert "this control plane has no Kafka cluster" in refused
    assert cluster.output("offsets", "reset", "archive", "--yes") == "archive: reset\n"
    assert cluster.refused("offsets", "archive", code=4).endswith(
        "not in the log that is read here"
    )


def test_an_unknown_connector_is_refused(cluster: ClusterCalls) -> None:
    """A name that does not exist is refused."""
    cluster.create()
    assert cluster.refused("offsets", "progress", "nobody") == "Connector nobody not found"
