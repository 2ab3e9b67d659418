"""A missing log is created only by commands that create connectors."""

import json
from pathlib import Path

import pytest

from tests.cli.command_calls import call, refusal

CHANGES = (
    "stop orders",
    "pause orders",
    "resume orders",
    "restart orders",
    "restart task orders/0",
    "delete orders --yes",
    "delete offsets orders --yes",
    "undo orders --to config@0 --yes",
    "patch orders -s topic=lines",
    "patch offsets orders --source-partition {} --source-offset {}",
    "patch logger root INFO",
    "offsets alter orders --source-partition {} --source-offset {}",
    "offsets edit orders",
    "offsets reset orders --yes",
    "topics reset orders",
)
NEW = '{"name": "new", "config": {"connector.class": "FileStreamSource", "topic": "lines"}}'
"""A connector for `apply -f -`."""

READS = (
    "get",
    "get offsets orders",
    "describe orders",
    "diff orders --from config@0",
    "offsets orders",
    "topics orders",
    "plugins",
    "history orders",
    "commands",
    "watch",
    "bundle export orders",
)


@pytest.mark.parametrize("where", ["nope.db", "./nope.db", "sqlite:///nope.db"])
@pytest.mark.parametrize("words", [*CHANGES, *READS])
def test_a_misspelt_log_is_not_made(
    words: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the missing log, and no file appears."""
    monkeypatch.chdir(tmp_path)
    assert refusal(call(*words.split(), "-c", where)) == "nope.db does not exist: check the path"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("words", [*CHANGES, "apply -f -"])
def test_a_dump_is_not_changed(words: str, histories: Path) -> None:
    """The sentence says how to preview the change, and how to make a log that can be changed."""
    dump = histories / "life-3.9.log.jsonl"
    before = dump.read_bytes()
    assert refusal(call(*words.split(), "-c", dump, typed=NEW)) == (
        f"{dump} is no embedded log, so commands cannot change it. Preview the change with "
        "--dry-run, or copy its records into an embedded log with `controlplane import`"
    )
    assert dump.read_bytes() == before


BUNDLE = """{"bundle": 1, "connectors": [{"name": "a", "target_state": "STOPPED",
    "config": {"connector.class": "FileStreamSource", "file": "a.txt", "topic": "a"}}]}"""
CONFIG = "name=a\nconnector.class=FileStreamSource\nfile=a.txt\ntopic=a\n"


@pytest.mark.parametrize("words", ["apply -f a.properties", "bundle import a.json"])
def test_a_dry_run_makes_no_log(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run plans on an empty log, and writes nothing: not even an empty log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.properties").write_text(CONFIG, "ascii")
    (tmp_path / "a.json").write_text(BUNDLE, "ascii")
    result = call(*words.split(), "-c", "sqlite:///new.db", "--dry-run")
    assert (result.code, "would be created" in result.out) == (0, True), result
    assert result.err == "new.db does not exist: the plan is for a new log\n"
    assert not (tmp_path / "new.db").exists()
    result = call(*words.split(), "-c", "sqlite:///no/new.db", "--dry-run")
    assert refusal(result) == "no/new.db cannot be created: there is no directory no"


@pytest.mark.parametrize("words", ["apply -f nowhere.json", "bundle import nowhere.json"])
def test_a_file_that_cannot_be_read_makes_no_log(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read before the log is made."""
    monkeypatch.chdir(tmp_path)
    assert "nowhere.json cannot be read" in refusal(call(*words.split(), "-c", "new.db"))
    assert not [*tmp_path.iterdir()]


def test_apply_makes_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`apply` creates the log, with or without a scheme before its path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.properties").write_text(CONFIG, "ascii")
    for where in ("one.db", "sqlite:///other.db"):
        result = call("apply", "-f", "a.properties", "-c", where)
        assert (result.code, result.out) == (0, "a: created\n")
    assert (tmp_path / "other.db").is_file()


INVALID = "name=b\nconnector.class=FileStreamSource\n"
"""Connector whose config lacks the topic."""


def test_a_refused_apply_leaves_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an accepted connector, neither the new log nor a file of SQLite's stays."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.properties").write_text(INVALID, "ascii")
    result = call("apply", "-f", "b.properties", "-c", "new.db")
    assert (result.code, 'configuration "topic"' in result.err) == (3, True), result
    assert [path.name for path in tmp_path.iterdir()] == ["b.properties"]


def test_one_accepted_connector_keeps_a_new_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log with an accepted connector stays, and so does an older log after a refusal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.properties").write_text(CONFIG, "ascii")
    (tmp_path / "b.properties").write_text(INVALID, "ascii")
    call("apply", "-f", "a.properties", "-f", "b.properties", "-c", "new.db")
    assert call("apply", "-f", "b.properties", "-c", "new.db").code == 3
    assert list(json.loads(call("get", "-o", "json", "-c", "new.db").out)) == ["a"]
