"""`bundle`: connectors carried from one cluster to another."""

import json
import stat
from pathlib import Path

import pytest

from tests.client.client_calls import PARTITION, SOURCE, ClusterCalls

OFFSETS = [{"partition": PARTITION, "offset": {"position": 5}}]


@pytest.fixture
def other(tmp_path: Path) -> ClusterCalls:
    """A second, empty cluster."""
    return ClusterCalls(f"sqlite:///{tmp_path}/other.db", tmp_path)


def exported(cluster: ClusterCalls, *words: str) -> Path:
    """Export connectors to a bundle file and return its path."""
    path = cluster.folder / "bundle.json"
    assert cluster.ask("bundle", "export", *(words or ("--all",)), "-f", path).code == 0
    return path


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "STOPPED"])
def test_carried(cluster: ClusterCalls, other: ClusterCalls, state: str) -> None:
    """Config, offsets and target state are the same on the other side."""
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


def test_imported_twice(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """The second time there is nothing to do."""
    cluster.create(initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.output("bundle", "import", bundle)
    assert other.output("bundle", "import", bundle) == "orders: unchanged\n"


def test_an_import_that_broke_off_is_finished(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """Stopped and without offsets: so it is left where only the first step was made."""
    cluster.create(initial_state="PAUSED", initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.create(initial_state="STOPPED")
    result = other.ask("bundle", "import", bundle)
    assert result.out == "orders: completed (PAUSED, 1 offset)\n", result
    assert other.json("offsets", "orders") == {"offsets": OFFSETS}


def test_existing_connectors_are_not_overwritten(
    cluster: ClusterCalls, other: ClusterCalls
) -> None:
    """Another config under the same name is refused."""
    cluster.create()
    bundle = exported(cluster)
    other.create(config={**SOURCE, "topic": "other"})
    said = other.refused("bundle", "import", bundle)
    assert said.startswith("orders exists with another config (topic: other → lines)")
    assert other.output("bundle", "import", bundle, "-n", "copy").startswith("copy: created")
    assert other.json("describe", "copy")["config"]["name"] == "copy"


def test_a_dry_run(cluster: ClusterCalls, other: ClusterCalls) -> None:
    """One command, and all that it would write."""
    cluster.create(initial_offsets=OFFSETS)
    bundle = exported(cluster)
    other.create("something")
    (result,) = other.json("bundle", "import", bundle, "--dry-run")
    keys = [record["key"] for step in result["plan"]["steps"] for record in step["records"]]
    assert "connector-orders" in keys
    assert list(other.json("get")) == ["something"]


def test_a_file_is_private(cluster: ClusterCalls) -> None:
    """A bundle may have secrets: mode 600."""
    cluster.create()
    assert stat.S_IMODE(exported(cluster).stat().st_mode) == 0o600


def test_a_file_that_everybody_could_read_is_private(cluster: ClusterCalls) -> None:
    """An export over an existing file: the old mode does not count."""
    cluster.create()
    bundle = exported(cluster)
    bundle.chmod(0o666)
    assert stat.S_IMODE(exported(cluster).stat().st_mode) == 0o600


def test_offsets_that_nobody_can_tell(cluster: ClusterCalls) -> None:
    """A sink's offsets are in its consumer group: the bundle has null, and the command warns."""
    sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": "t",
    }
    cluster.create(config=sink)
    result = cluster.ask("bundle", "export", "orders")
    assert result.code == 1
    assert json.loads(result.out)["connectors"][0]["offsets"] is None
    assert "Warning: orders is exported without its offsets: " in result.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no bundle"),
        ('{"bundle": 1}', "is no bundle"),
        ('{"bundle": 2, "connectors": []}', "is a bundle of format 2, and this version reads 1"),
    ],
)
def test_files_that_are_no_bundle(cluster: ClusterCalls, text: str, says: str) -> None:
    """The error is one sentence, and no request is sent."""
    cluster.create()
    assert says in cluster.refused("bundle", "import", cluster.file("x.json", text), code=2)
