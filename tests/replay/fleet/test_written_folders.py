"""Folders of files: the commands write them by calls of the Python API."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import replay
from replay.errors import NotWritable
from replay.fleet.open_archive import OpenArchive
from tests.conftest import sampled
from tests.replay.cli.replay_calls import call, content
from tests.replay.fleet.fleets import CLUSTERS, fleet_in


class FolderWrite(NamedTuple):
    """Call of the API, and the words of the command that writes the same files."""

    words: tuple[str, ...]
    method: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = MappingProxyType({})
    clusters: tuple[str, ...] = ()


WRITES = (
    FolderWrite(
        ("state", "--release", "3.4", "--release", "kip"),
        "write_state",
        options={"release": ["3.4", "kip"]},
    ),
    FolderWrite(
        ("state", "--as-of", "config@9", "--release", "all", "--exactly-once"),
        "write_state",
        options={"as_of": "config@9", "release": "all"},
    ),
    FolderWrite(
        ("diff", "--from", "config@3", "--connector", "pages"),
        "write_diff",
        ("config@3",),
        {"connectors": "pages"},
    ),
    FolderWrite(
        ("diff", "--release", "3.4", "--to-release", "3.9", "--as-of", "config@9"),
        "write_diff",
        ("config@9",),
        {"release": "3.4", "to_release": "3.9"},
    ),
    FolderWrite(
        ("diff", "--from", "config@3", "--to-cluster", "roll"),
        "write_diff",
        ("config@3", "end"),
        {"to_cluster": "roll"},
        ("life",),
    ),
    FolderWrite(
        ("diff", "--as-of", "config@3", "--to-cluster", "roll"),
        "write_diff",
        ("config@3",),
        {"to_cluster": "roll"},
        ("life",),
    ),
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.mark.parametrize(
    "write", sampled(WRITES, *WRITES[::2]), ids=lambda write: " ".join(write.words)
)
def test_commands_write_by_calls_of_the_api(
    write: FolderWrite, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command calls the API once, and its files have the bytes of the same call in Python."""
    archive = replay.open(
        str(fleet), clusters=write.clusters or None, exactly_once="--exactly-once" in write.words
    )
    method = getattr(OpenArchive, write.method)
    method(archive, str(tmp_path / "api"), *write.arguments, **write.options)
    calls: list[str] = []

    def counted(opened: OpenArchive[Any], folder: str, *rest: Any, **options: Any) -> Any:
        calls.append(folder)
        return method(opened, folder, *rest, **options)

    monkeypatch.setattr(OpenArchive, write.method, counted)
    command, *rest = write.words
    clusters = [word for name in write.clusters for word in ("--cluster", name)]
    folder = tmp_path / "command"
    result = call(command, fleet, *rest, *clusters, "-o", "parquet", "--folder", folder)
    assert result.code in (0, 1)
    assert calls == [str(folder)]
    assert content(folder) == content(tmp_path / "api")


@pytest.mark.parametrize("method", ["write_state", "write_diff"])
def test_an_error_of_the_review_leaves_no_folder(method: str, fleet: Path, tmp_path: Path) -> None:
    """`review` receives the result of each cluster; if it raises an error, no folder appears."""
    clusters: list[str] = []

    def review(parts: Sequence[Any]) -> None:
        clusters.extend(part.cluster for part in parts)
        raise NotWritable("refused by the caller")

    sides = ("config@3",) if method == "write_diff" else ()
    with pytest.raises(NotWritable, match="refused by the caller"):
        getattr(replay.open(str(fleet)), method)(tmp_path / "written", *sides, review=review)
    assert clusters == [*CLUSTERS]
    assert not [*tmp_path.iterdir()]


def test_damaged_winners_are_not_read_from_segments(tmp_path: Path) -> None:
    """With `from_segments`, damaged winners harm no state, as with `--from-segments`."""
    fleet = fleet_in(tmp_path / "fleet", {"life": CLUSTERS["life"]})
    expected = replay.open(str(fleet)).summaries()
    for path in fleet.rglob("_winners-*"):
        path.write_bytes(b"")
    (problem,) = replay.open(str(fleet)).summaries()["problem"].to_pylist()
    assert "_winners-" in problem
    archive = replay.open(str(fleet), from_segments=True)
    assert archive.summaries() == expected
    words = ("state", fleet, "-o", "parquet", "--folder")
    assert call(*words, tmp_path / "winners").code == 2
    assert call(*words, tmp_path / "segments", "--from-segments").code == 0
    archive.write_state(str(tmp_path / "api"))
    assert content(tmp_path / "segments") == content(tmp_path / "api")


class ProgressNotes:
    """Listener that notes the steps and the amount of work."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.done = 0

    def begin(self, what: str, total: int) -> None:
        """Note a step."""
        self.steps.append((what, total))

    def advance(self, amount: int) -> None:
        """Add to the amount of work."""
        self.done += amount


def test_a_listener_receives_the_progress(fleet: Path, tmp_path: Path) -> None:
    """A listener of `replay.open` receives the steps of a query and the number of clusters."""
    notes = ProgressNotes()
    replay.open(str(fleet), progress=notes).write_diff(str(tmp_path / "written"), "config@3")
    assert notes.steps == [("writing", len(CLUSTERS))]
    assert notes.done == len(CLUSTERS)


def test_each_folder_may_be_a_path(tmp_path: Path) -> None:
    """Every method that takes a folder also takes a `Path`."""
    archive = replay.open(fleet_in(tmp_path / "fleet"))
    archive.write_state(tmp_path / "state")
    archive.write_diff(tmp_path / "diff", "config@3")
    assert archive.follow(tmp_path / "tables", tmp_path / "progress").advance() == 0
    folders = "diff", "fleet", "progress", "state", "tables"
    assert sorted(path.name for path in tmp_path.iterdir()) == [*folders]
