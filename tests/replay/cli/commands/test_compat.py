"""`replay compat` and `replay lint` on the command line."""

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

import replay
from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import UnknownRelease
from controlplane.logs.sqlite import SqliteLog
from replay.cli.main import main
from tests.replay.compat.planted_log import CONFIG, STOPPED, Planted, running, stopped

PAUSED = {"state": "PAUSED"}


def lines(entries: list[Entry]) -> str:
    """Entries as lines of a history."""
    return "".join(json.dumps(_line(entry)) + "\n" for entry in entries)


def _line(entry: Entry) -> dict[str, Any]:
    texts = {"key": entry.key, "value": entry.value}
    decoded = {name: None if raw is None else raw.decode() for name, raw in texts.items()}
    place = entry.position._asdict() | {"timestamp": entry.timestamp}
    return place | decoded | ({"aborted": True} if entry.aborted else {})


@pytest.fixture
def dump(tmp_path: Path) -> Any:
    """Return a function that writes a planted log to a file and returns its path."""

    def write(planted: Planted) -> str:
        path = tmp_path / "lab.log.jsonl"
        path.write_text(lines(planted.entries), encoding="utf-8")
        return str(path)

    return write


def run(*words: str) -> Result:
    """Run a command, as from a shell."""
    return CliRunner().invoke(main, words)


QUIET = running().target("a", PAUSED).config("a", rows="2")
DISAGREEING = running().target("a", {"state": "STOPPED"})


def test_exit_codes_are_verdicts(dump: Any) -> None:
    """Exit code 0: compatible. 1: needs preparation. 2: unsafe."""
    for planted, code, word in (
        (stopped(), 0, "compatible"),
        (QUIET, 1, "needs preparation"),
        (DISAGREEING, 2, "unsafe"),
    ):
        result = run("compat", dump(planted), "--from", "3.4", "--to", "3.9", "--cluster", "lab")
        assert result.exit_code == code
        assert result.stdout.startswith(f"lab: 3.4.1 to 3.9.2, upgrade: {word}\n")


@pytest.mark.parametrize(
    ("release", "code", "sentence"),
    [
        ("3.9.9", 0, "Warning: release 3.9.9 is not known; read as 3.9.2"),
        ("3.10", 2, "Error: unknown release '3.10': use 0.9.0.0 to 4.3.0"),
        ("banana", 2, "Error: unknown release 'banana'"),
    ],
)
def test_newer_patches_are_read_as_known_ones(
    dump: Any, release: str, code: int, sentence: str, tmp_path: Path
) -> None:
    """A newer patch is read as the newest known one before it; an invalid release is an error."""
    path = dump(running())
    assert run("capture", f"lab={path}", str(tmp_path / "archive"), "--once").exit_code == 0
    for result in (
        run("compat", path, "--from", "3.9", "--to", release),
        run("state", str(tmp_path / "archive"), "--release", release),
    ):
        assert result.exit_code == code
        assert sentence in result.stderr


@pytest.mark.parametrize("release", ["4.9", "9.9", "5.0.1", " 4.30 "])
def test_no_verdict_about_a_release_too_new(dump: Any, release: str, tmp_path: Path) -> None:
    """Nobody knows how a newer line reads a log: `compat` refuses it, reads only warn."""
    path = dump(running())
    assert run("capture", f"lab={path}", str(tmp_path / "archive"), "--once").exit_code == 0
    message = (
        f"release {release} is newer than 4.3.0, the newest known release, so its effects "
        "cannot be predicted: use 0.9.0.0 to 4.3.0, or a line such as 4.3"
    )
    for ends in (("3.9", release), (release, "3.9")):
        result = run("compat", path, "--from", ends[0], "--to", ends[1], "-o", "json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"Error: {message}\n"
        archive = replay.open(str(tmp_path / "archive"))
        with pytest.warns(UserWarning, match="not known"), pytest.raises(UnknownRelease) as refused:
            archive.compat(*ends)
        assert str(refused.value) == message
    read = run("state", str(tmp_path / "archive"), "--release", release)
    assert (read.exit_code, read.stderr) == (
        0,
        f"Warning: release {release} is not known; read as 4.3.0\n",
    )


def test_a_newer_patch_of_the_newest_line_has_a_verdict(dump: Any) -> None:
    """A patch changes little: the newest known patch of its line is used, with a warning."""
    result = run("compat", dump(running()), "--from", "3.9", "--to", "4.3.7", "--cluster", "lab")
    assert result.exit_code == 0
    assert result.stdout.startswith("lab: 3.9.2 to 4.3.0, upgrade: compatible\n")
    assert "Warning: release 4.3.7 is not known; read as 4.3.0" in result.stderr


def test_the_same_release_is_no_change(dump: Any) -> None:
    """The verdict says that the release stays the same."""
    result = run("compat", dump(stopped()), "--from", "3.9", "--to", "3.9.2", "--cluster", "lab")
    assert result.exit_code == 0
    assert result.stdout.startswith("lab: 3.9.2 to 3.9.2, no change of release: compatible\n")


def test_a_patch_release_reports_no_leftover_tasks(dump: Any) -> None:
    """In 3.6.1 and in 3.6.2, a new connector inherits a deleted namesake's tasks: no finding."""
    path = dump(running("gone", tasks=2).gone("gone").config("a").tasks("a", 1))
    result = run("compat", path, "--from", "3.6.1", "--to", "3.6.2", "--cluster", "lab")
    assert result.exit_code == 0
    assert result.stdout.startswith("lab: 3.6.1 to 3.6.2, upgrade: compatible\n")
    back = run("compat", path, "--from", "3.9", "--to", "3.6.2")
    when = "Once compaction has removed the config's tombstone, a starting worker of 3.6.2"
    assert when in back.stdout


def test_the_table_has_reasons_and_plan(dump: Any) -> None:
    """The table has both views, the situation with its records, and the plan."""
    result = run("compat", dump(DISAGREEING), "--from", "3.4", "--to", "3.9", "--mode", "rolling")
    assert "STARTED, 1 task; shown RUNNING" in result.stdout
    assert "STOPPED, 1 task; shown RUNNING, then STOPPED" in result.stdout
    assert "danger: naive-stop (KIP-875): was stopped by a record" in result.stdout
    assert "target state: STARTED → STOPPED [config@3]" in result.stdout
    assert 'a pause by 3.4.1 writes target-state-a {"state":"PAUSED"}' in result.stdout
    assert "PUT /connectors/{c}/stop is answered 404" in result.stdout
    assert "When all workers are changed:\n  controlplane stop a\n" in result.stdout


def test_json_has_the_same_assessment(dump: Any) -> None:
    """JSON has the same content; positions have the form that `--as-of` takes."""
    path = dump(DISAGREEING)
    result = run("compat", path, "--from", "3.4", "--to", "3.9", "-o", "json")
    document = json.loads(result.stdout)
    (step,) = document["rolls"]
    assert (document["verdict"], step["from"], step["to"]) == ("unsafe", "3.4.1", "3.9.2")
    assert step["mode"] == "upgrade"
    (connector,) = step["connectors"]
    assert [view["target"] for view in connector["views"]] == ["STARTED", "STOPPED"]
    (divergence,) = connector["divergences"]
    assert divergence == {
        "fact": "target state",
        "item": "",
        "from": "STARTED",
        "to": "STOPPED",
        "words": "STARTED → STOPPED",
        "record": "config@3",
        "explained_by": "naive-stop",
        "severity": "danger",
    }
    (situation,) = connector["situations"]
    assert (situation["situation"], situation["evidence"]) == (4, ["config@3"])
    assert [step_of_plan["command"] for step_of_plan in step["plan"]] == ["controlplane stop a"]


def test_junit_has_a_case_per_connector(dump: Any) -> None:
    """JUnit has a suite per release change and a case per connector; only compatible ones pass."""
    planted = QUIET.config("b").tasks("b", 1)
    result = run("compat", dump(planted), "--from", "3.4", "--to", "3.9", "-o", "junit")
    (suite,) = ET.fromstring(result.stdout)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failed,) = suite.findall("testcase[failure]")
    assert failed.get("name") == "a"
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("type") == "needs preparation"
    assert "older-tasks (KAFKA-17719)" in (failure.text or "")


def test_an_unreadable_cluster_is_an_error_in_junit(dump: Any, tmp_path: Path) -> None:
    """An unreadable cluster is an error in JUnit, so that CI sees it was not assessed."""
    good, bad = dump(stopped()), tmp_path / "bad.log.jsonl"
    bad.write_text("{", encoding="utf-8")
    words = ("--from", "3.9", "--to", "3.4", "-o", "junit")
    result = run("compat", good, str(bad), *words)
    assert result.exit_code == 2
    well, unread = ET.fromstring(result.stdout)
    assert (well.get("errors"), well.get("tests")) == ("0", "1")
    assert [unread.get(attribute) for attribute in ("tests", "failures", "errors")] == [
        "1",
        "0",
        "1",
    ]
    (error,) = unread.findall("testcase/error")
    assert error.get("type") == "cannot be read"
    assert f": {error.get('message')}\n" in result.stderr


def test_a_change_passes_every_release_line(dump: Any) -> None:
    """`--transitive` splits the change at the release lines between; the worst verdict counts."""
    path = dump(QUIET)
    result = run("compat", path, "--from", "3.4", "--to", "3.9", "--transitive", "-o", "json")
    document = json.loads(result.stdout)
    verdicts = {f"{roll['from']} to {roll['to']}": roll["verdict"] for roll in document["rolls"]}
    assert verdicts["3.5.2 to 3.6.2"] == "compatible"
    assert verdicts["3.6.2 to 3.7.2"] == document["verdict"] == "needs preparation"
    assert result.exit_code == 1
    shown = run("compat", path, "--from", "3.4", "--to", "3.9", "--transitive").stdout
    assert shown.endswith("all steps: needs preparation\n")


def test_untrusted_names_are_shown_as_text(dump: Any) -> None:
    """Names that contain terminal codes or XML markup are shown as text."""
    name = "a\x1b[31m</testcase>"
    planted = Planted().config(name).tasks(name, 1).target(name, {"state": "STOPPED"})
    path = dump(planted)
    assert "\x1b" not in run("compat", path, "--from", "3.4", "--to", "3.9").stdout
    (suite,) = ET.fromstring(
        run("compat", path, "--from", "3.4", "--to", "3.9", "-o", "junit").stdout
    )
    assert [case.get("name") for case in suite] == ["a\\u001b[31m</testcase>"]


def test_secrets_are_hidden(dump: Any) -> None:
    """Secrets in differing values are hidden in every output."""
    planted = running().put(CONFIG, "connector-a", {"properties": {"password": "s3cret"}})
    planted.put(CONFIG, "connector-b", '{"properties":{"password":"s3cret","n":01}}', raw=True)
    path = dump(planted)
    for output in ("table", "json", "junit"):
        result = run("compat", path, "--from", "3.4", "--to", "3.9", "-o", output)
        assert "password" in result.stdout
        assert "s3cret" not in result.stdout


async def served(path: Path) -> None:
    """Write the embedded log of a stopped service."""
    log = await SqliteLog.open(path)
    await log.create_topic(CONFIG, 1)
    await log.put([entry for entry in stopped().entries if entry.topic == CONFIG])
    await log.close()


def test_an_embedded_log_can_be_assessed(tmp_path: Path) -> None:
    """`compat` assesses the embedded log of a stopped service."""
    path = tmp_path / "state.db"
    asyncio.run(served(path))
    result = run("compat", str(path), "--from", "3.9", "--to", "3.4")
    assert result.exit_code == 0, result.output
    assert "PAUSED, 0 tasks" in result.stdout


def test_topics_may_have_other_names(tmp_path: Path) -> None:
    """Other topic names are accepted; one name for two topics is refused."""
    path = tmp_path / "lab.log.jsonl"
    text = lines(stopped().entries).replace("connect-configs", "mine")
    path.write_text(text, encoding="utf-8")
    common = ("compat", str(path), "--from", "3.9", "--to", "3.4", "--config-topic")
    assert "STOPPED, 0 tasks" in run(*common, "mine").stdout
    result = run(*common, "connect-status")
    assert result.exit_code == 2
    assert "cannot be the config topic and the status topic" in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--from", "3.9", "--to", "nine"), "unknown release 'nine'"),
        (("--from", "3.9", "--to", "3.4", "--mode", "upgrade"), "give --mode downgrade"),
        (("--from", "3.9"), "Missing option '--to'"),
    ],
)
def test_bad_input_is_one_sentence(dump: Any, words: tuple[str, ...], sentence: str) -> None:
    """The error names the mistake, with exit code 2 and without a traceback."""
    result = run("compat", dump(stopped()), *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output


def test_a_missing_log_is_refused() -> None:
    """The error names the missing file; no finding is printed."""
    result = run("lint", "nowhere.log.jsonl", "--release", "3.9")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nowhere.log.jsonl" in result.stderr


# --- lint -----------------------------------------------------------------------------------------


def test_findings_that_need_action_set_the_exit_code_of_lint(dump: Any) -> None:
    """Exit code 1: a finding needs action. Exit code 0: no finding does."""
    path = dump(QUIET)
    result = run("lint", path, "--release", "3.9", "--cluster", "lab")
    assert result.exit_code == 1
    assert "loses 1 task: they were committed before its config" in result.stdout
    assert "a: controlplane resume --wait a; controlplane pause a\n" in result.stdout
    assert result.stdout.endswith("lab, compacted and read by a worker of 3.9.2: 1 finding\n")
    well = run("lint", path, "--release", "3.4", "--cluster", "lab")
    assert well.exit_code == 0
    assert well.stdout == "lab, compacted and read by a worker of 3.4.1: no findings\n"


def test_json_of_lint_has_each_finding(dump: Any) -> None:
    """`-o json` has each finding with its evidence."""
    document = json.loads(run("lint", dump(QUIET), "--release", "3.9", "-o", "json").stdout)
    (finding,) = document["findings"]
    assert document["release"] == "3.9.2"
    assert (finding["kind"], finding["severity"], finding["connector"]) == (
        "tasks-lost",
        "danger",
        "a",
    )
    assert finding["evidence"] == ["config@2", "config@4"]


def test_lint_refuses_exactly_once_support_before_3_3(dump: Any) -> None:
    """`--exactly-once` with a release before 3.3 is refused: it has no such support."""
    planted = running().abort().target("a", STOPPED).commit()
    result = run("lint", dump(planted), "--release", "3.2", "--exactly-once")
    assert result.exit_code == 2
    assert "has no exactly-once support" in result.stderr


@pytest.mark.parametrize("name", ["compat", "lint"])
def test_help_lists_compat_and_lint(name: str) -> None:
    """`replay --help` lists the command, and the command has its own help."""
    assert f"  {name} " in run("--help").stdout
    assert run(name, "--help").exit_code == 0
