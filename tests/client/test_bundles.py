"""`bundle`: connectors are exported from one cluster and imported into another."""

import json
import stat
from pathlib import Path

import httpx
import pytest
import yaml
from click.testing import CliRunner

from controlplane.cli.main import main
from controlplane.client.commands import bundle_commands
from controlplane.client.connectors.offset_lists import OffsetEntry
from controlplane.client.http.api import ServerInfo
from controlplane.client.http.request_errors import Declined
from tests.client.client_calls import PARTITION, SOURCE, ClusterCalls, FakeWorker, error

pytestmark = pytest.mark.slow

OFFSETS: list[OffsetEntry] = [{"partition": PARTITION, "offset": {"position": 5}}]


@pytest.fixture
def other(tmp_path: Path) -> ClusterCalls:
    """Second, empty cluster."""
    return ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)


def exported(cluster: ClusterCalls, *words: str) -> Path:
    """Export connectors to a bundle file and return its path."""
    path = cluster.folder / "bundle.json"
    assert cluster.ask("bundle", "export", *(words or ("--all",)), "-f", path).code == 0
    return path


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_a_bundle_carries_config_offsets_and_state(
    cluster: ClusterCalls, other: ClusterCalls, state: str
) -> None:
    """The other cluster has the same config, offsets and target state."""
    cluster.create(initial_state=state, initial_offsets=OFFSETS)
    bundle = exported(cluster)
    assert other.output("bundle", "import", bundle) == f"orders: created ({state}, 1 offset)\n"
    assert other.json("offsets", "orders") == {"offsets": OFFSETS}
    imported, original = (
        json.loads(exported(side).read_text())["connectors"] for side in (other, cluster)
    )
    assert imported == original
    assert original[0]["target_state"] == state
    assert original[0]["config"] == {**SOURCE, "name": "orders"}


def test_a_second_import_changes_nothing(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """A second import of a bundle reports its connectors as unchanged."""
    cluster.create(initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.output("bundle", "import", bundle)
    assert other.output("bundle", "import", bundle) == "orders: unchanged\n"


@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
def test_a_bundle_without_offsets_removes_those_of_an_earlier_connector(
    cluster: ClusterCalls, other: ClusterCalls, state: str
) -> None:
    """The import removes offsets that a deleted connector of that name has left."""
    cluster.create(initial_state=state)
    bundle = exported(cluster)
    other.create(initial_offsets=OFFSETS)
    other.output("delete", "orders")
    (planned,) = other.json("bundle", "import", bundle, "--dry-run")
    assert planned["plan"]["assumed"][0].startswith("offsets that an earlier connector of this")
    assert other.output("bundle", "import", bundle) == f"orders: created ({state}, 0 offsets)\n"
    assert other.json("offsets", "orders") == {"offsets": []}
    assert other.json("history", "orders")["events"][-1]["after"] == TARGETS[state]
    assert other.output("bundle", "import", bundle) == "orders: unchanged\n"


TARGETS = {"RUNNING": "STARTED", "STOPPED": None}
"""Value of the last event after an import: a resume, or the removal of an offset."""


def test_a_sink_without_offsets_is_imported(other: ClusterCalls) -> None:
    """An embedded log has no offsets of sinks: the import removes none."""
    config = {
        "name": "orders",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": "t",
    }
    sink = {"name": "orders", "config": config, "target_state": "RUNNING", "offsets": []}
    bundle = other.file("bundle.json", {"bundle": 1, "connectors": [sink]})
    other.create("something")
    for outcome in ("orders: created (RUNNING, 0 offsets)\n", "orders: unchanged\n"):
        assert other.output("bundle", "import", bundle) == outcome


def test_an_import_that_broke_off_is_finished(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """An import completes a connector that an earlier one left stopped without offsets."""
    cluster.create(initial_state="PAUSED", initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.create(initial_state="STOPPED")
    result = other.ask("bundle", "import", bundle)
    assert result.out == "orders: completed (PAUSED, 1 offset)\n", result
    assert other.json("offsets", "orders") == {"offsets": OFFSETS}


def test_existing_connectors_are_not_overwritten(
    cluster: ClusterCalls, other: ClusterCalls
) -> None:
    """An import refuses a connector with another config under the same name."""
    cluster.create()
    bundle = exported(cluster)
    other.create(config={**SOURCE, "topic": "other"})
    sentence = other.refused("bundle", "import", bundle)
    assert sentence.startswith("orders exists with another config (topic: other → lines)")
    assert other.output("bundle", "import", bundle, "-n", "copy").startswith("copy: created")
    assert other.json("describe", "copy")["config"]["name"] == "copy"


def test_a_dry_run_imports_nothing(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """The dry run shows the command and all of its records."""
    cluster.create(initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.create("something")
    (result,) = other.json("bundle", "import", bundle, "--dry-run")
    keys = [record["key"] for step in result["plan"]["steps"] for record in step["records"]]
    assert "connector-orders" in keys
    assert list(other.json("get")) == ["something"]


def test_a_dry_run_over_a_stopped_connector_shows_all_records(
    cluster: ClusterCalls, other: ClusterCalls
) -> None:
    """The plan has the records of the offsets and that of the target state."""
    cluster.create(initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.create(initial_state="STOPPED")
    (result,) = other.json("bundle", "import", bundle, "--dry-run")
    steps = result["plan"]["steps"]
    topics = [record["topic"] for step in steps for record in step["records"]]
    assert topics == ["connect-offsets", "connect-configs"]
    assert result["plan"]["commit_point"] == steps[-1]["name"]
    assert other.json("offsets", "orders") == {"offsets": []}
    assert "orders would be completed: 2 records" in other.output(
        "bundle", "import", bundle, "--dry-run"
    )


def test_a_file_is_private(cluster: ClusterCalls) -> None:
    """A bundle has mode 600, because it may contain secrets."""
    cluster.create()
    assert stat.S_IMODE(exported(cluster).stat().st_mode) == 0o600


def test_a_file_that_everybody_could_read_is_private(cluster: ClusterCalls) -> None:
    """An export over a readable file sets mode 600."""
    cluster.create()
    bundle = exported(cluster)
    bundle.chmod(0o666)
    assert stat.S_IMODE(exported(cluster).stat().st_mode) == 0o600


def test_offsets_of_a_sink_are_unknown(cluster: ClusterCalls) -> None:
    """The bundle has null for a sink's offsets, which are in its group, and the command warns."""
    sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": "t",
    }
    cluster.create(config=sink)
    result = cluster.ask("bundle", "export", "orders")
    assert result.code == 1
    assert json.loads(result.out)["connectors"][0]["offsets"] is None
    assert "Warning: orders is exported without its offsets: " in result.err


def test_characters_that_the_output_lacks_are_escaped(cluster: ClusterCalls) -> None:
    """JSON and YAML stay readable if standard output has another encoding than UTF-8."""
    cluster.create(config={**SOURCE, "topic": "größe"})

    def printed(*words: str) -> str:
        result = CliRunner(charset="ascii").invoke(main, [*words, "-c", cluster.where])
        return result.stdout_bytes.decode("ascii")

    bundle = json.loads(printed("bundle", "export", "orders"))
    assert bundle["connectors"][0]["config"]["topic"] == "größe"
    listed = yaml.safe_load(printed("get", "-o", "yaml"))
    assert listed["orders"]["info"]["config"]["topic"] == "größe"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no bundle"),
        ('{"bundle": 1}', "is no bundle"),
        ('{"bundle": 2, "connectors": []}', "is a bundle of format 2, and this version reads 1"),
        (f'{{"bundle": 1, "exported_from": {{"x": {"[" * 5_000}', "is no bundle"),
    ],
)
def test_files_that_are_no_bundle_are_refused(cluster: ClusterCalls, text: str, says: str) -> None:
    """The error is one sentence, and no request is sent."""
    cluster.create()
    assert says in cluster.refused("bundle", "import", cluster.file("x.json", text), code=2)


def test_an_empty_new_name_is_refused(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """An empty text is usually an unset variable; no connector has this name."""
    cluster.create()
    other.create("something")
    result = other.ask("bundle", "import", exported(cluster), "-n", "")
    assert (result.code, "it is empty: give a value" in result.err) == (2, True)
    assert list(other.json("get")) == ["something"]


def test_a_name_that_is_repeated_is_refused(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """Two connectors of one name are refused, before any connector is created."""
    cluster.create()
    cluster.create("more")
    bundle = json.loads(exported(cluster).read_text())
    bundle["connectors"].append(bundle["connectors"][-1])
    file = other.file("twice.json", bundle)
    other.create("something")
    sentence = other.refused("bundle", "import", file, code=2)
    assert sentence == f"{file} has several connectors named orders: remove all but one"
    assert list(other.json("get")) == ["something"]


def test_an_export_of_no_connector_keeps_the_file(cluster: ClusterCalls) -> None:
    """An export that selects no connector is refused, and an earlier bundle stays."""
    cluster.create()
    bundle = exported(cluster)
    before = bundle.read_bytes()
    sentence = cluster.refused("bundle", "export", "--state", "FAILED", "-f", bundle)
    assert sentence == "no connector is selected: none matches, so no bundle is written"
    assert bundle.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (
            {"target_state": "running"},
            "orders in {} has the target state 'running': write RUNNING or PAUSED or",
        ),
        (
            {"offsets": [{"foo": 1}]},
            'the offsets of orders in {} cannot be read: {"foo": 1} is not of the form {"part',
        ),
        ({"name": ""}, "{} has a connector with an empty name: write its name"),
    ],
)
def test_a_bundle_with_a_bad_value_creates_nothing(
    cluster: ClusterCalls, field: dict[str, object], says: str
) -> None:
    """A bad name, target state or offset is refused before the first change."""
    cluster.create("more")
    bundled = {"name": "orders", "config": SOURCE, "target_state": "RUNNING", "offsets": []}
    bundle = {"bundle": 1, "connectors": [{**bundled, "name": "first"}, {**bundled, **field}]}
    file = cluster.file("bad.json", bundle)
    sentence = cluster.refused("bundle", "import", file, code=2)
    assert sentence.startswith(says.replace("{}", str(file)))
    assert list(cluster.json("get")) == ["more"]


def test_an_offset_without_a_value_is_null(cluster: ClusterCalls) -> None:
    """An entry without an offset removes that of its partition, as in `offsets alter`."""
    cluster.create(initial_state="STOPPED", initial_offsets=OFFSETS)
    bundle = json.loads(exported(cluster).read_text())
    bundle["connectors"][0]["offsets"] = [{"partition": PARTITION}]
    file = cluster.file("null.json", bundle)
    assert cluster.output("bundle", "import", file) == "orders: completed (STOPPED, 1 offset)\n"
    assert cluster.json("offsets", "orders") == {"offsets": []}


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_a_wait_is_for_the_target_state(cluster: ClusterCalls, state: str) -> None:
    """Without a worker, the wait for any target state times out (exit code 5)."""
    cluster.create("more")
    bundled = {"name": "orders", "config": SOURCE, "target_state": state}
    file = cluster.file("bundle.json", {"bundle": 1, "connectors": [bundled]})
    words = ("bundle", "import", file, "--wait", "--timeout", "0")
    assert "orders was accepted, but has no effect" in cluster.refused(*words, code=5)


def test_a_text_that_no_file_can_hold_is_refused(cluster: ClusterCalls) -> None:
    """A config may have half of a surrogate pair, which UTF-8 cannot encode."""
    cluster.create()
    bundle = exported(cluster)
    before = bundle.read_bytes()
    cluster.create("odd", config={**SOURCE, "more": "\ud800"})
    sentence = cluster.refused("bundle", "export", "--all", "-f", bundle, code=2)
    assert sentence.startswith("no file can hold odd: a text of its config or offsets has half")
    assert bundle.read_bytes() == before


async def test_a_connector_that_is_created_but_not_completed_is_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A worker of Kafka creates the connector, and then refuses its offsets."""
    answers = (httpx.Response(201, json={}), httpx.Response(200, json={"offsets": []}))
    worker = FakeWorker(error(404, "no"), *answers, error(400, "bad partition"))
    bundled = bundle_commands.BundledConnector("orders", {**SOURCE}, "RUNNING", OFFSETS)
    with pytest.raises(Declined, match="bad partition"):
        await bundle_commands._imported(await worker.api(), bundled, dry_run=False)
    assert [request.method for request in worker.requests] == ["GET", "POST", "GET", "PATCH"]
    assert capsys.readouterr().err == (
        "orders was created, but not completed: import it again, or run "
        "`controlplane delete orders`\n"
    )


async def test_a_release_without_initial_states_is_refused() -> None:
    """Such a worker refuses the field `initial_state`, and its message has Java class names."""
    api = await FakeWorker(error(404, "no")).api()
    api.server = ServerInfo("3.6.2", None, ours=False)
    bundled = bundle_commands.BundledConnector("orders", {**SOURCE}, "RUNNING")
    with pytest.raises(Declined, match=r"cannot create a stopped connector: that takes 3.7.0"):
        await bundle_commands._imported(api, bundled, dry_run=False)
