"""Fleets in Spark: tasks give the tables, digests and files of this process."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

import replay
from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import PROFILES, Profile
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import remove_replaced
from replay.archive.stores.hadoop_settings import NONE
from replay.archive.stores.store import FolderStore
from replay.engine.slices import LIMITS
from replay.engine.states.order_marks import LISTED_OFFSETS
from replay.engine.states.state_digest import digest
from replay.fleet.archive_source import ArchiveSource, UnreadableCluster
from replay.fleet.cluster_summaries import FleetQuestion, joined, summary_table
from replay.fleet.open_archive import OpenArchive
from replay.fleet.spark.bucketed_states import FoldedBucket
from replay.fleet.spark.fleet_jobs import SparkFleet, offset_rows
from replay.fleet.state_files import new_folder
from replay.fleet.table_queries import StateTableQuery
from replay.fleet.table_run import OnUnreadable, SkippedCluster, TableWork
from replay.tables.schemas import STATE_SCHEMAS
from tests.conftest import PROVE
from tests.core.logs import config, connector, offsets
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import capture, log_of, served
from tests.replay.archive.merges import LARGER
from tests.replay.cli.replay_calls import content
from tests.replay.fleet.fleets import CLUSTERS, damage_files, fleet_in, rows_of
from tests.replay.spark.bucketed_replay import BUCKETS
from tests.replay.spark.test_two_folds import random_asks

pytestmark = pytest.mark.java

RELEASES = ("2.3", "3.4", "3.9")

LOGS = 200 if PROVE else 4
"""Number of random logs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def local_archive(folder: Path) -> OpenArchive[pa.Table]:
    """Archive that this process folds."""
    return replay.open(str(folder))


@pytest.fixture(scope="module")
def spark_archive(spark: SparkSession, folder: Path) -> OpenArchive[DataFrame]:
    """Archive that Spark's tasks fold."""
    return replay.open(str(folder), spark=spark)


ANSWERS: tuple[Callable[[OpenArchive[Any]], Any], ...] = (
    lambda archive: archive.timeline(offsets=True),
    lambda archive: archive.history("pages"),
    lambda archive: archive.diff("config@3"),
    lambda archive: archive.audit(),
    lambda archive: archive.compat("3.9", "3.4"),
    lambda archive: archive.clusters(),
)
"""Queries of the API besides the tables of a state, `summaries` and `partitions`."""


def offsets_in_buckets(
    spark: SparkSession, folder: Path, unreadable: OnUnreadable = OnUnreadable.SKIP
) -> DataFrame:
    """Table of offsets, with each cluster folded in buckets."""
    query = StateTableQuery("offsets", None, tuple(map(Profile.of, RELEASES)))
    work = TableWork(query, ArchiveSource(str(folder)), list(CLUSTERS), unreadable)
    return SparkFleet(spark, BUCKETS).frame(work)


# --- the same answers ---------------------------------------------------------------------------


def test_tables_are_the_same(
    local_archive: OpenArchive[pa.Table], spark_archive: OpenArchive[DataFrame]
) -> None:
    """Data frames have the rows and column names of the Arrow tables."""
    for name in STATE_SCHEMAS:
        arrow, frame = (
            each.state(name, release=RELEASES) for each in (local_archive, spark_archive)
        )
        assert rows_of(frame) == rows_of(arrow)
        assert frame.columns == arrow.schema.names
    for ask in ANSWERS:
        assert rows_of(ask(spark_archive)) == rows_of(ask(local_archive))


def test_offsets_in_buckets_are_the_same(
    spark: SparkSession, folder: Path, local_archive: OpenArchive[pa.Table]
) -> None:
    """A fold in slices, shuffled by key into buckets, gives the rows of an undivided fold."""
    frame = offsets_in_buckets(spark, folder)
    assert rows_of(frame) == rows_of(local_archive.state("offsets", release=RELEASES))


def test_a_task_names_a_damaged_very_large_cluster() -> None:
    """The task of a bucket names its unreadable cluster by a warning."""
    bucket = FoldedBucket("life", 0, (), "segment-1.parquet was altered")
    with pytest.warns(SkippedCluster, match="^life: segment-1.parquet was altered$"):
        assert not list(offset_rows(bucket, OnUnreadable.SKIP))


def test_digests_are_those_of_the_service(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks fold the service's states of histories and random logs, before and after merges."""
    logs = [
        recorded_entries(path.name.removesuffix(".log.jsonl"))
        for path in sorted(HISTORIES.glob("*.log.jsonl"))[:: 1 if PROVE else 4]
    ]
    logs += [list(ask.entries) for ask in random_asks(LOGS)] + [split_spellings()]
    names = [str(number) for number in range(len(logs))]
    for name, log in zip(names, logs, strict=True):
        for look in (log[: len(log) // 2], log):
            capture(tmp_path, log_of(look), name=name)
    store = FolderStore(str(tmp_path))
    expected = {each: served_digests(logs, exactly_once=each) for each in (False, True)}
    rounds = [(False, LIMITS), (True, BUCKETS), (False, BUCKETS)]
    # In `make test`, one round reads the small looks, and one the merged archives.
    before, after = (rounds, rounds) if PROVE else (rounds[:1], rounds[1:2])
    for exactly_once, limits in before:
        source = ArchiveSource(str(tmp_path), exactly_once=exactly_once)
        assert digests_in_tasks(SparkFleet(spark, limits), source, names) == expected[exactly_once]
    merged = [Merger(store, name, LARGER).run().merged for name in names]
    assert sum(merged) > len(logs) // 2, "only logs without usable records have nothing to merge"
    for name in names:
        remove_replaced(store, name, 0)
    for exactly_once, limits in after:
        source = ArchiveSource(str(tmp_path), exactly_once=exactly_once)
        assert digests_in_tasks(SparkFleet(spark, limits), source, names) == expected[exactly_once]


def readers(*, exactly_once: bool) -> tuple[Profile, ...]:
    """All releases, or those with exactly-once support."""
    return tuple(each for each in PROFILES if each.exactly_once_support or not exactly_once)


def served_digests(logs: Sequence[Sequence[Entry]], *, exactly_once: bool) -> list[str]:
    """Digest of the service's state of each log, for each release."""
    profiles = readers(exactly_once=exactly_once)
    return [
        digest(state)
        for log in logs
        for state in served(log_of(log), None, profiles, exactly_once=exactly_once)
    ]


def digests_in_tasks(fleet: SparkFleet, source: ArchiveSource, names: list[str]) -> list[str]:
    """Digest of each cluster's state that tasks fold, for each release."""
    question = FleetQuestion(source, None, readers(exactly_once=source.exactly_once))
    summaries = joined(fleet.summaries(question, names))
    digests: list[str] = summary_table(summaries, names).column("digest").to_pylist()
    return digests


def test_rows_of_buckets_end_at_the_moment(spark: SparkSession, folder: Path) -> None:
    """The rows of buckets end at the moment, also within segments."""
    archive = replay.open(str(folder), clusters=["life"])
    counts = set()
    for moment in ("config@30", "config@60", "config@90"):
        query = StateTableQuery("offsets", moment, (Profile.of("3.9.2"),))
        work = TableWork(query, ArchiveSource(str(folder)), ["life"], OnUnreadable.RAISE)
        frame = SparkFleet(spark, BUCKETS).frame(work)
        expected = archive.state("offsets", as_of=moment, release="3.9")
        assert rows_of(frame) == rows_of(expected)
        counts.add(expected.num_rows)
    assert len(counts) == 3


def test_a_growing_archive_is_read_up_to_one_end(spark: SparkSession, tmp_path: Path) -> None:
    """Offsets and the rest of a very large cluster are read one after the other, up to one end."""
    entries = recorded_entries(CLUSTERS["life"])
    capture(tmp_path, log_of(entries[: len(entries) // 2]), name="life")
    expected = replay.open(str(tmp_path)).summaries().to_pylist()
    question = FleetQuestion(ArchiveSource(str(tmp_path)), None, (Profile.of("kip"),))
    parts = SparkFleet(spark, BUCKETS).summaries(question, ["life"])
    folded = [next(parts)]
    capture(tmp_path, log_of(entries), name="life")
    (summary,) = summary_table(joined([*folded, *parts]), ["life"]).to_pylist()
    (earlier,) = expected
    assert (summary["as_of"], summary["digest"]) == (earlier["as_of"], earlier["digest"])
    (later,) = replay.open(str(tmp_path)).summaries().to_pylist()
    assert later["digest"] != earlier["digest"]


def split_spellings() -> list[Entry]:
    """Log whose four partitions hold three spellings of a source partition, and tombstones."""
    spellings = [b'["a",{"p":1,"q":2}]', b'["a", {"q":2, "p":1}]', b'["\\u0061",{"p":1,"q":2}]']
    log = []
    for at in range(60):
        key, value = spellings[at % 3], None if at % 7 == 3 else b'{"o":%d}' % at
        log.append(Entry("connect-offsets", at % 4, at // 4, at * 10 % 170, key, value))
    return log


# --- rows stay in the tasks ---------------------------------------------------------------------


def test_no_row_reaches_the_driver(
    spark_archive: OpenArchive[DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks write the files: the test lets the driver neither make nor encode rows."""
    for place in (
        "replay.tables.cells.batches",
        "replay.tables.state_tables.StateTable.batches",
        "replay.engine.local_engine.LocalEngine.states",
        "replay.engine.local_engine.LocalEngine.folded",
    ):
        monkeypatch.setattr(place, refused)
    summaries = spark_archive.write_state(str(tmp_path / "state")).to_pylist()
    assert len(summaries) == len(CLUSTERS)
    assert all(row["offsets"] for row in summaries)


def test_differences_are_written_by_tasks(
    spark_archive: OpenArchive[DataFrame],
    local_archive: OpenArchive[pa.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks write the files that this process writes; the driver sees no state and no row."""
    expected = local_archive.write_diff(str(tmp_path / "here"), "config@3")
    for place in (
        "replay.tables.cells.batches",
        "replay.fleet.comparisons.differences",
        "replay.engine.local_engine.LocalEngine.states",
        "replay.engine.local_engine.LocalEngine.plan",
    ):
        monkeypatch.setattr(place, refused)
    assert spark_archive.write_diff(str(tmp_path / "tasks"), "config@3").equals(expected)
    assert content(tmp_path / "tasks") == content(tmp_path / "here")


def refused(*_: object, **__: object) -> None:
    """Stand-in for work that the driver must not do; raises."""
    raise AssertionError("the driver has folded or made rows")


def test_files_are_the_same(
    spark: SparkSession, folder: Path, local_archive: OpenArchive[pa.Table], tmp_path: Path
) -> None:
    """Tasks write the rows that this process writes, from buckets as well."""
    question = FleetQuestion(ArchiveSource(str(folder)), None, (Profile.of("3.9.2"),))
    local_archive.write_state(str(tmp_path / "here"), release="3.9")
    for name, limits in (("clusters", LIMITS), ("buckets", BUCKETS)):
        with new_folder(str(tmp_path / name), NONE) as place:
            fleet = SparkFleet(spark, limits)
            summaries = fleet.summaries(question, list(CLUSTERS), place, list(STATE_SCHEMAS))
            place.finish(joined(summaries), list(CLUSTERS))
        for table in (*STATE_SCHEMAS, "summaries"):
            written, expected = (
                ds.dataset(tmp_path / each / table, partitioning="hive").to_table()
                for each in (name, "here")
            )
            assert rows_of(written) == rows_of(expected)


def test_marks_of_buckets_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Buckets mark the offsets that differ between partitions, for every release, and no others."""
    configs = config(*(connector(name) for name in "abcd"))
    log = [*configs, *split_spellings(), *offsets(('["b",{"p":1}]', '{"o":1}'), partition=5)]
    for partition in (6, 7):
        keys = (f'["d",{{"p":{key}}}]' for key in range(3 * LISTED_OFFSETS))
        log += offsets(*((key, f'{{"o":{partition}}}') for key in keys), partition=partition)
    capture(tmp_path / "archive", log_of(log), name="split")
    archive = replay.open(str(tmp_path / "archive"))
    archive.write_state(str(tmp_path / "here"), release="all")
    with new_folder(str(tmp_path / "buckets"), NONE) as place:
        question = FleetQuestion(ArchiveSource(str(tmp_path / "archive")), None, PROFILES)
        parts = SparkFleet(spark, BUCKETS).summaries(question, ["split"], place, ["connectors"])
        place.finish(joined(parts), ["split"])
    local_rows, buckets = (
        ds.dataset(tmp_path / each / "connectors", partitioning="hive").to_table()
        for each in ("here", "buckets")
    )
    assert rows_of(buckets) == rows_of(local_rows) == rows_of(archive.state(release="all"))
    marked = {row["connector"]: len(row["order_dependent"]) for row in local_rows.to_pylist()}
    assert marked == {"a": 3, "b": 0, "c": 0, "d": LISTED_OFFSETS + 1}


def test_views_are_registered_by_one_call(spark_archive: OpenArchive[DataFrame]) -> None:
    """After one call, Spark's SQL reads every table."""
    assert spark_archive._spark is not None
    names = spark_archive.register_views(release="3.9", prefix="fleet_")
    counts = [spark_archive._spark.table(name).count() for name in names]
    assert counts == [spark_archive.state(name, release="3.9").count() for name in STATE_SCHEMAS]


# --- unreadable clusters ------------------------------------------------------------------------


def test_a_damaged_cluster_in_the_middle_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The damaged cluster is named with the reason; the others have rows and files."""
    folder = fleet_in(tmp_path / "archive")
    expected = [row for row in rows_of(replay.open(str(folder)).state()) if "'life'" not in row]
    damage_files(folder, "life")
    archive = replay.open(str(folder), spark=spark)
    assert rows_of(archive.state()) == expected
    summaries = archive.write_state(str(tmp_path / "state")).to_pylist()
    assert [row["cluster"] for row in summaries if row["problem"]] == ["life"]
    assert [row["cluster"] for row in summaries] == list(CLUSTERS)
    written = {path.name for path in (tmp_path / "state" / "offsets").iterdir()}
    assert written == {f"cluster={name}" for name in CLUSTERS if name != "life"}
    strict = replay.open(str(folder), spark=spark, unreadable="raise")
    with pytest.raises(UnreadableCluster, match=r"^life: .*was altered"):
        strict.write_state(str(tmp_path / "strict"))
    assert not (tmp_path / "strict").exists()


def test_a_damaged_slice_removes_the_rows_of_all_buckets(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A damaged slice removes its cluster's rows from all buckets, or makes the query fail."""
    folder = fleet_in(tmp_path)
    expected = {row["cluster"] for row in replay.open(str(folder)).state("offsets").to_pylist()}
    damage_files(folder, "life", "topic=connect-offsets/partition=0")
    frame = offsets_in_buckets(spark, folder)
    assert {row["cluster"] for row in frame.toArrow().to_pylist()} == expected - {"life"}
    question = FleetQuestion(ArchiveSource(str(folder)), None, (Profile.of("kip"),))
    problems = {
        summary.cluster: summary.problem
        for summary in joined(SparkFleet(spark, BUCKETS).summaries(question, list(CLUSTERS)))
        if summary.problem
    }
    assert list(problems) == ["life"]
    assert "was altered" in str(problems)
    with new_folder(str(tmp_path / "state"), NONE) as place:
        tables = list(STATE_SCHEMAS)
        joined(SparkFleet(spark, BUCKETS).summaries(question, list(CLUSTERS), place, tables))
    written = {path.name for path in (tmp_path / "state").glob("*/*")}
    assert written == {f"cluster={name}" for name in CLUSTERS if name != "life"}
    with pytest.raises(Exception, match=r"life: .*was altered"):
        offsets_in_buckets(spark, folder, OnUnreadable.RAISE).toArrow()
