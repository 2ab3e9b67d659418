"""Processes of Spark's standalone cluster are killed in the middle of a task.

A killed executor or worker changes nothing. A killed driver leaves no answer, or files that do not
count. A second run gives the whole answer.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from msgspec.structs import replace

from replay.archive.stores.hadoop_settings import NONE
from replay.fleet.feed.feed_tables import FeedTables
from replay.tables.schemas import FEED_SCHEMAS, STATE_SCHEMAS
from tests.recorded_requests import recorded_entries
from tests.replay.cli.replay_calls import call, content
from tests.replay.feed.feed_laws import archive_in, archived, assert_adds_up, feed_in, sorted_rows
from tests.replay.fleet.fleets import CLUSTERS, fleet_in, rows_of
from tests.replay.process_groups import kill_group
from tests.replay.spark import bucketed_replay
from tests.replay.spark.paused_tasks import PausePoint, TaskProcesses, killed, wait_for_end
from tests.replay.spark.standalone_cluster import (
    StandaloneCluster,
    driver,
    result_of,
    run_driver,
    standalone,
)

# Up to six JVMs, for about ten seconds per test.
pytestmark = [pytest.mark.java, pytest.mark.prove]

MIDDLE = "mirror"
"""Cluster whose task is interrupted, in the middle of the archive's clusters by name."""


class PausedCommand(NamedTuple):
    """Command, and the step at which one of its tasks pauses."""

    words: Callable[[Path], list[str]]
    """Makes the command's arguments from an output folder."""
    answer: Callable[[Path, str], Any]
    """Reads the answer from the output folder, or from standard output."""
    nothing: Any
    """Answer of a run that was killed."""
    event: str
    within: str
    module: str = "replay"

    def point(self, folder: Path) -> PausePoint:
        """Point with its files in a new folder."""
        folder.mkdir()
        return PausePoint(self.event, self.within, str(folder))


def tables_in(folder: Path) -> FeedTables:
    """Return the tables of a feed in a folder."""
    return FeedTables(str(folder / "tables"), NONE)


def rows_in(folder: Path) -> dict[str, list[str]]:
    """Return the rows of the tables of a written state; their files depend on the buckets."""
    assert (folder / "_SUCCESS").exists()
    return {
        name: rows_of(ds.dataset(folder / name, partitioning="hive").to_table())
        for name in (*STATE_SCHEMAS, "summaries")
    }


COMMANDS = {
    # Some tables of the cluster are written, and the others are not.
    "state": PausedCommand(
        lambda out: ["state", "--release", "3.4", "--release", "3.9", *_parquet(out)],
        lambda out, _: content(out) if out.exists() else None,
        None,
        "os.rename",
        f"/offsets/cluster={MIDDLE}/",
    ),
    # All rows are shuffled to their buckets, and some of the buckets are folded and written.
    "state in buckets": PausedCommand(
        lambda out: ["state", "--release", "3.4", "--release", "3.9", *_parquet(out)],
        lambda out, _: rows_in(out) if out.exists() else None,
        None,
        "os.rename",
        f"/offsets/cluster={MIDDLE}/",
        bucketed_replay.__name__,
    ),
    "audit": PausedCommand(
        lambda _: ["audit", "-o", "json"],
        lambda _, printed: json.loads(printed) if printed else None,
        None,
        "open",
        f"/cluster={MIDDLE}/_manifest/",
    ),
    # The differences of the cluster are complete in a draft, which is not renamed yet.
    "diff": PausedCommand(
        lambda out: ["diff", "--from", "config@3", *_parquet(out)],
        lambda out, _: content(out) if out.exists() else None,
        None,
        "os.rename",
        f"/differences/cluster={MIDDLE}/",
    ),
    "report": PausedCommand(
        lambda out: ["report", "--file", str(out)],
        lambda out, _: out.read_bytes() if out.exists() else None,
        None,
        "open",
        f"/cluster={MIDDLE}/_manifest/",
    ),
    # The changes of the state are written, and those of the findings are not.
    "watch": PausedCommand(
        lambda out: ["watch", "--once", "--checkpoint", str(out)],
        lambda out, _: sorted_rows(tables_in(out)),
        {name: [] for name in FEED_SCHEMAS},
        "os.rename",
        f"/finding_changes/batch=0/.cluster-{MIDDLE}-",
    ),
}


def _parquet(folder: Path) -> list[str]:
    return ["-o", "parquet", "--folder", str(folder)]


class Fleet(NamedTuple):
    """Archive of several clusters, and the Spark cluster that reads it."""

    spark: StandaloneCluster
    archive: Path


@pytest.fixture(scope="module")
def shared_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Five recorded clusters, a master and two workers."""
    archive = fleet_in(tmp_path_factory.mktemp("archive"))
    with standalone(tmp_path_factory.mktemp("cluster")) as spark:
        yield Fleet(spark, archive)


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    """Fleet with all workers of Spark running, also after a test that killed one."""
    shared_fleet.spark.start()
    return shared_fleet


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> PausedCommand:
    """Each command that a test interrupts."""
    return COMMANDS[request.param]


def arguments_of(command: PausedCommand, archive: Path, folder: Path) -> list[str]:
    """Arguments of a command on an archive."""
    name, *rest = command.words(folder)
    return [name, str(archive), *rest]


def expected(command: PausedCommand, archive: Path, folder: Path) -> tuple[int, Any]:
    """Exit code and answer of this process."""
    result = call(*arguments_of(command, archive, folder))
    return result.code, command.answer(folder, result.out)


def kill_executor(_: StandaloneCluster, processes: TaskProcesses) -> None:
    """Kill an executor; its worker starts another one."""
    killed(processes.executor)


def kill_worker(spark: StandaloneCluster, processes: TaskProcesses) -> None:
    """Kill a worker; its executor ends with it."""
    killed(spark.worker_of(processes.executor).pid)


Kill = Callable[[StandaloneCluster, TaskProcesses], None]


@pytest.mark.parametrize("kill", [kill_executor, kill_worker])
def test_results_are_whole(
    fleet: Fleet, command: PausedCommand, kill: Kill, tmp_path: Path
) -> None:
    """The task is repeated by another executor, and the answer is that of this process."""
    point, out = command.point(tmp_path / "pause"), tmp_path / "there"
    words = arguments_of(command, fleet.archive, out)
    with driver(*words, *fleet.spark.options(point.conf), module=command.module) as process:
        processes = point.reached(process)
        kill(fleet.spark, processes)
        for each in processes:
            wait_for_end(each)
        result = result_of(process)
    outcome = result.code, command.answer(out, result.out)
    assert outcome == expected(command, fleet.archive, tmp_path / "here"), result.err
    assert not [*out.rglob(".*-draft")]


def test_a_killed_driver_leaves_nothing(
    fleet: Fleet, command: PausedCommand, tmp_path: Path
) -> None:
    """The executors end with the driver; a second run has the whole answer."""
    point, out = command.point(tmp_path / "pause"), tmp_path / "there"
    words = arguments_of(command, fleet.archive, out)
    with driver(*words, *fleet.spark.options(point.conf), module=command.module) as process:
        processes = point.reached(process)
        kill_group(process)
        printed, _ = process.communicate()
    for each in processes:
        wait_for_end(each)
    assert command.answer(out, printed) == command.nothing
    result = run_driver(*words, *fleet.spark.options(), module=command.module)
    outcome = result.code, command.answer(out, result.out)
    assert outcome == expected(command, fleet.archive, tmp_path / "here"), result.err


def test_a_repeated_task_has_the_planned_end(fleet: Fleet, tmp_path: Path) -> None:
    """All tables have one moment, although the archive grows before the task is repeated."""
    command, entries = COMMANDS["state"], recorded_entries(CLUSTERS[MIDDLE])
    archived(tmp_path, entries[: len(entries) // 2], MIDDLE)
    archive, out = tmp_path / "archive", tmp_path / "there"
    code, earlier = expected(command, archive, tmp_path / "here")
    point = command.point(tmp_path / "pause")
    words = arguments_of(command, archive, out)
    with driver(*words, *fleet.spark.options(point.conf)) as process:
        processes = point.reached(process)
        archived(tmp_path, entries, MIDDLE)
        killed(processes.executor)
        result = result_of(process)
    assert (result.code, command.answer(out, result.out)) == (code, earlier), result.err
    assert expected(command, archive, tmp_path / "later") != (code, earlier)


def test_a_repeated_batch_has_the_planned_end(fleet: Fleet, tmp_path: Path) -> None:
    """A stream whose driver was killed repeats the batch up to its planned end, and continues."""
    logs = {name: recorded_entries(CLUSTERS[name]) for name in (MIDDLE, "roll")}
    progress = tmp_path / "progress"
    words = arguments_of(COMMANDS["watch"], tmp_path / "archive", progress)
    for end in (40, None):
        for name, log in logs.items():
            archived(tmp_path, log[:end], name)
        feed_in(tmp_path).advance()
        if end:
            assert run_driver(*words, *fleet.spark.options()).code == 0
    point = PausePoint("os.rename", "/finding_changes/batch=1/.cluster-roll-", str(tmp_path))
    with driver(*words, *fleet.spark.options(point.conf)) as process:
        processes = point.reached(process)
        kill_group(process)
    for each in processes:
        wait_for_end(each)
    assert tables_in(progress).last() == 0
    for name, log in logs.items():
        archived(tmp_path, [*log, replace(log[-1], offset=log[-1].offset + 1)], name)
    assert run_driver(*words, *fleet.spark.options()).code == 0
    assert sorted_rows(tables_in(progress), last=1) == sorted_rows(tables_in(tmp_path))
    feed = archive_in(tmp_path).follow(str(progress / "tables"), str(progress))
    assert feed.batch == 2
    assert_adds_up(feed, archive_in(tmp_path))
