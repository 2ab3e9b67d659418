"""Life of a connector on the command line, in a log that each command opens for itself."""

import json

import httpx
import pytest

from controlplane.client.commands.lifecycle_commands import restart_connector
from controlplane.client.connectors.selection import Selection
from controlplane.client.http.api import ServerInfo
from controlplane.client.http.request_errors import Declined
from tests.cli.command_calls import call
from tests.client.client_calls import (
    PARTITION,
    SOURCE,
    ClusterCalls,
    FakeWorker,
    command_body,
)

OFFSETS = [{"partition": PARTITION, "offset": {"position": 5}}]


def test_each_change_prints_one_line(cluster: ClusterCalls) -> None:
    """Each change prints one line; `offsets` shows the altered offset, and deletion removes all."""
    cluster.create()
    for verb, did in (("pause", "paused"), ("resume", "resumed"), ("stop", "stopped")):
        assert cluster.output(verb, "orders") == f"orders: {did}\n"
    alter = ("offsets", "alter", "orders", "--source-partition", '{"filename": "/in.txt"}')
    assert cluster.output(*alter, "--source-offset", '{"position": 5}') == (
        "orders: altered (The offsets for this connector have been altered successfully)\n"
    )
    expected = {"offsets": [{"partition": PARTITION, "offset": {"position": 5}}]}
    assert cluster.json("offsets", "orders") == expected
    assert cluster.output("delete", "orders") == "orders: deleted\n"
    assert cluster.json("get") == {}


def test_resources_may_be_spelled_out(cluster: ClusterCalls) -> None:
    """Resources may be named as in kcctl; a connector's name may be that of a resource."""
    cluster.create("connector")
    assert cluster.output("stop", "connector", "connector") == "connector: stopped\n"
    assert cluster.output("delete", "connector", "connector") == "connector: deleted\n"


def test_a_resource_may_follow_options_in_one_word(cluster: ClusterCalls) -> None:
    """`-yc LOG` is `-y -c LOG`: the word after LOG is the resource, not a connector to delete."""
    cluster.create(initial_state="STOPPED", initial_offsets=OFFSETS)
    result = call("delete", "-yc", cluster.where, "offsets", "orders")
    assert (result.code, result.out.splitlines()[0][:13]) == (0, "orders: reset"), result
    assert (list(cluster.json("get")), cluster.json("offsets", "orders")) == (
        ["orders"],
        {"offsets": []},
    )
    other = call("stop", f"-c{cluster.where}", "connector", "orders")
    assert (other.code, other.out) == (0, "orders: stopped\n")


@pytest.mark.parametrize(("tasks", "ours"), [("all", False), ("failed", False), ("all", True)])
async def test_a_release_that_would_restart_no_task_is_refused(tasks: str, *, ours: bool) -> None:
    """A release before 3.0 ignores the parameters, and would restart only the connector.

    Our service does so, too, if it answers as such a release: the one of an attached cluster.
    """
    worker = FakeWorker(httpx.Response(204))
    options = {"wait_s": None, "output": "table", "dry_run": False}
    body, selection = command_body(restart_connector), Selection(("orders",), ())
    api = await worker.api()
    api.server = ServerInfo("2.8.2", None, ours=ours)
    with pytest.raises(Declined, match=r"cannot restart .* its tasks: that takes 3.0.0 or newer"):
        await body(api, selection, tasks, **options)
    assert not worker.requests
    await body(api, selection, None, **options)
    assert [request.method for request in worker.requests] == ["POST"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("a1", "b"), ["a1", "b"]),
        (("-e", "a.*"), ["a1", "a2"]),
        (("--all",), ["a1", "a2", "b"]),
        (("--all", "-e"), ["a1", "a2", "b"]),
        (("--state", "-"), ["a1", "a2", "b"]),
        (("a1", "a1"), ["a1"]),
    ],
)
def test_several_connectors_are_selected(
    cluster: ClusterCalls, words: tuple[str, ...], names: list[str]
) -> None:
    """Several connectors are selected by name, by regular expression, by state, or all."""
    for name in ("a1", "a2", "b"):
        cluster.create(name)
    results = cluster.json("pause", *words)
    assert results == [{"connector": name, "result": "paused"} for name in names]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pause", "nix"), "Unknown connector nix"),
        (("get", "nix"), "there is no connector nix: `controlplane get` lists all"),
        (("describe", "nix"), "there is no connector nix: `controlplane get` lists all"),
        (("patch", "nix", "-s", "a=b"), "there is no connector nix: `controlplane get` lists all"),
        (("offsets", "nix"), "Connector nix not found"),
        (("pause", "-e", "x.*"), "no connector of sqlite:///"),
        (
            ("offsets", "reset", "orders", "--yes"),
            "add --stop, or run `controlplane stop orders` first",
        ),
        (("restart", "task", "orders/7"), "Unknown task: orders-7"),
        (("history", "nix"), "concerns connector nix"),
        (("get", "--as-of", "config@77"), "config@77"),
    ],
)
def test_refusals_have_the_clusters_message(
    cluster: ClusterCalls, words: tuple[str, ...], says: str
) -> None:
    """Refusals have the cluster's message, exit code 3, and no standard output."""
    cluster.create()
    assert says in cluster.refused(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("pause",),
        ("pause", "x", "--all"),
        ("pause", "-e", "("),
        ("patch", "x"),
        ("patch", "x", "-s", "a"),
        ("patch", "x", "-s", "a=1", "-r", "a"),
        ("restart", "task", "orders"),
        ("restart", "task", "orders/2147483648"),
        ("restart", "task", "orders/" + "9" * 5_000),
        ("offsets", "alter", "x"),
        ("offsets", "alter", "x", "--source-partition", "{"),
        ("diff",),
        ("diff", "-f", "x", "--from", "y"),
    ],
)
def test_usage_errors_send_nothing(cluster: ClusterCalls, words: tuple[str, ...]) -> None:
    """Usage errors send nothing, exit code 2."""
    cluster.create()
    result = cluster.ask(*words)
    assert (result.code, result.out) == (2, "")


def test_deleting_all_asks_first(cluster: ClusterCalls) -> None:
    """`--all` deletes none after a no, and all after a yes or with --yes."""
    cluster.create()
    result = cluster.ask("delete", "--all", typed="n\n")
    assert (result.code, result.out) == (1, "")
    assert "delete orders? [y/N]" in result.err
    assert list(cluster.json("get")) == ["orders"]
    assert cluster.ask("delete", "--all", typed="y\n").out == "orders: deleted\n"
    cluster.create()
    assert cluster.output("delete", "--all", "--yes") == "orders: deleted\n"


def test_settings_are_patched(cluster: ClusterCalls) -> None:
    """Settings are set and removed; an unchanged config is not written."""
    cluster.create()
    patch = ("patch", "orders", "-s", "tasks.max=2", "-s", "password=hunter2", "-r", "file")
    assert cluster.output(*patch) == (
        "orders: updated (file: /in.txt → ∅; password: ∅ → [hidden]; tasks.max: ∅ → 2)\n"
    )
    assert cluster.output(*patch) == "orders: unchanged\n"


def test_a_dry_run_writes_nothing(cluster: ClusterCalls) -> None:
    """The dry run shows the records and writes nothing."""
    cluster.create()
    before = cluster.json("history", "orders")
    (result,) = cluster.json("stop", "orders", "--dry-run")
    assert result["result"] == "would be stopped"
    (records,) = [step["records"] for step in result["plan"]["steps"] if step["name"] == "state"]
    assert [record["key"] for record in records] == ["target-state-orders"]
    assert "orders would be stopped: " in cluster.output("stop", "orders", "--dry-run")
    assert cluster.json("history", "orders") == before


def test_secrets_are_hidden_from_people_only(cluster: ClusterCalls) -> None:
    """Tables hide secrets; JSON and YAML have them, so that a config can be applied again."""
    cluster.create(config={**SOURCE, "password": "hunter2"})
    assert "password: " in (shown := cluster.output("describe", "orders"))
    assert "hunter2" not in shown
    assert "[hidden]" in shown
    assert cluster.json("describe", "orders")["config"]["password"] == "hunter2"
    assert "password: hunter2" in cluster.output("describe", "orders", "-o", "yaml")


def test_a_key_without_a_value_is_shown(cluster: ClusterCalls) -> None:
    """`describe` shows null values, which older releases accept."""
    config = {"properties": {**SOURCE, "name": "orders", "transforms": None}}
    record = {"topic": "connect-configs", "partition": 0, "offset": 0, "tstype": "create", "ts": 1}
    words = {"key": "connector-orders", "payload": json.dumps(config)}
    dump = cluster.file("kcat.jsonl", json.dumps({**record, **words}) + "\n")
    described = ClusterCalls(str(dump), cluster.folder).output("describe", "orders")
    assert "  transforms:      ∅\n" in described


def test_wide_cuts_neither_traces_nor_values(cluster: ClusterCalls) -> None:
    """`describe` cuts the middle of a long trace and the end of a long value, unless `--wide`."""
    lines = [f"line {number}" for number in range(100)]
    long = "v" * 1000
    status = {"state": "FAILED", "worker_id": "w", "generation": 1, "trace": "\n".join(lines)}
    config = {"properties": {**SOURCE, "name": "orders", "long": long}}
    documents = (
        ("connect-configs", "connector-", config),
        ("connect-status", "status-connector-", status),
    )
    records = [
        {"topic": topic, "partition": 0, "offset": 0, "tstype": "create", "ts": 1}
        | {"key": f"{prefix}orders", "payload": json.dumps(document)}
        for topic, prefix, document in documents
    ]
    dump = cluster.file("kcat.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    calls = ClusterCalls(str(dump), cluster.folder)
    cut, wide = calls.output("describe", "orders"), calls.output("describe", "orders", "--wide")
    assert "… 76 lines …" in cut
    assert long not in cut
    assert [line.strip() for line in wide.splitlines() if line.startswith("  line ")] == lines
    assert f"{long}\n" in wide


def test_waiting_for_a_state_times_out(cluster: ClusterCalls) -> None:
    """The command is done; exit code 5 means that no worker has reported the state."""
    cluster.create()
    result = cluster.ask("pause", "orders", "--wait", "--timeout", "0")
    assert result.code == 5
    assert (
        "the change of orders was accepted, but has no effect after 0 s (connector -, tasks: none)"
        in result.err
    )


def test_the_audit_trail_names_the_user(
    cluster: ClusterCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The principal of a command is the user who typed it."""
    monkeypatch.setenv("LOGNAME", "ada")
    cluster.create()
    cluster.ask("pause", "nix")
    (created, refused) = cluster.json("commands")["commands"]
    assert (created["principal"], created["outcome"]) == ("ada", "done")
    assert (refused["connector"], refused["outcome"]) == ("nix", "refused")
    assert cluster.json("commands", "--outcome", "done")["commands"] == [created]
    assert "2 commands" in cluster.output("commands")


@pytest.mark.parametrize(
    ("verb", "state"), [("resume", "RUNNING"), ("pause", "PAUSED"), ("stop", "STOPPED")]
)
def test_unreported_states_are_shown_as_wanted(
    cluster: ClusterCalls, verb: str, state: str
) -> None:
    """A table marks the target state as wanted; JSON has no status."""
    cluster.create()
    cluster.create("more")
    cluster.output(verb, "orders")
    assert f"orders  source  {state} (wanted)" in cluster.output("get")
    assert f"State:  {state} (wanted)" in cluster.output("describe", "orders")
    assert "status" not in cluster.json("get")["orders"]
    assert cluster.json("describe", "orders")["status"] is None


def test_a_log_keeps_its_cluster_id(cluster: ClusterCalls) -> None:
    """`get info` prints one cluster id of 22 characters, before and after a change."""
    cluster.create()
    about = cluster.json("get", "info")
    assert len(about["kafka_cluster_id"]) == 22
    cluster.output("pause", "orders")
    assert cluster.json("get", "info") == about
    assert f"of the Kafka cluster {about['kafka_cluster_id']}" in cluster.output("get", "info")


def test_a_state_that_does_not_exist_is_refused(cluster: ClusterCalls) -> None:
    """A misspelt state is refused; an empty table would hide failed connectors."""
    result = cluster.ask("restart", "--state", "FAILD")
    assert result.code == 2
    states = "UNASSIGNED, RUNNING, PAUSED, FAILED, DESTROYED, RESTARTING or STOPPED"
    assert f"'FAILD' is no state: give {states}, or - for connectors without a" in result.err


def test_a_former_option_may_precede_the_resource(cluster: ClusterCalls) -> None:
    """The value of an option with a former name is not taken for the resource."""
    cluster.create()
    listed = cluster.output("get", "--release", "3.4", "connectors")
    assert cluster.output("get", "--profile", "3.4", "connectors") == listed


def test_no_connector_in_a_state_is_an_empty_table(cluster: ClusterCalls) -> None:
    """An empty result is no error; names must still exist."""
    cluster.create()
    heads, _ = cluster.output("get", "connectors", "--state", "FAILED").splitlines()
    assert heads.split() == ["NAME", "TYPE", "STATE", "TASKS", "WORKER"]
    assert cluster.json("get", "--state", "FAILED") == {}
    assert cluster.json("describe", "--state", "FAILED") == []
    for verb in ("restart", "stop", "delete"):
        assert cluster.output(verb, "--state", "FAILED") == ""
    assert cluster.json("get", "--state", "failed") == {}
    assert cluster.ask("get", "nobody", "--state", "FAILED").code == 3
    for verb in ("get", "stop", "describe"):  # a name that is missing is never ignored
        sentence = cluster.refused(verb, "orders", "nobody", "--state", "-")
        assert sentence.startswith(f"no connector of {cluster.where} matches nobody: ")
    assert cluster.ask("get", "-e", "no.*").code == 3
