"""Names of clusters and connectors that an archive lacks, in the Python API."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from replay.errors import NoArchive
from replay.fleet.answer_warnings import AbsentConnector
from replay.fleet.open_archive import OpenArchive
from tests.replay.fleet.fleets import fleet_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def archive(folder: Path) -> OpenArchive[pa.Table]:
    """Open archive of the recorded clusters."""
    return replay.open(str(folder))


def test_unknown_clusters_are_refused(folder: Path, tmp_path: Path) -> None:
    """The error names the archived clusters, as the commands do."""
    for clusters, absent in (("lief", "a cluster lief"), (["x", "y"], "the clusters x and y")):
        with pytest.raises(NoArchive, match=rf"has no archive of {absent} \(found: aborted, "):
            replay.open(str(folder), clusters=clusters)
    with pytest.raises(NoArchive, match="'a/b' cannot be the name of a cluster"):
        replay.open(str(folder), clusters="a/b")
    with pytest.raises(NoArchive, match="does not exist: check the path"):
        replay.open(str(tmp_path / "none"), clusters="life")
    archive = replay.open(str(folder), clusters="life")
    for ask in (archive.diff, lambda **sides: archive.write_diff(tmp_path / "diff", **sides)):
        with pytest.raises(NoArchive, match="has no archive of a cluster lief"):
            ask(to_cluster="lief")
    assert not [*tmp_path.iterdir()]


ASKS: dict[str, Callable[..., object]] = {
    "history": lambda archive, _, *names: archive.history(*names),
    "timeline": lambda archive, _, *names: archive.timeline(names),
    "diff": lambda archive, _, *names: archive.diff("config@3", connectors=names),
    "write_diff": lambda archive, to, *names: archive.write_diff(to, "config@3", connectors=names),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_each_query_names_unknown_connectors(
    ask: Callable[..., object], archive: OpenArchive[pa.Table], tmp_path: Path
) -> None:
    """A connector is unknown only if no cluster has it. A warning names it, as commands do."""
    sentence = "^the answer has no connector 'zzz': check the name$"
    for number in range(2):  # Python shows a repeated warning once by default
        with pytest.warns(AbsentConnector, match=sentence):
            ask(archive, tmp_path / str(number), "pages", "zzz")
    with pytest.warns(AbsentConnector, match="none of the connectors 'zzz' and 'zz': check"):
        ask(archive, tmp_path / "both", "zzz", "zz")
    with warnings.catch_warnings(record=True) as caught:
        ask(archive, tmp_path / "known", "pages")
    assert not caught


def test_a_connector_without_a_difference_is_known(archive: OpenArchive[pa.Table]) -> None:
    """A comparison knows a connector that it has no row about."""
    with warnings.catch_warnings(record=True) as caught:
        assert not archive.diff("end", connectors="pages").num_rows
    assert not caught


def test_a_history_needs_a_name(archive: OpenArchive[pa.Table]) -> None:
    """A list of connectors that is empty by mistake is no answer without rows."""
    with pytest.raises(ValueError, match="no connector is named: give one or more"):
        archive.history()
