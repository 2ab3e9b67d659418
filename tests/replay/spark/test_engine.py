"""The engine in Spark: shuffles, reports of damage, and cancellation."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.terminal.exit_codes import INTERRUPTED
from replay.archive.archived_cluster import open_cluster
from replay.archive.integrity import CheckedStore
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import FolderStore
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS, TaskLimits, in_jobs, slices
from replay.engine.spark import jobs
from replay.engine.spark.engine import SparkEngine
from replay.engine.spark.session import NoSpark
from replay.engine.spark.tasks import NumberedWork, bundles
from replay.errors import ArchiveCorrupt
from replay.progress import NoProgress
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, archive, log_of, served
from tests.replay.cli.replay_calls import call, refusal
from tests.replay.cli.terminal import at_a_terminal, running
from tests.replay.garbage import garbage

pytestmark = pytest.mark.java

KIP = [Profile.of("kip")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Archive of a recorded cluster, in small segments."""
    archive(tmp_path, recorded_entries("life-3.9"), SegmentSizes(40, 16))
    return tmp_path


def question(folder: Path, profiles: Sequence[Profile] = KIP) -> StateQuery:
    """Question about the end of the archive; every hash is checked."""
    cluster = open_cluster(FolderStore(str(folder)), NAME)
    files = list(cluster.chain.files)
    local = LocalEngine(
        cluster._replace(store=CheckedStore(cluster.store, files)), LocalOptions(derived=False)
    )
    return StateQuery(local, local.plan(None, profiles), profiles)


def shuffles(spark: SparkSession, query: StateQuery, limits: TaskLimits) -> int:
    """Number of shuffles in Spark's physical plan."""
    engine = SparkEngine(spark, limits)
    cut = [slices(query.local.cluster, part, limits) for part in query.plan.busy]
    works = engine.works([query])
    plan = engine.frame(works, cut)._jdf.queryExecution().executedPlan().toString()
    return int(plan.count("Exchange"))


def test_undivided_partitions_need_no_shuffle(spark: SparkSession, folder: Path) -> None:
    """Whole partitions need no shuffle, and slices need one; the states stay the same."""
    query = question(folder, PROFILES)
    expected = query.local.states(query.plan, PROFILES)
    for limits, count in [(LIMITS, 0), (LIMITS._replace(slice_rows=50), 1)]:
        assert shuffles(spark, query, limits) == count
        assert SparkEngine(spark, limits).states([query]) == [expected]


@pytest.mark.parametrize("task_rows", [1, 50, 300, 10**9])
def test_tasks_keep_every_slot_busy(spark: SparkSession, folder: Path, task_rows: int) -> None:
    """The number of tasks is a multiple of the slots, unless each partition has its own task.

    If partitions share tasks, a task has at most `task_rows` rows on average.
    """
    works = SparkEngine(spark).works([question(folder)] * 3)
    numbered = [NumberedWork(number, 0, work) for number, work in enumerate(works)]
    tasks = bundles(numbered, 2, TaskLimits(task_rows=task_rows))
    assert sorted(numbered_work.number for bundle in tasks for numbered_work in bundle) == list(
        range(len(works))
    )
    assert len(tasks) % 2 == 0 or len(tasks) == len(works)
    rows = sum(work.part.rows for work in works)
    assert len(tasks) >= min(len(works), rows / task_rows)


def test_large_questions_take_several_jobs(spark: SparkSession, folder: Path) -> None:
    """Queries form jobs of at most `job_rows` rows, or of one query; the states stay the same."""
    queries = [question(folder), question(folder, PROFILES)] * 2
    rows = sum(part.rows for part in queries[0].plan.busy)
    sizes = [
        [len(job) for job in in_jobs(queries, TaskLimits(job_rows=n * rows))] for n in (0, 2, 9)
    ]
    assert sizes == [[1, 1, 1, 1], [2, 2], [4]]
    expected = [query.local.states(query.plan, query.profiles) for query in queries]
    assert SparkEngine(spark, TaskLimits(job_rows=0)).states(queries) == expected


def test_slices_end_where_segments_do(folder: Path) -> None:
    """Slices end where segments do; each knows the greatest time before its first record."""
    query = question(folder)
    cluster = query.local.cluster
    assert query.plan.busy
    for part in query.plan.busy:
        cut = slices(cluster, part, TaskLimits(slice_rows=50))
        assert [piece for slice_ in cut for piece in slice_.part.pieces] == list(part.pieces)
        if part.topic == "connect-configs":
            assert len(cut) == 1
        segments = cluster.parts[part.topic, part.partition].segments
        latest = {segment.start: segment.latest_ms for segment in segments}
        before = [None, *latest.values()]
        firsts = [slice_.part.pieces[0].stored.file for slice_ in cut]
        files = [segment.stored.file for segment in segments]
        assert [slice_.before_ms for slice_ in cut] == [
            before[files.index(file)] for file in firsts
        ]


def test_one_job_answers_for_several_clusters(spark: SparkSession, tmp_path: Path) -> None:
    """One call answers for usual logs, an empty one, and logs of aborted or unreadable records."""
    names = "life-3.9", "aborted-3.9", "mirror-3.9"
    logs = [recorded_entries(name) for name in names]
    logs += [[], [Entry("connect-offsets", 0, 0, 1, b"k", b"1", aborted=True)], garbage()]
    queries = []
    for number, entries in enumerate(logs):
        local = LocalEngine(
            archive(tmp_path / str(number), entries), LocalOptions(exactly_once=True)
        )
        queries.append(StateQuery(local, local.plan(None, KIP), KIP))
    states = SparkEngine(spark).states(queries)
    assert states == [served(log_of(log), None, KIP, exactly_once=True) for log in logs]
    assert SparkEngine(spark).states([]) == []


def test_damage_is_a_sentence(spark: SparkSession, folder: Path) -> None:
    """A file that is altered after the plan is refused, also in a slice; so is a missing one."""
    query = question(folder)
    path = min(folder.rglob("topic=connect-status/*/segment-*"))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)
    for limits in (LIMITS, LIMITS._replace(slice_rows=50)):
        with pytest.raises(ArchiveCorrupt, match="was altered: it has another hash: restore it"):
            SparkEngine(spark, limits).states([query])
    path.unlink()
    with pytest.raises(ArchiveCorrupt, match="is missing: restore it"):
        SparkEngine(spark).states([query])


class Impatient(NoProgress):
    """Progress listener that interrupts the job at its first call."""

    def begin(self, work: str, total: int) -> None:
        """Raise KeyboardInterrupt as soon as Spark reports the tasks of the job."""
        assert work
        assert total > 0
        raise KeyboardInterrupt


def asleep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task that sleeps for an hour."""
    time.sleep(3_600)
    yield from batches


def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task that raises ValueError."""
    raise ValueError("such a thing")


def test_an_interrupted_job_is_cancelled(spark: SparkSession, folder: Path) -> None:
    """The interrupted job is cancelled, and the session can be used again."""
    with pytest.raises(KeyboardInterrupt):
        jobs.run(spark.range(1).mapInArrow(asleep, "id long"), Impatient())
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    query = question(folder)
    assert SparkEngine(spark).states([query]) == [query.local.states(query.plan, KIP)]


def test_a_job_that_fails_says_why(spark: SparkSession) -> None:
    """A failed job raises NoSpark with one line."""
    with pytest.raises(NoSpark, match=r"^Spark has failed \(ValueError: such a thing\)$"):
        jobs.run(spark.range(1).mapInArrow(broken, "id long"), NoProgress())


def test_both_engines_print_the_same(spark: SparkSession, folder: Path) -> None:
    """`--engine local` and `--engine spark` print the same."""
    results = [
        call("state", folder, "--engine", engine, "-o", "json") for engine in ("local", "spark")
    ]
    assert results[0] == results[1]
    assert (results[0].code, results[0].err) == (0, "")
    results = [
        call("state", folder, "--explain", "--engine", engine) for engine in ("local", "spark")
    ]
    assert [result.out.splitlines()[2].split()[1] for result in results] == ["local", "spark"]
    assert "in tasks at local[*]" in results[1].out


def test_at_a_terminal_a_bar_is_drawn(spark: SparkSession, folder: Path) -> None:
    """A progress bar is drawn, and the output equals that of a pipe."""
    words = ("state", folder, "--engine", "spark", "-o", "json")
    result = at_a_terminal(*words)
    assert "Spark" in result.terminal
    assert json.loads(result.out) == call(*words).json


def test_a_start_that_is_interrupted_leaves_no_jvm_behind(folder: Path) -> None:
    """SIGINT during Spark's start ends its JVM. A JVM left behind would keep our pipes open."""
    with running("state", folder, "--engine", "spark") as command:
        command.wait_for("Spark starts")
        result = command.interrupted()
    assert (result.code, result.out) == (INTERRUPTED, "")
    assert result.terminal.splitlines()[-1].endswith("interrupted")
    assert "Traceback" not in result.terminal


@pytest.mark.parametrize("options", [["--master", "local"], ["--conf", "spark.x=1"]])
def test_settings_of_spark_are_for_spark(folder: Path, options: list[str]) -> None:
    """Settings of Spark select Spark; with another engine they are refused with the reason."""
    plan = call("state", folder, "--explain", *options).out.splitlines()[2]
    assert plan.split()[1] == "spark"
    result = call("state", folder, "--engine", "local", *options)
    assert (result.code, "--master and --conf are for Spark" in result.err) == (2, True)


def test_spark_without_java_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one sentence with the remedy."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    assert refusal(call("state", folder, "--engine", "spark")) == (
        "Spark needs Java 17 or newer, but none is installed: install it, or set JAVA_HOME"
    )


def test_a_setting_without_name_or_value_is_refused(folder: Path) -> None:
    """A setting without a name or a value is refused."""
    assert "'=x' is not KEY=VALUE" in call("state", folder, "--conf", "=x").err
    assert "'x' is not KEY=VALUE" in call("state", folder, "--conf", "x").err
