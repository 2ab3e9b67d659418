"""Facts that depend on the order between partitions are marked in states and listed as hazards."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import replay
from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.views.hazards import Danger, hazards
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.states.order_marks import LISTED_OFFSETS, OrderMarks
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.table_queries import StateTableQuery
from tests.core.logs import config, connector, offsets, status
from tests.replay.archive.archives import NAME, archive, capture, cluster_in, log_of
from tests.replay.certainty.lossy_archive import random_log_anywhere
from tests.replay.cli.replay_calls import call, refusal

RUNNING = '{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}'
TASK = "task 0 is shown only if a worker reads its status after the tombstone at status@1:0"
OFFSET = "a source offset lies in several partitions with different values: offsets@0, offsets@1:3"

ROWS_IN_TWO_PARTITIONS = [
    entry
    for partition in (0, 1)
    for entry in offsets(
        *((f'["a",{{"p":{key}}}]', f'{{"o":{partition}}}') for key in range(LISTED_OFFSETS + 7)),
        partition=partition,
    )
]
"""Source offsets of a connector, each with different values in two partitions."""


@pytest.fixture
def unordered(tmp_path: Path) -> Path:
    """Archive: a task status, a tombstone in another partition, and an offset in two partitions."""
    key = '["a",{"p":1}]'
    log = [
        *config(connector("a"), connector("b")),
        *status(("status-task-a-0", RUNNING), start=2),
        *status(("status-connector-a", None), partition=1),
        *offsets((key, '{"o":1}')),
        *offsets((key, '{"o":2}'), partition=1, start=3),
    ]
    archive(tmp_path / "archive", log)
    return tmp_path / "archive"


def test_a_state_marks_unordered_facts(unordered: Path) -> None:
    """Table and JSON show the mark of the connector; others have none."""
    rows = call("state", unordered, "-o", "json").json[0]["states"][0]["connectors"]
    assert {row["connector"]: row["order_dependent"] for row in rows} == {
        "a": [TASK, OFFSET],
        "b": [],
    }
    shown = " ".join(call("state", unordered).out.split())
    assert shown.count("depends on the order between partitions") == 2


def test_tables_and_files_have_the_marks_of_the_command(unordered: Path, tmp_path: Path) -> None:
    """`archive.state()` and `state --folder` have the same marks, in the same words and order."""
    call("state", unordered, "-o", "parquet", "--folder", tmp_path / "states")
    written = ds.dataset(tmp_path / "states" / "connectors", partitioning="hive").to_table()
    for table in (replay.open(str(unordered)).state(), written):
        assert marks_in(table) == {"a": [TASK, OFFSET], "b": []}


def test_marks_of_very_many_offsets_are_not_searched(unordered: Path) -> None:
    """With too many offsets, a table of connectors reads none: its marks are null, not empty."""
    query = StateTableQuery("connectors", None, (Profile.of("kip"),), marked_rows=1)
    source = ArchiveSource(str(unordered))
    batches = list(query.batches(source, query.planned(source, NAME)))
    assert marks_in(pa.Table.from_batches(batches)) == {"a": None, "b": None}


def test_marks_of_a_connector_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    """The first source offsets have a sentence each, the others a number; hazards list all."""
    log = [*config(connector("a"), connector("b")), *ROWS_IN_TWO_PARTITIONS]
    archive(tmp_path / "archive", log)
    first = OFFSET.replace("offsets@1:3", "offsets@1:0")
    (state,) = call("state", tmp_path / "archive", "-o", "json").json[0]["states"]
    marks = {row["connector"]: row["order_dependent"] for row in state["connectors"]}
    assert marks["a"][0] == first
    assert len(marks["a"]) == LISTED_OFFSETS + 1
    assert marks["a"][-1].startswith("7 more source offsets in several partitions with different")
    assert marks["b"] == []
    assert marks_in(replay.open(str(tmp_path / "archive")).state()) == marks
    listed = call("lint", tmp_path / "archive", "--hazards", "-o", "json").json["hazards"]
    assert len(listed) == LISTED_OFFSETS + 7


def marks_in(table: pa.Table) -> dict[str, list[str] | None]:
    """Return the order marks of each connector in a table."""
    return {row["connector"]: row["order_dependent"] for row in table.to_pylist()}


def test_the_same_value_in_two_partitions_is_no_mark(tmp_path: Path) -> None:
    """Equal offsets in two partitions need no mark: their order does not matter."""
    pair = ('["a",{"p":1}]', '{"o":1}')
    archive(tmp_path, [*config(connector("a")), *offsets(pair), *offsets(pair, partition=1)])
    (row,) = call("state", tmp_path, "-o", "json").json[0]["states"][0]["connectors"]
    assert row["order_dependent"] == []


def dangerous(log: list[Entry], release: Profile) -> set[tuple[str | None, str]]:
    """Connectors and topics of a whole log's hazards about the order between partitions."""
    return {
        (hazard.connector, hazard.position.topic)
        for hazard in hazards(log, release)
        if hazard.danger is Danger.PARTITION_ORDER and hazard.connector is not None
    }


@pytest.mark.parametrize("derived", [True, False], ids=["derived-files", "segments-only"])
@pytest.mark.parametrize("seed", range(12))
def test_marks_are_the_hazards(seed: int, tmp_path: Path, *, derived: bool) -> None:
    """Marks of the rows that still count have the connectors and topics of the log's hazards."""
    log = random_log_anywhere(seed)
    archive(tmp_path, log)
    local = LocalEngine(cluster_in(tmp_path), LocalOptions(derived=derived))
    profiles = [Profile.of("2.8"), Profile.of("kip")]
    plan = local.plan(None, profiles)
    reduced = local.reduced(plan, profiles)
    marks = OrderMarks(plan, list(zip(plan.busy, reduced, strict=True)))
    for profile in profiles:
        marked = {
            (name, "connect-status" if sentence.startswith("task") else "connect-offsets")
            for name, sentences in marks.of(profile, ()).items()
            for sentence in sentences
        }
        assert marked == dangerous(in_order(log), profile)


# --- hazards ------------------------------------------------------------------------------------


def test_lint_shows_the_hazards_of_an_archive(unordered: Path) -> None:
    """`lint --hazards` has a row per hazard of an archive; `--connector` selects among them."""
    result = call("lint", unordered, "--hazards", "--release", "3.9")
    assert result.code == 0
    assert result.out.splitlines()[-1] == f"a worker of 3.9.2 would meet 2 hazards in {NAME}"
    document = call("lint", unordered, "--hazards", "-o", "json").json
    assert {
        (hazard["cluster"], hazard["danger"], hazard["connector"]) for hazard in document["hazards"]
    } == {(NAME, "depends on the order between partitions", "a")}
    assert all(hazard["releases"] for hazard in document["hazards"])
    mine = call("lint", unordered, "--hazards", "--connector", "b", "-o", "json").json
    assert mine["hazards"] == []


def test_hazards_of_an_unknown_connector_are_refused(unordered: Path) -> None:
    """A misspelt `--connector` is refused; a connector of one cluster of several is known."""
    words = ("lint", unordered, "--hazards", "--connector")
    sentence = "the answer has no connector 'nobody': check the name"
    assert refusal(call(*words, "nobody")) == sentence
    capture(unordered, log_of(config(connector("c"))), name="other")
    assert call(*words, "c").code == 0


def test_fail_ends_with_1_if_there_is_a_hazard(unordered: Path) -> None:
    """`--fail` exits with code 1 if there is a hazard, and with 0 at a moment before it."""
    words = ("lint", unordered, "--hazards", "--fail")
    assert [call(*words).code, call(*words, "--as-of", "config@0").code] == [1, 0]


def test_a_rehearsal_refuses_options_of_hazards(unordered: Path) -> None:
    """A rehearsal (`lint` without `--hazards`) needs a release and refuses options of hazards."""
    without_hazards = call("lint", unordered, "--release", "3.9", "--fail")
    assert without_hazards.err.endswith("--connector and --fail need --hazards: give it, too\n")
    assert call("lint", unordered).err.endswith("name the release, such as 3.9\n")


def test_a_damaged_cluster_does_not_hide_the_hazards_of_others(unordered: Path) -> None:
    """The damaged cluster is named with exit code 2, beside the hazards of others."""
    capture(unordered, log_of(config(connector("c"))), name="other")
    (unordered / "cluster=other" / "_manifest" / "0000000001.json").unlink()
    result = call("lint", unordered, "--hazards", "--release", "3.9")
    assert result.code == 2
    assert "cluster=other/_manifest has no manifest" in result.err
    assert f"would meet 2 hazards in {NAME}" in result.out
    assert "no manifest" in refusal(call("lint", unordered, "--hazards", "--cluster", "other"))
