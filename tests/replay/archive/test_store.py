"""Stores of archives: folders and object stores."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import replay
from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.hadoop_settings import NONE, HadoopSettings
from replay.archive.stores.object_store import BucketStore
from replay.archive.stores.store import ArchiveStore, FolderStore, open_store
from replay.archive.verification import verified
from replay.errors import NoArchive, NotWritable
from replay.fleet.state_files import StateFolder, new_folder
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import (
    NAME,
    capture_into,
    lasting_days,
    log_of,
    open_clusters,
    replayed,
    served,
)
from tests.replay.archive.buckets import Bucket, bucket, in_bucket, in_store
from tests.replay.cli.replay_calls import call, refusal
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

HISTORY = "aborted-3.9"


@pytest.fixture(scope="module")
def stores() -> Iterator[Bucket]:
    """An object store with one bucket."""
    with bucket("stores") as made:
        yield made


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, stores: Bucket, tmp_path: Path) -> ArchiveStore:
    """A folder, and one in a bucket."""
    return in_store(request.param, stores, tmp_path)


def test_an_archive_works_in_each_store(store: ArchiveStore) -> None:
    """Each kind of store captures a log, captures it again, verifies and replays it."""
    log = log_of(recorded_entries(HISTORY))
    assert [capture_into(store, log).added for _ in range(2)] == [97, 0]
    (cluster,) = open_clusters(store)
    result = verified(cluster)
    assert (result.records, result.flaws, result.leftovers) == (97, (), ())
    kip = [Profile.of("kip")]
    assert replayed(cluster, "config@7", kip) == served(log, "config@7", kip)


def test_snapshots_work_in_each_store(store: ArchiveStore) -> None:
    """Snapshots are read as written: no store takes the ending `.zst` for its own compression."""
    log = log_of(lasting_days(recorded_entries(HISTORY)))
    capture_into(store, log)
    (cluster,) = open_clusters(store)
    assert any(snapshot.folded for snapshot in cluster.snapshots)
    assert verified(cluster).flaws == ()
    kip = [Profile.of("kip")]
    assert replayed(cluster, None, kip) == served(log, None, kip)


def test_a_file_is_replaced_and_removed(store: ArchiveStore) -> None:
    """A store replaces and removes files; removing a missing file is no error."""
    store.add("a/b", b"first")
    store.replace("a/b", b"second")
    assert store.read("a/b") == b"second"
    for _ in range(2):
        store.remove("a/b")
        assert store.size("a/b") is None


def test_a_name_is_taken_once(store: ArchiveStore) -> None:
    """The second writer of a name changes no file and leaves none."""
    assert [store.add("a/b", text) for text in (b"first", b"second")] == [True, False]
    assert store.read("a/b") == b"first"
    assert (store.size("a/b"), store.size("a/c")) == (5, None)
    assert [*store.walk("")] == ["a/b"]
    assert (store.names("a"), store.names("b")) == (["b"], [])
    with store.open("a/b") as file:
        assert file.read() == b"first"


def test_two_runs_share_no_folder(stores: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two runs that found a folder empty is refused. A failed run leaves it free."""
    place = ("s3a://stores/shared", HadoopSettings(stores.hadoop))
    monkeypatch.setattr(BucketStore, "names", lambda *_: [])
    refused = pytest.raises(NotWritable, match="is being written by another run")
    with refused, new_folder(*place), new_folder(*place):
        pass
    monkeypatch.undo()
    with new_folder(*place):
        pass


def test_a_failed_run_keeps_its_error_in_an_outage(
    stores: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of a run may stay behind; the user sees why the run failed."""

    def fail(*_: object) -> None:
        raise NotWritable("the store does not answer")

    place = ("s3a://stores/failed", HadoopSettings(stores.hadoop))
    monkeypatch.setattr(BucketStore, "remove", fail)
    with pytest.raises(KeyboardInterrupt), new_folder(*place):
        raise KeyboardInterrupt


def test_a_file_is_refused_before_the_run(tmp_path: Path) -> None:
    """The work of a run is not lost at its end."""
    (tmp_path / "state").touch()
    with pytest.raises(NotWritable, match="is a file"), new_folder(str(tmp_path / "state"), NONE):
        pytest.fail("the run has begun")


def test_the_draft_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    """The next run into the same parent removes it, whatever its folder is named."""
    left_by_a_killed_run(tmp_path / "killed")
    with new_folder(str(tmp_path / "state"), NONE) as run:
        assert [str(path) for path in tmp_path.iterdir()] == [run.where]
        assert Path(run.where).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


def left_by_a_killed_run(folder: Path) -> None:
    """Begin to write a folder in a process that ends without its cleanup."""
    code = (
        "import os, sys\n"
        "from replay.archive.stores.hadoop_settings import NONE\n"
        "from replay.fleet.state_files import new_folder\n"
        "with new_folder(sys.argv[1], NONE):\n"
        "    os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True, cwd=ROOT)
    assert list(folder.parent.iterdir())


def test_files_of_a_failed_run_keep_the_next_run_out(stores: Bucket) -> None:
    """Tables of two runs never mix."""
    place = ("s3a://stores/half", HadoopSettings(stores.hadoop))

    def interrupted(run: StateFolder) -> None:
        open_store(run.where, run.settings).add("topics/part", b"")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), new_folder(*place) as run:
        interrupted(run)
    with pytest.raises(NotWritable, match="has files but no _SUCCESS"), new_folder(*place):
        pass


def test_both_stores_have_equal_files(stores: Bucket, tmp_path: Path) -> None:
    """The stores hold equal files except for the times of writing."""
    log = log_of(recorded_entries(HISTORY))
    contents = []
    for store in (FolderStore(str(tmp_path)), in_bucket(stores, tmp_path)):
        capture_into(store, log)
        contents.append({name: store.read(name) for name in store.walk("")})
    in_folder, in_store = contents
    assert in_folder.keys() == in_store.keys()
    assert [name for name in in_folder if in_folder[name] != in_store[name]] == [
        f"cluster={NAME}/_manifest/0000000001.json"
    ]


def test_an_unreadable_file_is_no_archive(tmp_path: Path) -> None:
    """A folder in place of a file is refused with its path."""
    (tmp_path / "a").mkdir()
    with pytest.raises(NoArchive, match=f"{tmp_path}/a cannot be read"):
        open_store(str(tmp_path)).read("a")


def test_a_missing_file_raises_file_not_found(store: ArchiveStore) -> None:
    """A missing file is `FileNotFoundError`, unlike an unreadable one."""
    store.add("a/b", b"")
    for name in ("a/c", "b"):
        with pytest.raises(FileNotFoundError):
            store.read(name)


@pytest.mark.parametrize(
    ("written", "folder"),
    [("a b", "a b"), ("a%20b", "a b"), ("ä", "ä"), ("[x]", "[x]"), ("a#b?c=d", "a#b?c=d")],
)
def test_a_file_url_may_be_unescaped(tmp_path: Path, written: str, folder: str) -> None:
    """People paste paths behind `file://`: only `%20` and the like are escapes."""
    assert open_store(f"file://{tmp_path}/{written}").where == f"{tmp_path}/{folder}"


def test_only_urls_of_folders_and_buckets_are_accepted(tmp_path: Path) -> None:
    """A `file://` URL names a folder; other URLs than of folders and buckets are refused."""
    capture_into(open_store(f"file://{tmp_path}/x"), log_of(recorded_entries(HISTORY)))
    assert open_cluster(FolderStore(str(tmp_path / "x")), NAME).parts
    with pytest.raises(NoArchive, match="no archive can be at nowhere://"):
        open_store("nowhere://x")
    for typo in ("s3:/bucket/x", "s3a:bucket/x", "file:/x", "File:x"):
        with pytest.raises(NoArchive, match=f"{typo} is no URL: write .*://…, or ./{typo}"):
            open_store(typo)
    for url in ("file://host/x", "file://localhost/x", "file://host", "file://"):
        with pytest.raises(NoArchive, match=f"^{url} is not of the form file:///path$"):
            open_store(url)
    with pytest.raises(NoArchive, match=r"^file:///a%zz is no URL of a folder: .* as %25$"):
        open_store("file:///a%zz")
    assert open_store("a:b").where == "a:b"


def test_an_empty_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty name, such as that of an unset variable, does not mean the current folder."""
    monkeypatch.chdir(tmp_path)
    log = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"
    for words in (("capture", log, ""), ("state", ""), ("compact-archive", ""), ("verify", "")):
        assert "the name of the folder is empty" in refusal(call(*words))
    assert not [*tmp_path.iterdir()]
    with pytest.raises(NoArchive, match="the name of the folder is empty"):
        replay.open("")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("lint", "fleet", "--release", "3.9"), "--resume"),
        (("audit", "fleet"), "--resume"),
        (("compat", "fleet", "--from", "3.4", "--to", "3.9"), "--resume"),
        (("report", "fleet", "--file", "page.html"), "--resume"),
        (("capture", "log.jsonl", "fleet"), "--checkpoint"),
        (("watch", "fleet", "--checkpoint", "progress"), "--folder"),
    ],
)
def test_an_empty_option_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], option: str
) -> None:
    """An empty folder is neither the current folder nor a default."""
    monkeypatch.chdir(tmp_path)
    result = call(*words, option, "")
    assert (result.code, f"'{option}': it is empty" in result.err) == (2, True), result
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("command", "names_spark"), [("verify", False), ("compact-archive", False), ("state", True)]
)
def test_only_commands_with_spark_take_its_settings(command: str, *, names_spark: bool) -> None:
    """The help of `--conf` mentions Spark only in commands that can start it."""
    help_text = " ".join(call(command, "--help").out.split())
    assert "etting of the object store (spark.hadoop.fs.s3a.…)" in help_text or names_spark
    assert ("Setting of Spark" in help_text) is names_spark
