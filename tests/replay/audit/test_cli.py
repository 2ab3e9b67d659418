"""`replay audit` on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.core.moments import time_text
from replay.audit.kinds import KINDS
from replay.audit.thresholds import all_thresholds
from replay.cli.main import main
from tests.recorded_requests import HISTORIES
from tests.replay.audit.planted_log import START_MS, PlantedLog
from tests.replay.audit.test_trail import COMMON

LIFE = str(HISTORIES / "life-3.9.log.jsonl")
MIRROR = str(HISTORIES / "mirror-3.9.log.jsonl")


def run(*words: str) -> Result:
    """Run a command, as from a shell."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["audit", *words])


def write_log(log: PlantedLog, path: Path) -> str:
    """Write a planted log to a file."""
    lines = []
    for entry in log.cluster("lab").entries:
        texts = {"key": entry.key, "value": entry.value}
        decoded = {name: None if raw is None else raw.decode() for name, raw in texts.items()}
        lines.append(
            json.dumps(entry.position._asdict() | {"timestamp": entry.timestamp} | decoded) + "\n"
        )
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def test_exit_codes_depend_on_severity() -> None:
    """Exit code 0: no finding above INFO. Exit code 1: other findings."""
    assert run(MIRROR).exit_code == 0
    assert run(LIFE).exit_code == 1
    assert run(LIFE, "--least", "danger").exit_code == 0
    assert run(LIFE, "--kind", "config-changed").exit_code == 0


def test_the_table_has_a_row_for_each_finding() -> None:
    """The table has a row for each finding, each advice once, and the number of findings."""
    result = run(LIFE, "--least", "warning", "--cluster", "lab")
    assert "warning   offsets-inherited  pages" in result.stdout
    assert "CLUSTER" not in result.stdout
    assert result.stdout.count("pages: It does not read the data before these offsets") == 1
    assert result.stdout.endswith("lab: 1 finding\n")
    assert run(MIRROR, "--least", "danger", "--cluster", "lab").stdout == "lab: no findings\n"


def test_json_has_all_fields_of_a_finding() -> None:
    """JSON has all fields of a finding; with several logs each finding names its cluster."""
    result = run(LIFE, MIRROR, "--cluster", "east", "--cluster", "west", "-o", "json")
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["clusters"] == ["east", "west"]
    assert {finding["cluster"] for finding in document["findings"]} == {"east", "west"}
    first = document["findings"][0]
    assert (first["kind"], first["severity"]) == ("offsets-inherited", "warning")
    assert first["evidence"][:2] == ["config@49", "config@47"]
    assert set(first) == {
        *("kind", "severity", "cluster", "connector", "evidence", "sentence", "advice"),
        "clusters",
    }


def test_several_clusters_are_distinguished() -> None:
    """The table names the clusters of each finding, which may be several."""
    result = run(LIFE, LIFE, "--cluster", "east", "--cluster", "west", "--least", "danger")
    assert "two-clusters-one-topic" in result.stdout
    assert "CLUSTER" in result.stdout
    assert "east config@0, west config@0" in result.stdout
    assert result.exit_code == 1


def test_every_record_across_clusters_names_its_cluster() -> None:
    """JSON names the cluster of each record too: two clusters can both have a `config@0`."""
    words = ("--cluster", "east", "--cluster", "west", "--least", "danger", "-o", "json")
    (finding,) = json.loads(run(LIFE, LIFE, *words).stdout)["findings"]
    assert finding["evidence"] == ["east config@0", "west config@0"]
    assert finding["clusters"] == ["east", "west"]


def test_users_from_an_access_log(tmp_path: Path) -> None:
    """An access log names the user; lines that cannot be read are reported on standard error."""
    log = write_log(
        PlantedLog().config("a", rows="1").config("a", rows="2"), tmp_path / "lab.log.jsonl"
    )
    seconds = START_MS // 1_000 + 2
    event = {"ts": seconds, "user": "bob", "method": "PUT", "path": "/connectors/a/config"}
    trail = tmp_path / "trail"
    trail.write_text("\n".join([COMMON.format("GET /", 200), "?", json.dumps(event), ""]))
    result = run(log, "--trail", str(trail), "--kind", "config-changed")
    assert "a was reconfigured by bob (audit stream)" in result.stdout
    assert result.stderr.startswith(
        f"{trail}: line 2 is neither JSON nor a log line of `serve` nor a line of an access log\n"
        f"{trail}: 3 lines read, 1 request that may have written something, "
        "1 line not of an audit stream\n"
    )


def test_log_lines_of_serve_name_the_user(tmp_path: Path) -> None:
    """`serve` writes these lines by default; they name the user of a change."""
    log = write_log(
        PlantedLog().config("a", rows="1").config("a", rows="2"), tmp_path / "lab.log.jsonl"
    )
    trail = tmp_path / "serve.log"
    trail.write_text(
        f"timestamp={time_text(START_MS + 2_000)} level=info event=request method=PUT "
        "target=/connectors/a/config dialect= principal=bob status=200 bytes=17 peer=::1\n"
    )
    result = run(log, "--trail", str(trail), "--kind", "config-changed")
    assert "a was reconfigured by bob (audit stream)" in result.stdout
    assert f"{trail}: 1 line read, 1 request that may have" in result.stderr


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_trail_is_refused(content: str, tmp_path: Path) -> None:
    """An empty trail is refused: it would name no user."""
    trail = tmp_path / "trail"
    trail.write_text(content)
    result = run(LIFE, "--trail", str(trail))
    assert result.exit_code == 2
    assert result.stderr == f"Error: {trail} is empty: name the file that has the requests in it\n"


def test_a_trail_may_be_of_one_cluster(tmp_path: Path) -> None:
    """Two clusters share a connector name; a trail of one cluster names users there only."""
    log = write_log(PlantedLog().config("a"), tmp_path / "lab.log.jsonl")
    event = {"at_ms": START_MS, "user": "bob", "method": "PUT", "path": "/connectors/a/config"}
    (tmp_path / "trail").write_text(json.dumps(event))
    names = ("--cluster", "east", "--cluster", "west", "-o", "json")
    for prefix, known_in in (("west=", {"west"}), ("", {"east", "west"})):
        result = run(log, log, *names, "--trail", f"{prefix}{tmp_path / 'trail'}")
        findings = json.loads(result.stdout)["findings"]
        by = {finding["cluster"] for finding in findings if " by bob" in finding["sentence"]}
        assert by == known_in


def test_release_topics_and_thresholds_apply(tmp_path: Path) -> None:
    """Release, topics and thresholds change the findings."""
    log = PlantedLog().config("a").restart("a").restart("a").restart("a")
    path = write_log(log, tmp_path / "lab.log.jsonl")
    few = ("--threshold", "storm-restarts=3")
    assert "restart-storm" not in run(path).stdout
    assert "restart-storm" in run(path, *few).stdout
    assert "restart-storm" not in run(path, *few, "--release", "2.3").stdout
    Path(path).write_text(Path(path).read_text().replace("connect-configs", "ours"))
    assert "restart-storm" not in run(path, *few).stdout
    assert "restart-storm" in run(path, *few, "--config-topic", "ours").stdout


def test_list_shows_kinds_and_thresholds() -> None:
    """`--list` prints all kinds and thresholds, without a log."""
    result = run("--list")
    assert result.exit_code == 0
    for name in (*KINDS, *(threshold.name for threshold in all_thresholds())):
        assert name in result.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["absent.jsonl"], "absent.jsonl does not exist"),
        ([LIFE, "--threshold", "storms=1"], "storms is no threshold"),
        ([LIFE, "--threshold", "stall-ms"], "stall-ms cannot be ''"),
        ([LIFE, "--release", "banana"], "banana"),
        ([LIFE, "--trail", LIFE], "is no audit stream: line 1 names no principal"),
        ([LIFE, "--trail", "absent"], "absent cannot be read (No such file or directory)"),
        ([LIFE, "--trail", f"nope={LIFE}"], "no cluster nope is named (found: "),
        ([LIFE, LIFE], "two logs have the same name: name them with --cluster"),
        ([LIFE, "--cluster", "a", "--cluster", "b"], "more often than there are logs"),
        ([LIFE, "--config-topic", "connect-status"], "give each a name of its own"),
        ([], "Missing argument 'LOG|ARCHIVE...'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(words: list[str], sentence: str) -> None:
    """The command prints one clear sentence and exits with code 2."""
    result = run(*words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
