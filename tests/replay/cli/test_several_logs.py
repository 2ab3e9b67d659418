"""Captures of several logs, `verify` of several clusters: a failing one stops no other."""

import asyncio
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from replay.archive.archived_cluster import ArchivedCluster
from replay.cli.commands import verify
from replay.engine.coverage.archive_coverage import PartitionCoverage, coverage
from replay.errors import ArchiveBusy
from tests.patience import PATIENCE_S
from tests.recorded_requests import HISTORIES
from tests.replay.cli.embedded_logs import write_config
from tests.replay.cli.replay_calls import call, content, refusal, started, wait_for

pytestmark = pytest.mark.slow

LIFE = f"life={HISTORIES / 'life-3.9.log.jsonl'}"
ROLL = f"roll={HISTORIES / 'roll-3.4-3.9-3.4.log.jsonl'}"
NONE = "none=/nope"
NOBODY = "nobody=kafka://127.0.0.1:1"


# --- capture --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [(LIFE, NONE, ROLL), (NONE, LIFE, ROLL), (ROLL, LIFE, NONE)])
def test_a_missing_log_stops_no_other(sources: tuple[str, ...], tmp_path: Path) -> None:
    """The capture reports the missing log and archives the others, in any order of arguments."""
    result = call("capture", *sources, tmp_path, "-o", "json")
    assert {cluster["cluster"]: cluster["added"] for cluster in result.json} == {
        "life": 354,
        "roll": 108,
    }
    assert refusal(result) == "none: /nope does not exist: check the path"
    assert [cluster["records"] for cluster in call("verify", tmp_path, "-o", "json").json] == [
        354,
        108,
    ]


def test_an_archive_of_another_log_stops_no_other(tmp_path: Path) -> None:
    """The refused capture leaves the archive of `life` unchanged; `roll` is archived."""
    assert call("capture", LIFE, tmp_path).code == 0
    before = content(tmp_path)
    other = f"life={HISTORIES / 'life-4.3.log.jsonl'}"
    result = call("capture", other, ROLL, tmp_path, "-o", "json")
    assert refusal(result).startswith("life: connect-configs@")
    assert [cluster["cluster"] for cluster in result.json] == ["roll"]
    assert {name: content(tmp_path)[name] for name in before} == before


def test_a_cluster_that_cannot_be_reached_stops_no_other(tmp_path: Path) -> None:
    """With `--once` the unreachable cluster is reported, and the others are archived."""
    result = call("capture", NOBODY, LIFE, tmp_path, "--once", "-o", "json")
    assert refusal(result).startswith("nobody: ")
    assert [cluster["cluster"] for cluster in result.json] == ["life"]


def test_a_capture_ends_without_reachable_logs(tmp_path: Path) -> None:
    """A capture ends if at first no log can be archived: no broker answers, and no dump exists."""
    with started("capture", NOBODY, NONE, tmp_path / "archive") as capture:
        shown, errors = capture.communicate(timeout=PATIENCE_S)
    assert (capture.returncode, shown) == (2, "")
    assert [line.split(": ")[:2] for line in errors.splitlines()] == [
        ["Error", "nobody"],
        ["Error", "none"],
    ]
    assert not (tmp_path / "archive").exists()


def test_errors_contain_no_login(tmp_path: Path) -> None:
    """The errors name a log's URL without its login."""
    result = call("capture", "kafka://me:hunter2@127.0.0.1:1", LIFE, tmp_path, "--once")
    assert "kafka://127.0.0.1:1: " in refusal(result)
    assert "hunter2" not in result.err


@pytest.mark.parametrize("named", [("", ""), ("", "dump="), ("dump=", "dump=")])
def test_logs_of_one_name_are_refused(named: tuple[str, str], tmp_path: Path) -> None:
    """Two logs of one name would become one cluster, so none is archived."""
    logs = [tmp_path / "one" / "dump.jsonl", tmp_path / "two" / "dump.jsonl"]
    for log, history in zip(logs, ("life-3.9", "roll-3.4-3.9-3.4"), strict=True):
        log.parent.mkdir()
        shutil.copy(HISTORIES / f"{history}.log.jsonl", log)
    if named[0]:
        logs[0] = logs[0].rename(tmp_path / "other.jsonl")
    sources = [f"{name}{log}" for name, log in zip(named, logs, strict=True)]
    result = call("capture", *sources, tmp_path / "archive")
    assert refusal(result) == "two logs have the name dump: give each its own by NAME=LOG"
    assert not (tmp_path / "archive").exists()
    assert call("capture", *sources[:1], f"b={logs[1]}", tmp_path / "archive").code == 0


class FollowingCapture:
    """Running capture that archives growing logs into one archive."""

    def __init__(self, folder: Path, process: "Popen[str]") -> None:
        self._folder = folder
        self._process = process

    def manifest(self, cluster: str, number: int) -> Path:
        """Path of a manifest, which may not exist yet."""
        name = f"{number:010}.json"
        return self._folder / "archive" / f"cluster={cluster}" / "_manifest" / name

    def append_and_wait(self, cluster: str, number: int) -> None:
        """Write to a log, and wait until the record is archived."""
        asyncio.run(write_config(self._folder / f"{cluster}.db", f"connector-{number}".encode()))
        wait_for(self.manifest(cluster, number))

    def is_interrupted(self) -> list[str]:
        """Interrupt the capture; return its reports about retried logs."""
        self._process.send_signal(signal.SIGINT)
        _, output = self._process.communicate()
        assert self._process.returncode == 130
        ending = "; the capture is retried"
        return [line.removesuffix(ending) for line in output.splitlines() if line.endswith(ending)]

    def has_ended(self) -> list[str]:
        """Wait until the capture ends by itself with exit code 2; return its error lines."""
        _, output = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 2
        return [line for line in output.splitlines() if line.startswith("Error: ")]


@contextmanager
def following(folder: Path, *sources: str) -> Iterator[FollowingCapture]:
    """Run a capture of embedded logs with one record each, and of further logs."""
    for name in sources:
        if "=" not in name:
            asyncio.run(write_config(folder / f"{name}.db", b"connector-1"))
    logs = [name if "=" in name else f"{name}={folder / name}.db" for name in sources]
    with started("capture", *logs, folder / "archive", "--every", "0.1") as process:
        capture = FollowingCapture(folder, process)
        for name in sources:
            if "=" not in name:
                wait_for(capture.manifest(name, 1))
        yield capture


def torn(manifest: Path) -> bytes:
    """Cut off the end of a manifest; return its former content."""
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-9])
    return whole


def test_a_failing_cluster_stops_no_other_and_recovers(tmp_path: Path) -> None:
    """A failing cluster is tried again with each capture of the others, and delays none of them."""
    with following(tmp_path, "bad", "good") as capture:
        whole = torn(capture.manifest("bad", 1))
        for number in (2, 3):  # `bad` was certainly read before record 3 was archived
            capture.append_and_wait("good", number)
        capture.manifest("bad", 1).write_bytes(whole)
        capture.append_and_wait("bad", 2)
        reports = capture.is_interrupted()
    assert {line.partition(" (")[0] for line in reports} == {
        "bad: cluster=bad/_manifest/0000000001.json is no manifest"
    }


def test_a_cluster_unreachable_at_the_start_is_retried(tmp_path: Path) -> None:
    """The other clusters are archived meanwhile."""
    with following(tmp_path, NOBODY, "good") as capture:
        capture.append_and_wait("good", 2)
        reports = capture.is_interrupted()
    assert {line.partition(": ")[0] for line in reports} == {"nobody"}


def test_a_following_capture_says_so(tmp_path: Path) -> None:
    """A capture prints that it captures growing logs again, and how often."""
    asyncio.run(write_config(tmp_path / "a.db", b"connector-1"))
    log = f"a={tmp_path / 'a.db'}"
    with started("capture", log, LIFE, tmp_path / "archive", "--every", "0.1") as capture:
        assert capture.stderr is not None
        lines = iter(capture.stderr.readline, "")
        assert "a: captured again every 0.1 s until Ctrl-C; --once captures once\n" in lines
        capture.send_signal(signal.SIGINT)
        capture.communicate()


def test_a_capture_waits_for_the_end_of_an_outage(tmp_path: Path) -> None:
    """The capture retries a cluster even if the other log, a dump, is archived completely."""
    with started("capture", NOBODY, LIFE, tmp_path, "--every", "0.1") as capture:
        assert capture.stderr is not None
        lines = [capture.stderr.readline() for _ in range(3)]
        capture.send_signal(signal.SIGINT)
        capture.communicate()
    assert capture.returncode == 130
    for line in lines:
        assert line.startswith("nobody: ")
        assert line.endswith("; the capture is retried\n")


@pytest.mark.parametrize("names", [("bad",), ("bad", "worse")])
def test_a_capture_that_cannot_succeed_ends(names: tuple[str, ...], tmp_path: Path) -> None:
    """A capture that cannot succeed exits, so that a service supervisor sees it."""
    with following(tmp_path, *names) as capture:
        for name in names:
            torn(capture.manifest(name, 1))
        errors = capture.has_ended()
    for name, line in zip(names, errors, strict=True):
        assert f"cluster={name}/_manifest/0000000001.json is no manifest" in line


# --- verify ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clusters, the first of which has two manifests."""
    folder = tmp_path_factory.mktemp("sound")
    both = [f"{name}={folder / name}.db" for name in ("a", "b", "c")]
    for name in ("a", "b", "c", "a"):
        asyncio.run(write_config(folder / f"{name}.db", b"connector-a"))
        logs = [log for log in both if Path(log.partition("=")[2]).exists()]
        assert call("capture", *logs, folder / "archive", "--once").code == 0
    return folder / "archive"


@pytest.fixture
def archive(sound: Path, tmp_path: Path) -> Path:
    """Copy of the sound archive, for a test to damage."""
    return shutil.copytree(sound, tmp_path / "archive")


def manifests(archive: Path, cluster: str) -> list[Path]:
    return sorted((archive / f"cluster={cluster}" / "_manifest").iterdir())


def test_a_torn_manifest_hides_no_other_cluster(archive: Path) -> None:
    """Table and JSON show the other clusters; JSON also has the reason for the failure."""
    torn(manifests(archive, "b")[0])
    result = call("verify", archive, "-o", "json")
    assert refusal(result).startswith("cluster=b/_manifest/0000000001.json is no manifest")
    assert [(report["cluster"], report["sound"]) for report in result.json] == [
        ("a", True),
        ("c", True),
        ("b", False),
    ]
    assert "is no manifest" in result.json[-1]["failed"]
    shown = [line.split()[0] for line in call("verify", archive).out.splitlines()]
    assert shown[2:] == ["a", "c"]


def test_every_bad_cluster_is_named(archive: Path) -> None:
    """A torn manifest and a missing segment are each reported with their cluster."""
    torn(manifests(archive, "b")[0])
    next((archive / "cluster=c").rglob("segment-*")).unlink()
    lines = call("verify", archive).err.splitlines()
    assert [line.partition("/")[0] for line in lines] == ["Error: cluster=b", "Error: cluster=c"]


def test_a_cluster_named_twice_is_printed_once(sound: Path) -> None:
    """`verify` and `state` print the cluster once."""
    for command in ("verify", "state"):
        result = call(command, sound, "--cluster", "a", "--cluster", "a", "-o", "json")
        assert [report["cluster"] for report in result.json] == ["a"]


@pytest.fixture
def heads(sound: Path) -> dict[str, str]:
    """Hash of the last manifest, by cluster."""
    return {
        report["cluster"]: report["head"] for report in call("verify", sound, "-o", "json").json
    }


def head_options(*heads: str) -> list[str]:
    """Options `--head`, one per hash of a manifest."""
    return [word for head in heads for word in ("--head", head)]


def test_a_head_of_an_unread_cluster_is_not_called_cut_off(
    archive: Path, heads: dict[str, str]
) -> None:
    """If a head may belong to a cluster that cannot be read, the error says so."""
    torn(manifests(archive, "a")[0])
    result = call("verify", archive, *head_options(heads["a"]))
    sentence = f"no manifest has the hash {heads['a']}: a could not be read, so restore that first"
    assert (result.code, sentence in result.err) == (2, True)


def test_a_merge_during_verify_hides_no_other_cluster(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a merge removes the files of a cluster before its coverage, the others are printed."""

    def busy(cluster: ArchivedCluster) -> Iterator[PartitionCoverage]:
        if cluster.name == "a":
            raise ArchiveBusy("merged meanwhile")
        return coverage(cluster)

    monkeypatch.setattr(verify, "coverage", busy)
    result = call("verify", archive, "-o", "json")
    assert [report.get("failed") for report in result.json] == [None, None, "merged meanwhile"]
    assert (result.code, "a: merged meanwhile" in result.err) == (2, True)


def test_every_given_head_is_searched(sound: Path, heads: dict[str, str]) -> None:
    """A head is searched in the chain of a named cluster (`a=HASH`), or else in all chains."""
    own = [f"{cluster}={head}" for cluster, head in heads.items()]
    first = call("verify", sound, *head_options(*own, *heads.values()))
    assert first.code == 0
    wrong = (*head_options(heads["a"], "0" * 64), *head_options(heads["b"]))
    assert refusal(call("verify", sound, *wrong)).startswith(f"no manifest has the hash {'0' * 64}")
    other = head_options(f"a={heads['b']}")
    assert "has the hash" in refusal(call("verify", sound, *other))
    for head in ("a=", ""):
        result = call("verify", sound, *head_options(head))
        assert (result.code, result.out) == (2, "")  # before anything is verified
        assert f"--head {head!r} has no hash: give NAME=SHA256" in result.err


def test_a_missing_end_of_a_chain_is_found(archive: Path, heads: dict[str, str]) -> None:
    """Only a given head reveals that a chain has lost its last manifest."""
    first, last = manifests(archive, "a")
    last.unlink()
    unseen = call("verify", archive)
    assert unseen.code == 0
    assert "that no manifest names" in unseen.out
    for a, b in ((heads["a"], heads["b"]), (f"a={heads['a']}", f"b={heads['b']}")):
        for order in ((a, b), (b, a)):
            assert "the end of the archive was cut off" in refusal(
                call("verify", archive, *head_options(*order))
            )
    first.unlink()
    for words in ((), head_options(f"a={heads['a']}")):
        assert "cluster=a/_manifest has no manifest: restore" in refusal(
            call("verify", archive, *words)
        )
    shutil.rmtree(archive / "cluster=a")
    assert "cluster a was not verified (verified: b, c)" in refusal(
        call("verify", archive, *head_options(f"a={heads['a']}"))
    )


def test_an_older_head_is_in_the_chain(archive: Path, heads: dict[str, str]) -> None:
    """A head kept before the last append is still accepted."""
    whole = manifests(archive, "a")[1].read_bytes()
    manifests(archive, "a")[1].unlink()
    older = call("verify", archive, "--cluster", "a", "-o", "json").json[0]["head"]
    manifests(archive, "a")[0].with_name("0000000002.json").write_bytes(whole)
    assert older not in heads.values()
    assert call("verify", archive, *head_options(older, f"a={older}")).code == 0
    assert "of b has the hash" in refusal(call("verify", archive, *head_options(f"b={older}")))


def test_an_unreadable_cluster_is_reported_once(archive: Path, heads: dict[str, str]) -> None:
    """An unreadable cluster gives one error line, even if `--head` names its hash."""
    torn(manifests(archive, "b")[0])
    assert "is no manifest" in refusal(call("verify", archive, *head_options(f"b={heads['b']}")))
