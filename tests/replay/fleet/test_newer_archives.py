"""A newer format in the middle of a fleet: that cluster is named, and the others are answered."""

from pathlib import Path

import msgspec
import pytest

import replay
from replay.fleet.table_run import SkippedCluster
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import archived, capture, cluster_in, log_of
from tests.replay.cli.execution.test_cluster_jobs import ASKED, CLUSTERS
from tests.replay.cli.replay_calls import call, content
from tests.replay.compat.planted_log import running, stopped

EAST, NEWER, WEST = CLUSTERS
OTHERS = EAST, WEST
PROBLEM = f"cluster={NEWER}/_manifest/0000000001.json has format 99, but only 1 to 4 are known"
HISTORY_NAMES = "odd-records-3.9", "roll-3.4-3.9-3.4", "aborted-3.9"
LOOK = 40
"""Number of records per log that were archived before another version of `replay` wrote."""

FOLDER = ("-o", "parquet", "--folder", "state")
COMMANDS = [*ASKED, ("compact-archive", "--dry-run"), ("watch", "--once"), ("state", *FOLDER)]


def write_newer_format(folder: Path) -> None:
    """Give the last manifest of the cluster in the middle a format of the future."""
    path = max((folder / f"cluster={NEWER}" / "_manifest").iterdir())
    document = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(document | {"format": 99}))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clusters; no test changes them."""
    folder = tmp_path_factory.mktemp("newer")
    for name, log in zip(CLUSTERS, (stopped(), running(), running()), strict=True):
        capture(folder, log_of(log.entries), name=name)
    write_newer_format(folder)
    return folder


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_the_others_are_answered(
    fleet: Path, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output and files are those of the others alone; the cluster is named, with exit code 2."""
    results = []
    selected = [word for name in OTHERS for word in ("--cluster", name)]
    before = content(fleet)
    for place, options in (("all", []), ("others", selected)):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        results.append(call(words[0], fleet, *words[1:], *options))
    named, alone = results
    assert named.out == alone.out
    assert all(name in alone.out for name in OTHERS) or words[0] == "report"
    assert (named.code, alone.code in (0, 1)) == (2, True)
    assert named.err.removeprefix("Error: ").removeprefix(f"{NEWER}: ").startswith(PROBLEM)
    assert "use a newer replay" in named.err
    files = [content(tmp_path / place) for place in ("all", "others")]
    assert [*files[0]] == [*files[1]]
    assert content(fleet) == before


def test_tables_have_the_others(fleet: Path) -> None:
    """A table has the rows of the others, and a warning names the cluster."""
    expected = replay.open(str(fleet), clusters=OTHERS).state()
    with pytest.warns(SkippedCluster, match=f"^{NEWER}: {PROBLEM}"):
        assert replay.open(str(fleet)).state().equals(expected)
    problems = [row["problem"] for row in replay.open(str(fleet)).clusters().to_pylist()]
    assert [problem is None for problem in problems] == [True, False, True]


def test_a_capture_adds_to_the_others(tmp_path: Path) -> None:
    """A capture changes no file of the newer cluster, and archives all records of the others."""
    histories = dict(zip(CLUSTERS, HISTORY_NAMES, strict=True))
    for name, history in histories.items():
        capture(tmp_path, log_of(recorded_entries(history)[:LOOK]), name=name)
    write_newer_format(tmp_path)
    before = content(tmp_path / f"cluster={NEWER}")
    logs = (f"{name}={HISTORIES / history}.log.jsonl" for name, history in histories.items())
    result = call("capture", *logs, tmp_path, "--once")
    assert (result.code, PROBLEM in result.err) == (2, True)
    assert content(tmp_path / f"cluster={NEWER}") == before
    for name in OTHERS:
        assert len(archived(cluster_in(tmp_path, name))) == len(recorded_entries(histories[name]))
