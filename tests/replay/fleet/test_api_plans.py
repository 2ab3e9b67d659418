"""Tables and folders of the Python API are the same if several processes plan or fold clusters."""

import os
import shutil
import warnings
from collections.abc import Callable
from multiprocessing import active_children, util
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.fleet import cluster_plans
from replay.fleet.archive_source import UnreadableCluster
from replay.fleet.table_run import SkippedCluster
from tests.replay.cli.replay_calls import call, content
from tests.replay.fleet.fleets import damage_files, fleet_in

RECORD = "config@3"

ApiCall = Callable[[Any, Path], Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters; one is damaged, and one is empty."""
    folder = fleet_in(tmp_path_factory.mktemp("fleet"))
    damage_files(folder, "mirror")
    (folder / "cluster=empty" / "topic=a").mkdir(parents=True)
    (folder / "cluster=empty" / "topic=a" / "file").touch()
    return folder


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Let two processes plan a fleet of a few clusters; starts of processes are recorded."""
    monkeypatch.setattr(cluster_plans, "CLUSTERS_PER_PROCESS", 2)
    monkeypatch.setattr(cluster_plans, "BLOCKS_PER_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    started: list[object] = []
    start = util.spawnv_passfds

    def record(*arguments: Any) -> int:
        started.append(arguments)
        return start(*arguments)

    monkeypatch.setattr(util, "spawnv_passfds", record)
    return started


def _views(archive: Any, _: Path) -> dict[str, Any]:
    views: dict[str, Any] = {}
    archive.register_views(views.__setitem__, as_of=RECORD)
    return views


def _state_folder(archive: Any, place: Path) -> Any:
    return archive.write_state(place / "states", as_of=RECORD), content(place / "states")


def _diff_folder(archive: Any, place: Path) -> Any:
    return archive.write_diff(place / "diff", RECORD), content(place / "diff")


ANSWERS: dict[str, ApiCall] = {
    "connectors": lambda archive, _: archive.state("connectors", as_of=RECORD),
    "offsets": lambda archive, _: archive.state("offsets", as_of=RECORD, release="all"),
    "timeline": lambda archive, _: archive.timeline(as_of=RECORD),
    "history": lambda archive, _: archive.history("pages", as_of=RECORD),
    "diff": lambda archive, _: archive.diff(RECORD),
    "summaries": lambda archive, _: archive.summaries(as_of=RECORD),
    "views": _views,
    "state folder": _state_folder,
    "diff folder": _diff_folder,
}


def _with_warnings(
    archive: Any, ask: ApiCall, place: Path
) -> tuple[Any, list[tuple[type[Warning], str]]]:
    """Answer, and the warnings in their order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = ask(archive, place)
    return answer, [(each.category, str(each.message)) for each in caught]


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_and_warnings_are_those_of_one_process(
    name: str, fleet: Path, tmp_path: Path, starts: list[object]
) -> None:
    """Rows, warnings of broken clusters, and their order are the same."""
    alone = _with_warnings(replay.open(fleet), ANSWERS[name], tmp_path / "alone")
    assert not starts
    assert _with_warnings(replay.open(fleet, jobs=2), ANSWERS[name], tmp_path / "several") == alone
    assert starts
    skipped = [text for category, text in alone[1] if category is SkippedCluster]
    has_problem_column = name in ("summaries", "state folder", "diff folder")
    assert [text.split(":")[0] for text in skipped] == (
        [] if has_problem_column else ["empty", "mirror"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_the_first_unreadable_cluster_is_raised(
    name: str, fleet: Path, tmp_path: Path, starts: list[object]
) -> None:
    """The error is that of one process, and no process outlives it."""
    earlier = {*active_children()}
    errors = []
    for jobs in (1, 2):
        archive = replay.open(fleet, jobs=jobs, unreadable="raise")
        with pytest.raises(UnreadableCluster) as raised:
            ANSWERS[name](archive, tmp_path / str(jobs))
        errors.append(str(raised.value))
        assert not {*active_children()} - earlier
    assert starts
    assert errors[0] == errors[1]
    assert errors[0].startswith("empty: ")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("state", "--as-of", RECORD), ("diff", "--from", RECORD)])
def test_written_folders_are_those_of_one_process(
    words: tuple[str, ...],
    fleet: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Files, printed lines, errors and the exit code of `--folder` are the same."""
    command, *rest = words
    place = tmp_path / "written"
    alone = call(command, fleet, *rest, "-o", "parquet", "--folder", place)
    files = content(place)
    place.rename(tmp_path / "alone")
    starts = request.getfixturevalue("starts")
    for jobs in ((), ("--jobs", "2")):
        starts.clear()
        assert call(command, fleet, *rest, "-o", "parquet", "--folder", place, *jobs) == alone
        assert content(place) == files
        assert starts
        shutil.rmtree(place)
    assert "mirror" in alone.err
    assert alone.code == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [("timeline",), ("history", "--connector", "pages")])
def test_jobs_limit_planning(words: tuple[str, ...], fleet: Path, starts: list[object]) -> None:
    """`--jobs 1` plans and works in this process; by default, several processes plan."""
    command, *rest = words
    alone = call(command, fleet, *rest, "--as-of", RECORD, "--jobs", "1")
    assert not starts
    assert call(command, fleet, *rest, "--as-of", RECORD) == alone
    assert starts


def test_jobs_are_one_or_more(fleet: Path) -> None:
    """No process at all cannot plan."""
    with pytest.raises(ValueError, match="jobs cannot be 0"):
        replay.open(fleet, jobs=0)
    several: Any = "2"
    with pytest.raises(TypeError, match="jobs is a whole number, such as 4, not '2'"):
        replay.open(fleet, jobs=several)
