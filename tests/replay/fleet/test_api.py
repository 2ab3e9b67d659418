"""The Python API without Spark: tables, problems, files and views."""

import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import replay
from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import UnknownRelease
from replay.audit.thresholds import BadThreshold
from replay.compat import BadReleaseChange
from replay.errors import NoArchive, NotWritable
from replay.fleet.archive_source import UnreadableCluster
from replay.fleet.open_archive import OpenArchive
from replay.fleet.table_run import SkippedCluster
from replay.tables.schemas import CLUSTERS, FINDINGS, STATE_SCHEMAS, SUMMARIES, VERDICTS
from replay.timeline.timeline_rows import CHANGES, EVENTS, INTERVALS
from tests.replay.archive.archives import capture, log_of
from tests.replay.cli.replay_calls import call, content
from tests.replay.fleet.fleets import CLUSTERS as NAMES
from tests.replay.fleet.fleets import damage_files, empty_files, fleet_in, rows_of

pytestmark = pytest.mark.slow

HIDDEN = "[hidden]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """Copy of the archive, which a test may damage."""
    return shutil.copytree(folder, tmp_path / "copied")


@pytest.fixture(scope="module")
def archive(folder: Path) -> OpenArchive[pa.Table]:
    """Open archive of the recorded clusters."""
    return replay.open(str(folder))


# --- tables -------------------------------------------------------------------------------------


def test_every_table_has_its_schema(archive: OpenArchive[pa.Table]) -> None:
    """Names and types are those that the schemas document, in this order."""
    tables = [
        *((archive.state(name), schema) for name, schema in STATE_SCHEMAS.items()),
        (archive.clusters(), CLUSTERS),
        (archive.summaries(), SUMMARIES),
        (archive.timeline(), INTERVALS),
        (archive.history("pages"), EVENTS),
        (archive.diff("config@3"), CHANGES),
        (archive.audit(), FINDINGS),
        (archive.compat("3.9", "3.4"), VERDICTS),
    ]
    for table, schema in tables:
        assert table.schema.equals(schema)
        assert table.num_rows


def test_every_column_is_described() -> None:
    """Each column of the tables has a description."""
    others = CLUSTERS, SUMMARIES, INTERVALS, EVENTS, CHANGES, FINDINGS, VERDICTS
    for schema in (*STATE_SCHEMAS.values(), *others):
        assert all(field.metadata[b"comment"] for field in schema)


def test_tables_agree_with_the_command(folder: Path, archive: OpenArchive[pa.Table]) -> None:
    """`state` prints connectors, task statuses, digests and counts as the tables have them."""
    printed = call("state", folder, "--release", "3.9", "-o", "json").json
    shown = [
        (document["cluster"], connector)
        for document in printed
        for connector in document["states"][0]["connectors"]
    ]
    states = {name: archive.state(name, release="3.9").to_pylist() for name in STATE_SCHEMAS}
    assert [(row["cluster"], row["connector"], row["tasks"]) for row in states["connectors"]] == [
        (cluster, connector["connector"], connector["tasks"]) for cluster, connector in shown
    ]
    for cluster, connector in shown:
        tasks, offsets = (
            [row for row in states[table] if _is(row, cluster, connector)]
            for table in ("statuses", "offsets")
        )
        reported = {str(row["task"]): row["state"] for row in tasks if row["task"] is not None}
        assert reported == {
            task: status["state"] for task, status in connector["task_status"].items()
        }
        usable = [row for row in offsets if row["problem"] is None]
        assert len(usable) == len(connector["offsets"])
    digests = [document["states"][0]["digest"] for document in printed]
    assert archive.summaries(release="3.9").column("digest").to_pylist() == digests


def _is(row: dict[str, object], cluster: str, connector: dict[str, object]) -> bool:
    return row["cluster"] == cluster and row["connector"] == connector["connector"]


def test_no_table_has_a_secret(tmp_path: Path) -> None:
    """Configs, offsets, traces and timelines hide a password."""
    alone(tmp_path, b'{"properties":{"name":"a","db.password":"hunter2"}}')
    archive = replay.open(str(tmp_path))
    tables = [archive.state(name) for name in STATE_SCHEMAS]
    tables += [archive.timeline(), archive.history("a"), archive.diff("config@0")]
    text = "".join(str(table.to_pylist()) for table in tables)
    assert HIDDEN in text
    assert "hunter2" not in text


def alone(folder: Path, config: bytes) -> None:
    """Archive a cluster with one connector, which has offsets and a failure."""
    secret = b'"jdbc:mysql://u:hunter2@h/d"'
    entries = [
        Entry("connect-configs", 0, 0, 1, b"connector-a", config),
        Entry("connect-configs", 0, 1, 2, b"connector-a", config.replace(b"}}", b',"n":"2"}}')),
        Entry("connect-offsets", 0, 0, 3, b'["a",{"url":%s}]' % secret, b'{"at":%s}' % secret),
        Entry(
            "connect-status",
            0,
            0,
            4,
            b"status-connector-a",
            b'{"state":"FAILED","trace":%s,"worker_id":"w","generation":1}' % secret,
        ),
    ]
    capture(folder, log_of(entries))


def test_each_release_has_its_rows_up_to_the_moment(folder: Path) -> None:
    """Each release has its own rows; a moment limits all of them."""
    archive = replay.open(str(folder), clusters=["roll"])
    early = archive.state(as_of="config@11", release=["3.4", "3.9"]).to_pylist()
    targets = {(row["release"], row["target_state"]) for row in early}
    assert targets >= {("3.4.1", "PAUSED"), ("3.9.2", "STOPPED")}
    changes = archive.diff("config@11", release="3.4", to_release="3.9").to_pylist()
    assert ("roll", "PAUSED", "STOPPED") in [
        (row["from"]["cluster"], row["before"].strip('"'), row["after"].strip('"'))
        for row in changes
        if row["aspect"] == "target state"
    ]


def test_two_clusters_are_compared(folder: Path) -> None:
    """`diff` compares the selected cluster with the cluster that `to_cluster` names."""
    archive = replay.open(str(folder), clusters=["life"])
    sides = {
        (row["from"]["cluster"], row["to"]["cluster"])
        for row in archive.diff(to_cluster="roll").to_pylist()
    }
    assert sides == {("life", "roll")}


def test_findings_are_those_of_the_command(folder: Path, archive: OpenArchive[pa.Table]) -> None:
    """`audit` prints the sentences of the table of findings, in the same order."""
    printed = call("audit", folder, "-o", "json").json["findings"]
    table = archive.audit()
    assert table.column("sentence").to_pylist() == [finding["sentence"] for finding in printed]


def test_verdicts_are_those_of_the_command(folder: Path, archive: OpenArchive[pa.Table]) -> None:
    """`compat` of the API has the same verdicts as the command."""
    printed = call("compat", folder, "--from", "3.9", "--to", "3.4", "-o", "json").json["rolls"]
    verdicts = [connector["verdict"] for roll in printed for connector in roll["connectors"]]
    starts: Any = ("3.9", ["3.9"])
    for start in starts:
        assert archive.compat(start, "3.4").column("verdict").to_pylist() == verdicts


@pytest.mark.parametrize(
    ("words", "ask"),
    [
        (("timeline", "--offsets"), lambda archive: archive.timeline(offsets=True)),
        (("history", "--connector", "pages"), lambda archive: archive.history("pages")),
        (("diff", "--from", "config@3"), lambda archive: archive.diff("config@3")),
    ],
)
def test_files_of_commands_have_the_rows_of_the_tables(
    words: tuple[str, ...],
    ask: Callable[[OpenArchive[pa.Table]], pa.Table],
    folder: Path,
    archive: OpenArchive[pa.Table],
    tmp_path: Path,
) -> None:
    """`-o parquet --file FILE` writes the same rows in the same order."""
    command, *options = words
    file = tmp_path / "rows.parquet"
    call(command, folder, *options, "-o", "parquet", "--file", file)
    rows = pq.read_table(file).to_pylist()
    assert rows
    assert rows == ask(archive).to_pylist()


# --- unreadable clusters ------------------------------------------------------------------------


def test_a_damaged_file_concerns_one_cluster(archive: OpenArchive[pa.Table], copied: Path) -> None:
    """The damaged cluster has no rows and is named with the reason; the others have rows."""
    expected = {
        name: [row for row in rows_of(archive.state(name)) if "'life'" not in row]
        for name in STATE_SCHEMAS
    }
    damage_files(copied, "life")
    archive = replay.open(str(copied))
    problems = {
        row["cluster"]: row["problem"] for row in archive.summaries().to_pylist() if row["problem"]
    }
    assert list(problems) == ["life"]
    assert "was altered" in problems["life"]
    for name, rows in expected.items():
        with pytest.warns(SkippedCluster, match=r"^life: cluster=life/.* was altered"):
            assert rows_of(archive.state(name)) == rows
    for ask in (archive.timeline, archive.audit):
        with pytest.warns(SkippedCluster, match="^life: "):
            assert {row["cluster"] for row in ask().to_pylist()} == {*NAMES} - {"life"}


def test_each_query_names_a_skipped_cluster(folder: Path) -> None:
    """Python shows a repeated warning once by default; then a second query would be silent."""
    archive = replay.open(str(folder), clusters=["absent", "roll"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            assert {row["cluster"] for row in archive.state().to_pylist()} == {"roll"}
    assert [warning.category for warning in caught] == [SkippedCluster] * 2


def test_the_damaged_side_of_a_difference_is_named(copied: Path) -> None:
    """A difference names the damaged cluster of its second side, not the selected cluster."""
    damage_files(copied, "life")
    with pytest.warns(SkippedCluster, match=r"^life: cluster=life/.* was altered"):
        assert not replay.open(str(copied), clusters=["roll"]).diff(to_cluster="life").num_rows
    archive = replay.open(str(copied), clusters=["roll"], unreadable="raise")
    with pytest.raises(UnreadableCluster, match=r"^life: cluster=life/"):
        archive.diff(to_cluster="life")


def test_missing_manifests_are_a_problem(copied: Path) -> None:
    """A cluster whose manifests are gone is listed, with the reason."""
    for path in (copied / "cluster=odd" / "_manifest").iterdir():
        path.unlink()
    listed = replay.open(str(copied)).clusters().to_pylist()
    assert [row["cluster"] for row in listed if row["problem"]] == ["odd"]
    assert "restore the manifests of cluster odd" in str(listed)


def test_a_problem_can_end_the_query(copied: Path) -> None:
    """With `unreadable="raise"` nothing is left out silently."""
    damage_files(copied, "life")
    archive = replay.open(str(copied), unreadable="raise")
    for ask in (archive.state, archive.timeline, archive.audit, archive.summaries):
        with pytest.raises(UnreadableCluster, match=r"^life: .* was altered"):
            ask()


def test_a_problem_can_end_the_lists_of_clusters_and_partitions(copied: Path) -> None:
    """With `unreadable="raise"` a cluster without manifests ends these queries, too."""
    for path in (copied / "cluster=odd" / "_manifest").iterdir():
        path.unlink()
    archive = replay.open(str(copied), unreadable="raise")
    for ask in (archive.clusters, archive.partitions):
        with pytest.raises(UnreadableCluster, match=r"^odd: .* has no manifest"):
            ask()


def test_a_problem_can_end_the_writing_of_files(copied: Path, tmp_path: Path) -> None:
    """With `unreadable="raise"` no folder appears that lacks a cluster."""
    damage_files(copied, "roll")
    archive = replay.open(str(copied), unreadable="raise")
    before = content(tmp_path)
    with pytest.raises(UnreadableCluster, match=r"^roll: .* was altered"):
        archive.write_state(str(tmp_path / "state"))
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["copied"]


def test_a_string_is_one_name(folder: Path, tmp_path: Path) -> None:
    """Arguments for several names take one name as a string, not its letters."""
    archive = replay.open(str(folder), clusters="roll")
    assert archive.names == ["roll"]
    assert archive.timeline("pages") == archive.timeline(["pages"])
    assert archive.timeline("pages").num_rows
    assert archive.diff("config@3", connectors="pages") == archive.diff(
        "config@3", connectors=["pages"]
    )
    assert archive.diff("config@3", connectors="pages").num_rows
    archive.write_state(str(tmp_path / "state"), tables="tasks")
    assert {path.name for path in (tmp_path / "state").iterdir()} == {
        "_SUCCESS",
        "summaries",
        "tasks",
    }


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """Each wrong argument raises an error of its kind, before any file of the archive is read."""
    folder = fleet_in(tmp_path / "fleet", {"roll": NAMES["roll"]})
    empty_files(folder)
    archive = replay.open(str(folder), unreadable="raise")
    with pytest.raises(UnreadableCluster):
        archive.state()
    with pytest.raises(ValueError, match="'nothing' is no table: choose from connectors, tasks"):
        archive.state("nothing")
    for chosen in (["tasks", "nothing"], "nothing"):
        with pytest.raises(ValueError, match="'nothing' is no table: choose from connectors, ta"):
            archive.write_state(str(tmp_path / "state"), tables=chosen)
    with pytest.raises(UnknownRelease):
        archive.state(release="nothing")
    pasts: tuple[Callable[[], object], ...] = (
        lambda: archive.state(as_of="yesterday"),
        lambda: archive.summaries(as_of="yesterday"),
        lambda: archive.timeline(as_of="yesterday"),
        lambda: archive.history(as_of="yesterday"),
        lambda: archive.diff("yesterday"),
        lambda: archive.audit(as_of="yesterday"),
        lambda: archive.compat("3.9", "3.4", as_of="yesterday"),
    )
    for ask_past in pasts:
        with pytest.raises(UnknownMoment, match="'yesterday' is no point in time"):
            ask_past()
    with pytest.raises(BadThreshold):
        archive.audit(thresholds={"nothing": "1"})
    for ask_none in (archive.state, archive.summaries, archive.timeline, archive.history):
        with pytest.raises(ValueError, match=r"^no release is named: give one or more$"):
            ask_none(release=[])
    several: Any = ["3.9", "3.6"]
    tables, checkpoint = str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    message = r"^one release is needed, and \['3.9', '3.6'\] names 2"
    for ask in (
        lambda: archive.audit(release=several),
        lambda: archive.diff(to_release=several),
        lambda: archive.compat("3.9", several),
        lambda: archive.follow(tables, checkpoint, release=several),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    with pytest.raises(BadReleaseChange):
        archive.compat("3.9", "3.4", mode="upgrade")
    with pytest.raises(ValueError, match="there is no Spark session"):
        archive.register_views()
    with pytest.raises(NoArchive, match="is no archive"):
        replay.open(str(tmp_path))
    with pytest.raises(ValueError, match="unreadable cannot be 'nothing': choose from skip, ra"):
        replay.open(str(tmp_path), unreadable="nothing")
    with pytest.raises(ValueError, match="mode cannot be 'x': choose from upgrade, downgrade, ro"):
        archive.compat("3.9", "3.4", mode="x")
    now: Any = datetime.now(UTC)
    with pytest.raises(TypeError, match="a moment is a text, such as '2026-"):
        archive.state(as_of=now)
    with pytest.raises(BadThreshold, match="stall-ms cannot be 0: give a whole number from 1 on"):
        archive.audit(thresholds={"stall-ms": 0})


def test_an_unknown_release_is_named(archive: OpenArchive[pa.Table]) -> None:
    """A release that is too new is read as the newest known one, each time with a warning."""
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"^release 99\.1 is not known; read as 4\."):
            archive.state("tasks", release="99.1")
    with pytest.warns(UserWarning, match="is not known") as caught:
        archive.diff("config@3", release="99.1")
    assert len(caught) == 1


# --- files and views ----------------------------------------------------------------------------


def test_files_are_partitioned(archive: OpenArchive[pa.Table], tmp_path: Path) -> None:
    """Readers of Hive partitions get the rows of each table, and prune by cluster."""
    folder = tmp_path / "state"
    summaries = archive.write_state(str(folder), release=["3.4", "3.9"])
    for name, schema in STATE_SCHEMAS.items():
        read = ds.dataset(folder / name, partitioning="hive").to_table()
        expected = archive.state(name, release=["3.4", "3.9"])
        assert rows_of(read.select(schema.names)) == rows_of(expected)
        assert sum(summaries.column(name).to_pylist()) == expected.num_rows
    tasks = ds.dataset(folder / "tasks", partitioning="hive")
    assert len(list(tasks.get_fragments(ds.field("cluster") == "roll"))) == 2
    assert (folder / "_SUCCESS").exists()


def test_files_appear_together_or_not_at_all(
    archive: OpenArchive[pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write leaves no file; a folder with files is refused."""
    folder = tmp_path / "state"
    archive.write_state(str(folder), tables=["tasks"])
    before = content(tmp_path)
    with pytest.raises(NotWritable, match="has files: name a new folder"):
        archive.write_state(str(folder))
    monkeypatch.setattr("replay.tables.parquet_files.pq.ParquetWriter", full_disk)
    with pytest.raises(NotWritable, match="no room"):
        archive.write_state(str(tmp_path / "other"))
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def full_disk(*_: object, **__: object) -> None:
    """Writer on a full disk."""
    raise NotWritable("no room")


def test_an_unreadable_cluster_has_no_files(copied: Path, tmp_path: Path) -> None:
    """The other clusters have files; the summaries name the unreadable one."""
    damage_files(copied, "life")
    folder = tmp_path / "state"
    summaries = replay.open(str(copied)).write_state(str(folder)).to_pylist()
    assert [row["cluster"] for row in summaries if row["problem"]] == ["life"]
    assert {path.name for path in (folder / "tasks").iterdir()} == {
        f"cluster={name}" for name in NAMES if name != "life"
    }


def test_a_table_without_rows_can_be_read(tmp_path: Path) -> None:
    """Files without rows have all columns; no file has an empty row group."""
    alone(tmp_path / "archive", b'{"properties":{"name":"a"}}')
    replay.open(str(tmp_path / "archive")).write_state(str(tmp_path / "state"))
    files = [*(tmp_path / "state").rglob("*.parquet")]
    assert files
    for path in files:
        metadata = pq.read_metadata(path)
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        assert all(group.num_rows for group in groups)
    table = ds.dataset(tmp_path / "state" / "topics", partitioning="hive").to_table()
    assert table.num_rows == 0
    assert {*table.column_names} == {*STATE_SCHEMAS["topics"].names}


Sql = Callable[[str], list[tuple[Any, ...]]]


def in_duckdb() -> tuple[Callable[[str, Any], Any], Sql]:
    """Return the registration of a table in DuckDB, and a query."""
    connection = duckdb.connect()
    return connection.register, lambda query: connection.sql(query).fetchall()


def in_polars() -> tuple[Callable[[str, Any], Any], Sql]:
    """Return the registration of a table in Polars, and a query."""
    context = pl.SQLContext()
    return context.register, lambda query: context.execute(query, eager=True).rows()


@pytest.mark.parametrize("library", [in_duckdb, in_polars])
def test_one_call_registers_views(
    library: Callable[[], tuple[Callable[[str, Any], Any], Sql]], archive: OpenArchive[pa.Table]
) -> None:
    """One call registers all tables; SQL joins them."""
    register, sql = library()
    names = archive.register_views(register, release="3.9", prefix="now_")
    assert names == [f"now_{name}" for name in STATE_SCHEMAS]
    joined = sql(
        "select cluster, connector, s.task from now_connectors join now_statuses s"
        " using (cluster, connector) where s.state = 'RUNNING' and s.task is not null"
    )
    statuses = archive.state("statuses", release="3.9").to_pylist()
    configured = {
        (row["cluster"], row["connector"]) for row in archive.state(release="3.9").to_pylist()
    }
    running = {
        (row["cluster"], row["connector"], row["task"])
        for row in statuses
        if row["state"] == "RUNNING"
        and row["task"] is not None
        and (row["cluster"], row["connector"]) in configured
    }
    assert {*joined} == running
    assert len(joined) == len(running) > 10
    for name, table in zip(names, STATE_SCHEMAS, strict=True):
        rows = archive.state(table, release="3.9").num_rows
        assert sql(f"select count(*) from {name}") == [(rows,)]


def test_polars_reads_written_files(archive: OpenArchive[pa.Table], tmp_path: Path) -> None:
    """Polars reads the rows of partitioned files, with the option that the page names."""
    archive.write_state(str(tmp_path / "state"), release=["3.4", "3.9"])
    for name, schema in STATE_SCHEMAS.items():
        read = pl.scan_parquet(tmp_path / "state" / name, try_parse_hive_dates=False).collect()
        expected = archive.state(name, release=["3.4", "3.9"])
        assert rows_of(read.to_arrow().select(schema.names)) == rows_of(expected)
