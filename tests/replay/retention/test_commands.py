"""Retention on the command line: `compact-archive --retain`, and the output of other commands.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
"""

from pathlib import Path
from shutil import copytree

import pytest

from controlplane.core.moments import time_text
from replay.cli.options.durations import option_duration
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, content, refusal
from tests.replay.fleet.fleets import empty_files

LOG = HISTORIES / "life-3.9.log.jsonl"
CUT = "the earliest certain moment is "


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a recorded cluster whose last record is much older than an hour."""
    folder = tmp_path_factory.mktemp("captured") / "archive"
    assert call("capture", f"life={LOG}", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def thinned(captured: Path) -> Path:
    """Copy of the archive after a retention."""
    folder = copytree(captured, captured.with_name("thinned"))
    assert call("compact-archive", folder, "--retain", "1h").code == 0
    return folder


def test_a_dry_run_counts_removals(captured: Path, tmp_path: Path) -> None:
    """The dry run prints the numbers of the removal, and changes no file."""
    folder = copytree(captured, tmp_path / "archive")
    before = content(folder)
    words = ("compact-archive", folder, "--retain", "1h")
    (rehearsed,) = call(*words, "--dry-run", "-o", "json").json
    assert content(folder) == before
    records = sum(each["records"] for each in rehearsed["expired"])
    assert f"{records}  " in call(*words, "--dry-run").out
    (done,) = call(*words, "-o", "json").json
    assert done["expired"] == rehearsed["expired"]
    assert rehearsed["records"] - records == call("verify", folder, "-o", "json").json[0]["records"]


def test_a_capture_of_a_dump_says_that_it_removes_nothing(tmp_path: Path) -> None:
    """`capture --retain` removes records while it runs, and a capture of a dump ends at once."""
    result = call("capture", LOG, tmp_path / "archive", "--retain", "1s")
    command = "replay compact-archive ARCHIVE --retain DURATION"
    message = f"no old records were removed: run `{command}`\n"
    assert (result.code, result.err) == (0, message)


def test_without_retain_nothing_is_removed(captured: Path, tmp_path: Path) -> None:
    """A merge without `--retain` removes no record, and its dry run plans no removal."""
    folder = copytree(captured, tmp_path / "archive")
    assert call("compact-archive", folder, "--dry-run", "-o", "json").json[0]["expired"] == []
    assert call("compact-archive", folder, "-o", "json").json[0]["expired"] == []
    assert call("verify", folder, "-o", "json").json[0]["records"] == 354


def test_young_records_stay(captured: Path, tmp_path: Path) -> None:
    """A retention of a hundred years removes nothing."""
    folder = copytree(captured, tmp_path / "archive")
    assert call("compact-archive", folder, "--retain", "36500d", "-o", "json").json[0][
        "merged"
    ] is (False)


def test_an_age_before_1970_names_no_moment(captured: Path, tmp_path: Path) -> None:
    """No record is that old, so no sentence says since when records are superseded."""
    folder = copytree(captured, tmp_path / "archive")
    for words in ([], ["--dry-run"]):
        result = call("compact-archive", folder, "--retain", "999999999d", *words)
        assert (result.code, "superseded before" in result.out) == (0, False)
        assert "unknown" not in result.out


@pytest.mark.slow
def test_the_state_at_the_end_is_unchanged(captured: Path, thinned: Path) -> None:
    """State and digest of every release are equal and certain.

    Counts of unreadable records may differ, because removed records are not counted.
    """
    words = ("--release", "all", "-o", "json")
    documents = [call("state", folder, *words).json for folder in (captured, thinned)]
    for document in documents:
        for state in document[0]["states"]:
            del state["unreadable"]
    assert documents[0] == documents[1]
    assert documents[1][0]["doubts"] == []


def test_a_moment_before_the_cut_is_in_doubt(thinned: Path) -> None:
    """`state` before the cut exits with 0; its warning names the retention's date and the cut."""
    (run,) = call("verify", thinned, "-o", "json").json[0]["retentions"]
    cut = time_text(run["cut_ms"])
    result = call("state", thinned, "--as-of", "config@40")
    assert result.code == 0
    assert f"records after offset 10 were removed by retention on {cut[:4]}" in result.err
    assert f"{CUT}{cut}" in result.err
    (state, *_) = call("state", thinned, "--as-of", "config@40", "-o", "json").json
    doubt = state["doubts"][0]
    assert (doubt["kind"], doubt["certain_from_ms"]) == ("removed by retention", run["cut_ms"])


def test_a_removed_record_is_no_moment(thinned: Path) -> None:
    """`--as-of` refuses a removed record, and a time before the first remaining record."""
    assert "the record at status@1:0 was removed by retention on" in refusal(
        call("state", thinned, "--as-of", "status@1:0")
    )
    early = refusal(call("state", thinned, "--as-of", "2001-01-01"))
    assert early.startswith("life: '2001-01-01' is before the first remaining record (")
    assert "). Earlier ones were removed by retention on" in early


def test_facts_from_before_the_cut_are_first_seen(thinned: Path) -> None:
    """The timeline marks a fact as `first_seen` if it may have begun with a removed record."""
    (document,) = call("timeline", thinned, "-o", "json", "--offsets").json
    rows = document["intervals"]
    kept = [row for row in rows if row["aspect"] == "source offset" and row["until"] is None]
    assert any(row["first_seen"] for row in kept)


def test_connectors_keep_their_creation(captured: Path, thinned: Path) -> None:
    """Retention removes no config record of a connector, so the audit finds the same creations."""
    created = [
        [
            finding["evidence"]
            for finding in call("audit", folder, "-o", "json").json["findings"]
            if finding["kind"] == "connector-created"
        ]
        for folder in (captured, thinned)
    ]
    assert created[0] == created[1] != []


def test_verify_separates_removals_from_holes(thinned: Path) -> None:
    """No offset counts as missing; thinned partitions are certain from the offset of the cut on."""
    result = call("verify", thinned, "--per-partition")
    assert result.code == 0
    assert "superseded before" in result.out
    assert "not archived" not in result.out
    (document,) = call("verify", thinned, "-o", "json").json
    parts = document["partitions"]
    assert {(part["missing"], part["holes"]) for part in parts} == {(0, 0)}
    assert sum(part["removed"] for part in parts) + document["records"] == 354
    vector = document["certain_from"]
    for part in parts:
        if part["removed"]:
            assert vector[part["topic"]][part["partition"]] == part["known_from"] > 0


def test_a_dump_is_captured_again(thinned: Path, tmp_path: Path) -> None:
    """Removed records are neither added again nor a conflict; other records are a conflict."""
    folder = copytree(thinned, tmp_path / "archive")
    before = content(folder)
    (again,) = call("capture", f"life={LOG}", folder, "-o", "json").json
    assert (again["read"], again["added"]) == (354, 0)
    assert content(folder) == before
    assert "another record is archived there" in refusal(
        call("capture", f"life={HISTORIES / 'life-4.3.log.jsonl'}", folder)
    )


def test_the_other_clusters_are_thinned(captured: Path, tmp_path: Path) -> None:
    """A retention skips and names a cluster with a damaged segment; exit code 2."""
    folder = copytree(captured, tmp_path / "archive")
    assert call("capture", f"roll={HISTORIES / 'roll-3.4-3.9-3.4.log.jsonl'}", folder).code == 0
    (segment, *_) = (folder / "cluster=life").rglob("topic=connect-offsets/*/segment-*.parquet")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    before = content(folder / "cluster=life")
    for words in (("--dry-run",), ()):
        result = call("compact-archive", folder, "--retain", "1h", "-o", "json", *words)
        assert result.code == 2
        assert f"Error: {segment.relative_to(folder)} was altered" in result.err
        assert [document["cluster"] for document in result.json if "failed" not in document] == (
            ["roll"]
        )
        assert content(folder / "cluster=life") == before


@pytest.mark.parametrize("text", ["90", "d", "1.5h", "-1d", "9000000000d", "1w"])
def test_a_duration_needs_a_unit(captured: Path, text: str, tmp_path: Path) -> None:
    """An invalid duration is a usage error before any file of the archive is read."""
    unreadable = copytree(captured, tmp_path / "archive")
    empty_files(unreadable)
    assert "no duration" not in refusal(call("compact-archive", unreadable, "--retain=1d"))
    result = call("compact-archive", unreadable, f"--retain={text}")
    assert result.code == 2
    assert f"{text!r} is no duration: write a number and s, m, h or d, such as 90d" in result.err


@pytest.mark.parametrize("text", ["90d", "25h", "61m", "59s", "0d"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    """A duration is written in the greatest unit that divides it."""
    number, unit = int(text[:-1]), text[-1]
    seconds = number * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[unit]
    assert option_duration(seconds) == text
