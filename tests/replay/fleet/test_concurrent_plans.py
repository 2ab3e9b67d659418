"""Commands and the API open and plan the clusters of a fleet concurrently."""

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pytest

import replay
from replay.archive import layout
from replay.archive.stores.store import FolderStore
from replay.fleet import archive_source
from tests.patience import PATIENCE_S
from tests.replay.cli.replay_calls import call, content
from tests.replay.fleet.fleets import CLUSTERS, fleet_in

MANIFEST = layout.manifest("", 1).rpartition("/")[2]


class AssemblyStore(FolderStore):
    """Folder in which the first manifest of a cluster is read once all clusters are being read."""

    def __init__(self, where: str, clusters: int) -> None:
        super().__init__(where)
        self.opened: set[str] = set()
        self._barrier = Barrier(clusters, timeout=PATIENCE_S)

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Let the first read of each cluster wait for those of the others."""
        cluster = name.partition("/")[0]
        if name.endswith(MANIFEST) and cluster not in self.opened:
            self.opened.add(cluster)
            self._barrier.wait()
        return super().read(name, most_bytes)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def assembly(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AssemblyStore]:
    """Store of the archive for every query; afterwards, each cluster has been opened."""
    store = AssemblyStore(str(fleet), len(CLUSTERS))
    monkeypatch.setattr(archive_source, "open_store", lambda *_: store)
    yield store
    assert len(store.opened) == len(CLUSTERS)


@pytest.mark.parametrize(
    "words",
    [
        ("state", "--as-of", "config@3"),
        ("diff", "--from", "config@3"),
        ("timeline",),
        ("history", "--connector", "pages"),
    ],
)
def test_commands_plan_clusters_concurrently(
    words: tuple[str, ...], fleet: Path, assembly: AssemblyStore
) -> None:
    """Each command opens a cluster while it waits for the manifests of the others."""
    assert assembly
    command, *rest = words
    assert call(command, fleet, *rest, "--explain").code == 0


@pytest.mark.parametrize("table", ["clusters", "partitions", "summaries"])
def test_tables_about_clusters_are_made_concurrently(
    table: str, fleet: Path, assembly: AssemblyStore
) -> None:
    """Tables that mostly wait for the store open all clusters concurrently."""
    assert assembly
    rows = getattr(replay.open(str(fleet)), table)()
    assert list(dict.fromkeys(rows.column("cluster").to_pylist())) == [*CLUSTERS]


@pytest.mark.parametrize("words", [("state",), ("diff", "--from", "config@3")])
def test_written_folders_plan_clusters_concurrently(
    words: tuple[str, ...], fleet: Path, assembly: AssemblyStore, tmp_path: Path
) -> None:
    """`state --folder` and `diff --folder` plan the next clusters before they fold the first."""
    assert assembly
    command, *rest = words
    folder = tmp_path / "written"
    assert call(command, fleet, *rest, "-o", "parquet", "--folder", folder).code in (0, 1)
    assert "_SUCCESS" in content(folder)
