"""`apply` and `diff -f`: files declare connectors."""

import json

import httpx
import pytest

from controlplane.client.commands.apply_command import wait_goal
from controlplane.client.connectors.connector_files import DeclaredConnector
from controlplane.client.connectors.wait import IS_PAUSED, IS_RUNNING, IS_STOPPED, WaitGoal
from tests.client.client_calls import SOURCE, ClusterCalls, FakeWorker, error


def test_each_connector_is_created_updated_or_unchanged(cluster: ClusterCalls) -> None:
    """Each connector has a line; an unchanged one is neither written nor restarted."""
    json_file = cluster.file("one.json", {"name": "one", "config": SOURCE})
    properties_file = cluster.file(
        "two.properties", "name=two\nconnector.class=FileStreamSource\ntopic=t\n"
    )
    files = ("-f", json_file, "-f", properties_file)
    lines, summary = cluster.output("apply", *files).split("\n\n")
    assert lines == "one: created\ntwo: created"
    assert summary.splitlines()[-1].split(maxsplit=2) == ["created", "2", "one, two"]
    cluster.file("two.properties", "name=two\nconnector.class=FileStreamSource\ntopic=u\n")
    assert cluster.output("diff", "-f", json_file) == "no difference\n"
    assert cluster.ask("diff", "-f", properties_file).code == 1
    lines, _ = cluster.output("apply", *files).split("\n\n")
    assert lines == "one: unchanged\ntwo: updated (topic: t → u)"


def test_from_standard_input_with_a_name(cluster: ClusterCalls) -> None:
    """`apply -f - -n NAME` reads standard input, as kcctl does."""
    printed = cluster.output("apply", "-f", "-", "-n", "orders", typed=json.dumps(SOURCE))
    assert printed == "orders: created\n"


@pytest.mark.parametrize("words", [("get",), ("describe", "--all"), ("describe", "orders")])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_printed_connectors_can_be_applied(
    cluster: ClusterCalls, words: tuple[str, ...], form: str
) -> None:
    """Applying a connector that `get` has printed changes nothing."""
    cluster.create(config={**SOURCE, "tasks.max": "1", "b": "true", "f": "1.50", "e": ""})
    names = [word for word in words if word != "--all"]
    printed = cluster.file(f"printed.{form}", cluster.output(*names, "-o", form))
    assert cluster.output("apply", "-f", printed) == "orders: unchanged\n"


def test_a_dry_run_shows_the_records(cluster: ClusterCalls) -> None:
    """The dry run shows the records of new and of changed connectors."""
    cluster.create()
    new = cluster.file("new.json", {"name": "new", "config": SOURCE})
    old = cluster.file("old.json", {"name": "orders", "config": {**SOURCE, "topic": "x"}})
    results = cluster.json("apply", "-f", new, "-f", old, "--dry-run")
    assert [(result["connector"], result["result"]) for result in results] == [
        ("new", "would be created"),
        ("orders", "would be updated"),
    ]
    keys = [record["key"] for step in results[0]["plan"]["steps"] for record in step["records"]]
    assert "connector-new" in keys
    assert list(cluster.json("get")) == ["orders"]


def test_all_files_are_read_before_anything_is_sent(cluster: ClusterCalls) -> None:
    """An error in the last file leaves the cluster unchanged."""
    good = cluster.file("a.json", {"name": "a", "config": SOURCE})
    bad = cluster.file("b.json", "{")
    sentence = cluster.refused("apply", "-f", good, "-f", bad, code=2)
    assert "b.json has no connector" in sentence
    cluster.create("other")
    assert list(cluster.json("get")) == ["other"]


def test_a_new_connector_gets_its_initial_state(cluster: ClusterCalls) -> None:
    """The only target state that `apply` writes is `initial_state` of the file (KIP-980)."""
    cluster.create(initial_state="STOPPED")
    events = cluster.json("history", "orders")["events"]
    assert [event["after"] for event in events if event["what"] == "target state"] == ["STOPPED"]


def test_an_update_waits_although_the_file_has_an_initial_state(cluster: ClusterCalls) -> None:
    """An initial state is for new connectors only; no worker runs here, so the wait times out."""
    cluster.create(initial_state="RUNNING")
    config = {**SOURCE, "topic": "other"}
    document = {"name": "orders", "config": config, "initial_state": "RUNNING"}
    words = ("apply", "-f", cluster.file("orders.json", document), "--wait", "--timeout", "0")
    result = cluster.ask(*words)
    assert (result.code, "the change of orders was accepted" in result.err) == (5, True), result
    assert cluster.output(*words) == "orders: unchanged\n"


@pytest.mark.parametrize(
    ("state", "goal"), [("PAUSED", IS_PAUSED), ("STOPPED", IS_STOPPED), ("FAILED", IS_RUNNING)]
)
async def test_wait_has_the_goal_of_the_target_state(state: str, goal: WaitGoal) -> None:
    """A present connector keeps its target state, whatever the file says."""
    info = {"name": "orders", "config": {}, "tasks": []}
    status = {"connector": {"state": state, "worker_id": "w"}, "tasks": []}
    worker = FakeWorker(httpx.Response(200, json=info), httpx.Response(200, json=status))
    declared = DeclaredConnector("orders", {}, initial_state="running")
    assert await wait_goal(await worker.api(), declared) is goal


@pytest.mark.parametrize(
    ("state", "goal"), [("stopped", IS_STOPPED), ("PAUSED", IS_PAUSED), (None, IS_RUNNING)]
)
async def test_wait_has_the_goal_of_the_initial_state(state: str | None, goal: WaitGoal) -> None:
    """A new connector gets its initial state; without one it runs."""
    worker = FakeWorker(error(404, "Connector orders not found"))
    declared = DeclaredConnector("orders", {}, initial_state=state)
    assert await wait_goal(await worker.api(), declared) is goal
