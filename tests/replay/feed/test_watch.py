"""`replay watch`: its output, its checkpoint and its end."""

import json
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest

import replay
from controlplane.core.state import Topics
from controlplane.terminal.exit_codes import INTERRUPTED
from replay.archive.stores.hadoop_settings import NONE
from replay.cli.execution.watched_feed import FeedPrinter, WatchOptions, watch_stream
from replay.cli.options.archives import ArchiveInput
from replay.cli.output.feed_lines import state_line
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.feed_tables import FeedTables
from tests.cli.command_calls import CommandResult
from tests.patience import PATIENCE_S
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.cli.replay_calls import call, content, refusal, started
from tests.replay.feed.feed_laws import archive_in, archived, findings, states_of, summed
from tests.replay.fleet.fleets import damage_files

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")


def watched(folder: Path, *options: object) -> CommandResult:
    """Run `watch --once`: print the changes since the checkpoint, or all without a checkpoint."""
    return call("watch", folder / "archive", "--once", *options)


def rows_in(result: CommandResult, table: str) -> list[dict[str, Any]]:
    """Rows of a table in JSON lines."""
    rows = [json.loads(line) for line in result.out.splitlines()]
    return [row for row in rows if row.pop("rows_of") == table]


def streamed_problems(folder: Path) -> list[str]:
    """Clusters that a stream has named when Ctrl-C ends it at its start."""
    progress = str(folder / "checkpoint")
    feed = replay.open(str(folder / "archive")).follow(f"{progress}/tables", progress)
    archive = ArchiveInput(str(folder / "archive"), (), False, False, [])
    printer = FeedPrinter(feed, archive, WatchOptions(60, "table", "info"))
    with pytest.raises(KeyboardInterrupt):
        watch_stream(feed, printer, 60)
    return archive.failed


def test_each_row_is_a_line(tmp_path: Path) -> None:
    """A line per row has cluster, connector, change and record; the last line has the batch."""
    archived(tmp_path, ENTRIES[:60])
    progress = ("--checkpoint", tmp_path / "checkpoint")
    assert watched(tmp_path, *progress).code == 0
    archived(tmp_path, ENTRIES)
    result = watched(tmp_path, *progress)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert any(
        line.startswith(f"{NAME} pages connector changed: ")
        and "config tasks.max 2 → 1" in line
        and "(config@" in line
        for line in lines
    )
    assert any(line.startswith(f"{NAME} pages offset of {{") for line in lines)
    assert any(line.startswith(f"{NAME} pages info target-changed: pages was") for line in lines)
    tables = FeedTables(str(tmp_path / "checkpoint" / "tables"), NONE)
    counts = [len([*tables.rows(name, 1)]) for name in ("state_changes", "finding_changes")]
    assert lines[-1] == f"{NAME}: batch 1: {counts[0]} state changes, {counts[1]} finding changes"
    assert len(lines) == sum(counts) + 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"a": None}, "config a ∅ → null"),
        ({"a": None, "b": ""}, {"b": ""}, "config a null → ∅"),
        ({"a": 1}, {"a": True}, "config a 1 → true"),
    ],
)
def test_a_line_shows_changes_that_java_sees(
    before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    """A setting that is null is not absent, and 1 is not true."""
    row = {"cluster": NAME, "connector": "a", "table": "connectors", "task": None, "item": None}
    sides = {"before": {"config": before}, "after": {"config": after}}
    row |= {side: json.dumps(cells) for side, cells in sides.items()}
    line = state_line(row | {"change": "changed", "causes": []}, Topics())
    assert line == f"{NAME} a connector changed: {words}"


def test_json_lines_add_up(tmp_path: Path) -> None:
    """The rows of two runs add up to the state and the findings of the archive."""
    lines: list[CommandResult] = []
    for end in (60, None):
        archived(tmp_path, ENTRIES[:end])
        printed = watched(tmp_path, "-o", "json", "--checkpoint", tmp_path / "checkpoint")
        lines.append(printed)
    changes = [row for printed in lines for row in rows_in(printed, "state_changes")]
    for row in changes:
        for side in ("before", "after"):
            row[side] = row[side] and json.dumps(row[side], separators=(",", ":"))
    expected = states_of(archive_in(tmp_path))
    assert {_parsed(place) for place in summed(changes)} == {_parsed(place) for place in expected}
    raised = [row for printed in lines for row in rows_in(printed, "finding_changes")]
    assert findings(raised).total() == archive_in(tmp_path).audit().num_rows


def _parsed(place: tuple[str, str, str]) -> str:
    cluster, table, text = place
    return repr((cluster, table, json.loads(text)))


def test_each_change_is_printed_once(tmp_path: Path) -> None:
    """A run continues from its checkpoint; without a checkpoint, each run prints everything."""
    archived(tmp_path, ENTRIES)
    progress = ("--checkpoint", tmp_path / "checkpoint")
    first = watched(tmp_path, *progress)
    assert first.out.endswith(" finding changes\n")
    assert watched(tmp_path, *progress) == (0, "", "")
    assert watched(tmp_path) == first


def test_mild_findings_can_be_left_out(tmp_path: Path) -> None:
    """`--least warning` omits milder findings; the number in the batch's row includes them."""
    archived(tmp_path, recorded_entries("life-3.9"))
    printed = watched(tmp_path, "--least", "warning", "-o", "json")
    severities = {row["severity"] for row in rows_in(printed, "finding_changes")}
    assert severities == {"warning"}
    (batch,) = rows_in(printed, "batches")
    assert batch["finding_changes"] > len(rows_in(printed, "finding_changes"))


def test_tables_in_a_folder_of_their_own_need_a_checkpoint(tmp_path: Path) -> None:
    """`--folder`, the folder of the tables, needs `--checkpoint`, too."""
    archived(tmp_path, ENTRIES)
    places = ("--checkpoint", tmp_path / "checkpoint", "--folder", tmp_path / "out")
    assert watched(tmp_path, *places).code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "batches",
        "finding_changes",
        "state_changes",
    }
    assert watched(tmp_path, "--folder", tmp_path / "other").code == 2


def test_a_damaged_cluster_is_an_error(tmp_path: Path) -> None:
    """`watch` names the damaged cluster, prints the others and exits with code 2."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES, name)
    damage_files(tmp_path / "archive", "a")
    result = watched(tmp_path)
    assert result.code == 2
    assert result.err.startswith("Error: cluster=a/")
    assert {line.split()[0] for line in result.out.splitlines()} == {"b", "b:"}


def test_a_cluster_that_stays_unreadable_is_named_by_each_run(tmp_path: Path) -> None:
    """Each run names a cluster without manifests, until they are restored."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:60], name)
    progress = ("--checkpoint", tmp_path / "checkpoint")
    assert watched(tmp_path, *progress).code == 0
    manifests = tmp_path / "archive" / "cluster=a" / "_manifest"
    manifests.rename(tmp_path / "saved")
    first, second = (watched(tmp_path, *progress) for _ in range(2))
    assert first.err.startswith("Error: cluster=a/_manifest has no manifest")
    assert (first.code, second.code, second.err) == (2, 2, first.err)
    assert watched(tmp_path, "--cluster", "b", *progress).code == 0
    (tmp_path / "saved").rename(manifests)
    assert watched(tmp_path, *progress).code == 0


def interrupted(*_: object) -> NoReturn:
    """End the start of a stream as Ctrl-C does."""
    raise KeyboardInterrupt


def test_a_stream_names_unreadable_clusters_before_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream ends only by Ctrl-C. Before that, it names the clusters that stay unreadable."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:60], name)
    progress = ("--checkpoint", tmp_path / "checkpoint")
    assert watched(tmp_path, *progress).code == 0
    manifests = tmp_path / "archive" / "cluster=a" / "_manifest"
    manifests.rename(tmp_path / "saved")
    assert watched(tmp_path, *progress).code == 2
    monkeypatch.setattr(ArchiveFeed, "start", interrupted)
    assert streamed_problems(tmp_path) == ["a"]
    assert capsys.readouterr().err.startswith("Error: cluster=a/_manifest has no manifest")
    (tmp_path / "saved").rename(manifests)
    assert streamed_problems(tmp_path) == []


def test_a_misspelled_cluster_is_not_followed_later(tmp_path: Path) -> None:
    """Only the run that selects a cluster of this name reports that the archive lacks it."""
    archived(tmp_path, ENTRIES[:60])
    progress = ("--checkpoint", tmp_path / "checkpoint")
    message = refusal(watched(tmp_path, "--cluster", "misspelled", *progress))
    assert "has no archive of a cluster misspelled" in message
    archived(tmp_path, ENTRIES[:60], "another")
    assert watched(tmp_path, *progress).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--once",)])
def test_a_path_without_an_archive_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A misspelled path ends the command at once, and an empty folder as well."""
    missing = refusal(call("watch", tmp_path / "missing", *options))
    assert f"{tmp_path / 'missing'} does not exist: check the path" in missing
    empty = refusal(call("watch", tmp_path, *options))
    assert f"{tmp_path} is no archive: create one with `replay capture`" in empty


def test_an_archive_from_a_backup_is_refused(tmp_path: Path) -> None:
    """An archive older than the checkpoint gives one sentence and exit code 2; no file changes."""
    archived(tmp_path, ENTRIES)
    progress = ("--checkpoint", tmp_path / "checkpoint")
    assert watched(tmp_path, *progress).code == 0
    (tmp_path / "archive").rename(tmp_path / "gone")
    archived(tmp_path, ENTRIES[:60])
    before = content(tmp_path)
    sentence = refusal(watched(tmp_path, *progress))
    assert sentence.startswith(f"{NAME}: the checkpoint is ahead of the archive: connect-")
    assert content(tmp_path) == before


@pytest.mark.slow
def test_watch_continues_until_ctrl_c(tmp_path: Path) -> None:
    """`watch` prints a batch for what a capture adds; Ctrl-C ends it with exit code 130."""
    archived(tmp_path, ENTRIES[:60])
    with started("watch", tmp_path / "archive", "--every", "0.1") as process:
        assert process.stdout is not None
        for batch, end in ((0, None), (1, None)):
            for line in process.stdout:
                if line.startswith(f"{NAME}: batch {batch}: "):
                    break
            archived(tmp_path, ENTRIES[:end])
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaint) == (INTERRUPTED, "interrupted\n")
