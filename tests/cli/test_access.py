"""Unreadable folders and files: every command prints one sentence and exits with code 2."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_calls import CommandResult, call, refusal, unprivileged
from tests.replay.cli.replay_calls import call as replay
from tests.replay.cli.replay_calls import refusal as replay_refusal

COMMANDS: dict[str, Callable[[Path, Path], CommandResult]] = {
    "inspect": lambda log, _: call("inspect", log),
    "plan": lambda log, _: call("plan", log, "PUT", "/connectors/x/stop"),
    "import": lambda log, _: call("import", log, log.with_name("new.db")),
    "backup": lambda log, _: call("backup", log, log.with_name("copy.db")),
    "get": lambda log, _: call("get", "-c", f"sqlite:///{log}"),
    "apply": lambda _, files: call("apply", "-f", files, "-c", "memory.db"),
    "diff": lambda _, files: call("diff", "-f", files, "-c", "memory.db"),
    "audit": lambda log, _: replay("audit", log),
    "compat": lambda log, _: replay("compat", log, "--from", "3.4", "--to", "3.9"),
    "lint": lambda log, _: replay("lint", log, "--release", "3.9"),
    "state": lambda _, files: replay("state", files),
    "verify": lambda _, files: replay("verify", files),
}


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Folder that another user may enter."""
    return open_path


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_unreadable_files(
    command: str, mode: int, histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands refuse a log whose folder denies access, listable or not."""
    closed = tmp_path / "closed"
    files = closed / "files"
    files.mkdir(parents=True)
    shutil.copy(histories / "life-3.9.log.jsonl", closed / "dump.jsonl")
    log = closed / "log.db"
    call("import", closed / "dump.jsonl", log)
    call("import", closed / "dump.jsonl", tmp_path / "memory.db")
    (tmp_path / "memory.db").chmod(0o666)
    monkeypatch.chdir(tmp_path)
    run = COMMANDS[command]
    run(log, files)  # the command imports its modules while they can still be read
    tmp_path.chmod(0o777)
    closed.chmod(mode)
    with unprivileged():
        result = run(log, files)
    closed.chmod(0o700)
    sentence = replay_refusal(result) if command in REPLAY else refusal(result)
    assert str(closed) in sentence
    assert sentence.endswith(
        "(Permission denied): check the access rights of the file and its directory"
    )


REPLAY = {"audit", "compat", "lint", "state", "verify"}
