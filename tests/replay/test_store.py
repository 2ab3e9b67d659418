"""Where archives lie: a folder, or whatever else Arrow can read and write."""

from pathlib import Path

import pytest
from pyarrow import fs

from controlplane.core.profiles import Profile
from replay.archive.cluster import open_cluster, open_clusters
from replay.archive.objects import Objects
from replay.archive.store import Folder, Store, open_store
from replay.archive.verify import verified
from replay.errors import NoArchive
from tests.recorded import recorded_entries
from tests.replay.archived import NAME, capture_into, log_of, replayed, served
from tests.replay.cli.calling import content

HISTORY = "aborted-3.9"


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A folder, and the same folder as an object store sees it."""
    where = str(tmp_path / "archive")
    if request.param == "folder":
        return open_store(where)
    return Objects(where, fs.LocalFileSystem(), where)


def test_the_whole_of_an_archive_in_each(store: Store) -> None:
    """Captured twice, verified, asked."""
    log = log_of(recorded_entries(HISTORY))
    assert [capture_into(store, log).added for _ in range(2)] == [97, 0]
    (cluster,) = open_clusters(store)
    result = verified(cluster)
    assert (result.records, result.flaws, result.leftovers) == (97, (), ())
    kip = [Profile.of("kip")]
    assert replayed(cluster, "config@7", kip) == served(log, "config@7", kip)


def test_a_name_is_taken_once(store: Store) -> None:
    """Who comes second changes nothing, and leaves nothing."""
    assert [store.add("a/b", text) for text in (b"first", b"second")] == [True, False]
    assert store.read("a/b") == b"first"
    assert (store.size("a/b"), store.size("a/c")) == (5, None)
    assert [*store.walk("")] == ["a/b"]
    assert (store.names("a"), store.names("b")) == (["b"], [])
    with store.open("a/b") as file:
        assert file.read() == b"first"


def test_both_write_the_same(tmp_path: Path) -> None:
    """But for the time at which they did."""
    log = log_of(recorded_entries(HISTORY))
    for name in ("one", "other"):
        where = str(tmp_path / name)
        store = Folder(where) if name == "one" else Objects(where, fs.LocalFileSystem(), where)
        capture_into(store, log)
    one, other = (content(tmp_path / name) for name in ("one", "other"))
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == [
        f"cluster={NAME}/_manifest/0000000001.json"
    ]


def test_what_cannot_be_read_is_no_archive(tmp_path: Path) -> None:
    """Whatever the system says: a folder where a file should be."""
    (tmp_path / "a").mkdir()
    stores = Folder(str(tmp_path)), Objects("it", fs.LocalFileSystem(), str(tmp_path))
    for store in stores:
        with pytest.raises(NoArchive, match=f"{store.where} cannot be read"):
            store.read("a")
        with pytest.raises(FileNotFoundError):
            store.read("b")


def test_urls(tmp_path: Path) -> None:
    """A file's URL is a folder; what no file system is called is refused."""
    capture_into(open_store(f"file://{tmp_path}/x"), log_of(recorded_entries(HISTORY)))
    assert open_cluster(Folder(str(tmp_path / "x")), NAME).parts
    with pytest.raises(NoArchive, match="nowhere://x cannot be opened"):
        open_store("nowhere://x")
