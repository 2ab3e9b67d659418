"""Timelines, comparisons, findings and reports are the same in Spark's tasks as without Spark."""

import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.segments.segment_files import SIZES
from replay.archive.stores.store import FolderStore
from replay.doubts import SHOWN
from replay.engine.executors import ProcessExecutor, SerialExecutor, unpacked
from replay.engine.spark import task_output_codec
from replay.engine.spark.executor import ITEMS, WAVE, SparkExecutor, carried_out
from replay.engine.spark.task_output_codec import TaskOutput, task_outputs
from replay.errors import ArchiveCorrupt
from replay.progress import NoProgress
from tests.conftest import paired
from tests.core.logs import config, connector, offsets, report, status
from tests.recorded_requests import HISTORIES
from tests.replay.archive.archives import capture, log_of
from tests.replay.cli.replay_calls import call, content

pytestmark = pytest.mark.java

REPORTED = 500
"""Records of each topic, from which on the limits of a page cut the facts of `restless`."""

CLUSTERS = {"life": "life-3.9", "odd": "odd-records-3.9", "roll": "roll-3.4-3.9-3.4"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    folder = tmp_path_factory.mktemp("fleet")
    logs = (f"{name}={HISTORIES / log}.log.jsonl" for name, log in CLUSTERS.items())
    assert call("capture", *logs, folder, "--once").code == 0
    return folder


# --- every command ------------------------------------------------------------------------------


COMMANDS = {
    ("timeline", "--offsets", "--profile", "all"): 0,
    ("timeline", "--digests", "--profile", "all", "--cluster", "roll"): 0,
    ("history", "--connector", "pages"): 0,
    ("diff", "--from", "config@3", "--cluster", "life"): 1,
    ("diff", "--cluster", "life", "--to-cluster", "roll"): 1,
    ("audit", "--least", "info"): 1,
    ("compat", "--from", "3.9", "--to", "3.4", "--transitive"): 1,
    ("lint", "--release", "3.7.0"): 1,
}
"""Exit codes by command."""


@pytest.mark.parametrize(("words", "output"), paired([*COMMANDS], ["json", "table"]))
def test_commands_print_the_same(
    spark: SparkSession, fleet: Path, words: tuple[str, ...], output: str
) -> None:
    """JSON, tables and exit codes are equal to the byte."""
    assert spark
    command, *rest = words
    local, in_spark = (
        call(command, fleet, *rest, "-o", output, "--engine", engine)
        for engine in ("local", "spark")
    )
    assert in_spark == local
    assert local.code == COMMANDS[words]


def test_a_report_is_the_same_page(spark: SparkSession, fleet: Path, tmp_path: Path) -> None:
    """The page and the kept answers are the same with and without Spark."""
    assert spark
    pages, kept = [], []
    for engine in ("local", "spark"):
        page, folder = tmp_path / f"{engine}.html", tmp_path / engine
        words = ("--to", page, "--resume", os.path.relpath(folder), "--engine", engine)
        assert call("report", os.path.relpath(fleet), *words).code == 0
        pages.append(page.read_bytes())
        kept.append(content(folder))
    assert pages[0] == pages[1]
    assert kept[0] == kept[1]
    assert len(kept[0]) == len(CLUSTERS)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[TaskOutput]:
    """Everything that tasks of this test return to the driver."""
    returned: list[TaskOutput] = []

    def noted(table: pa.Table) -> Iterator[TaskOutput]:
        for output in task_outputs(table):
            returned.append(output)
            yield output

    monkeypatch.setattr("replay.engine.spark.executor.task_outputs", noted)
    return returned


def test_only_printed_facts_of_a_report_reach_the_driver(
    spark: SparkSession,
    outputs: list[TaskOutput],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks return the facts that the page prints: five times the records take hardly more room.

    The test lets the driver neither open an archive nor collect facts.
    """
    assert spark
    monkeypatch.setattr("replay.cli.execution.cluster_jobs.open_input", refused)
    monkeypatch.setattr("replay.report.ReportTask.__call__", refused)
    sizes, shown = [], []
    for records in (REPORTED, 5 * REPORTED):
        outputs.clear()
        archive, file = tmp_path / str(records), tmp_path / f"{records}.html"
        for name in ("a", "b"):
            capture(archive, log_of(restless(records)), name=name, sizes=SIZES)
        words = ("--towards", "3.9", "--engine", "spark")
        assert call("report", archive, "--file", file, *words).code == 0
        facts = [result.result for output in outputs for result in pickle.loads(output.content)]
        page = file.read_text("utf-8")
        for number, cluster in enumerate(facts):
            assert all(f'id="c{number}r{row}"' in page for row in range(len(cluster.evidence)))
            assert sum(part.records for part in cluster.parts) == 3 * records
        shown.append([len(cluster.evidence) for cluster in facts])
        sizes.append(sum(len(output.content) for output in outputs))
    assert [len(counts) for counts in shown] == [2, 2]
    assert sizes[1] < 1.2 * sizes[0]
    assert max(shown[1]) < 1.2 * max(shown[0]) < 3 * REPORTED


def test_only_printed_notices_of_a_report_reach_the_driver(
    spark: SparkSession, outputs: list[TaskOutput], tmp_path: Path
) -> None:
    """Five times the holes give the same notices, and an equal volume of them at the driver."""
    assert spark
    sizes = []
    for looks in (2 * SHOWN, 10 * SHOWN):
        archive = with_holes(tmp_path / str(looks), looks)
        outputs.clear()
        words = ("report", archive, "--file", tmp_path / "page.html", "--towards", "3.9")
        local, in_spark = (call(*words, "--engine", engine) for engine in ("local", "spark"))
        assert in_spark == local
        assert f"… and {looks - SHOWN} more like these" in in_spark.err
        assert f"… and {looks - 1 - SHOWN} more gaps" in in_spark.err
        (result,) = (each for output in outputs for each in pickle.loads(output.content))
        sizes.append(len(pickle.dumps(result._replace(result=None))))
    assert sizes[1] < 1.05 * sizes[0]


def with_holes(folder: Path, looks: int) -> Path:
    """Archive of a status topic: an offset is missing within each look, and between two looks."""
    entries = status(*(("status-connector-a", report("RUNNING", 1)) for _ in range(4 * looks)))
    for look in range(looks):
        appender = Appender(FolderStore(str(folder)), "lab", Topics())
        first, last = 4 * look + 1, 4 * look + 3
        appender.add(batch_of([entries[first], entries[last]]))
        appender.reached(Topics().status, 0, first, last + 1)
        appender.commit()
    return folder


def restless(records: int) -> list[Entry]:
    """Log of a connector whose config, status and offset change in each of its records."""
    return [
        *config(*(connector("a", version=str(each)) for each in range(records))),
        *status(
            *(
                ("status-connector-a", report(("RUNNING", "FAILED")[each % 2], each + 1))
                for each in range(records)
            )
        ),
        *offsets(*(('["a",{}]', f'{{"at":{each}}}') for each in range(records))),
    ]


def refused(*_: object, **__: object) -> None:
    """Stand-in for work that the driver must not do; raises."""
    raise AssertionError("the driver has opened an archive or collected facts")


@pytest.mark.parametrize("words", [("timeline",), ("lint", "--release", "3.9")])
def test_damage_is_reported_as_without_spark(
    spark: SparkSession, fleet: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Damage gives the same sentence and exit code, wherever it is found."""
    assert spark
    shutil.copytree(fleet, tmp_path / "fleet")
    (segment,) = (tmp_path / "fleet" / "cluster=roll").glob("topic=connect-configs/*/segment-*")
    segment.write_bytes(segment.read_bytes()[:-1])
    command, *rest = words
    local, in_spark = (
        call(command, tmp_path / "fleet", *rest, "-o", "json", "--engine", engine)
        for engine in ("local", "spark")
    )
    assert in_spark == local
    assert local.code == 2
    assert "roll" in local.err


def test_logs_are_read_by_this_process() -> None:
    """`--engine spark` reads no logs, and takes no `--jobs`."""
    log = HISTORIES / "life-3.9.log.jsonl"
    result = call("audit", log, "--engine", "spark")
    assert (result.code, "create one with `replay capture`" in result.err) == (2, True)
    result = call("audit", log, "--engine", "spark", "--jobs", "2")
    assert (result.code, "with Spark use --master" in result.err) == (2, True)


# --- the executor by itself ---------------------------------------------------------------------


def nested(depth: int) -> Iterator[Any]:
    """Yield a list of this nesting depth."""
    outermost: list[Any] = []
    for _ in range(depth):
        outermost = [outermost]
    yield outermost


def numbers(thing: int) -> Iterator[int]:
    """Yield the numbers below this one; a negative one raises as damage does."""
    if thing < 0:
        raise ArchiveCorrupt(f"{thing} is damaged")
    yield from range(thing)


def depth(inner: Any) -> int:
    """Nesting depth of a list."""
    count = 0
    while inner:
        (inner,) = inner
        count += 1
    return count


def tasks_of(session: SparkSession) -> SparkExecutor:
    """Executor of a Spark session without progress."""
    return SparkExecutor(session, NoProgress())


@pytest.mark.parametrize("count", [0, 1, 2 * WAVE * 2 + 1])
def test_results_keep_the_input_order(spark: SparkSession, count: int) -> None:
    """Results keep the order of the inputs, also empty ones, in one job or several."""
    things = [at % 5 for at in range(count)]
    results = [list(result) for result in tasks_of(spark).run(numbers, things)]
    assert results == [list(result) for result in SerialExecutor().run(numbers, things)]
    assert len(results) == count


def test_errors_are_raised_in_input_order(spark: SparkSession) -> None:
    """Results before the error arrive first, from Spark's tasks as from processes."""
    for executor in (tasks_of(spark), ProcessExecutor(2)):
        results = executor.run(numbers, [2, -1, 3])
        assert list(next(results)) == [0, 1]
        with pytest.raises(ArchiveCorrupt, match=r"^-1 is damaged$"):
            next(results)


def test_deeply_nested_results_are_computed_by_the_driver(spark: SparkSession) -> None:
    """The driver computes a result that is nested too deeply to be sent."""
    depths = [1, 50_000]
    for executor in (tasks_of(spark), ProcessExecutor(2)):
        counted_depths = [depth(item) for result in executor.run(nested, depths) for item in result]
        assert counted_depths == depths


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_large_findings_come_in_pieces(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is small enough for the JVM; together the pieces are the findings."""
    monkeypatch.setattr(task_output_codec, "PIECE_BYTES", most)
    things: Sequence[int] = [300, 0, 4]
    handed = [pickle.dumps((numbers, thing)) for thing in things]
    batches = pa.table([range(len(things)), handed], schema=ITEMS).to_batches()
    handed_on = list(carried_out(iter(batches)))
    assert all(len(batch["content"][0].as_py()) <= most for batch in handed_on)
    assert len(handed_on) > len(things) or most == 1_000
    joined = task_outputs(pa.Table.from_batches(reversed(handed_on)))
    for output, thing in zip(joined, things, strict=True):
        assert list(unpacked(output.content, numbers, thing)) == list(numbers(thing))
