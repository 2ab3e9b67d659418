"""Calls of the command `replay` in this process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from replay.cli.main import main
from tests.cli.command_calls import CommandResult
from tests.patience import wait_until
from tests.tidy.source import ROOT


def call(*arguments: object, columns: int = 160) -> CommandResult:
    """Run a command in a window of this width; a traceback fails the test."""
    result = CliRunner().invoke(
        main,
        [str(argument) for argument in arguments],
        prog_name="replay",
        env={"COLUMNS": str(columns), "CONTROLPLANE_DEBUG": "1"},
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


@contextmanager
def started(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a command in a process beside the test, and kill it afterwards."""
    words = [sys.executable, "-m", "replay", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=ROOT, text=True, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(path: Path) -> None:
    """Wait until a file exists."""
    wait_until(path.exists, f"{path} written")


def refusal(result: CommandResult) -> str:
    """Error sentence of a command that refused with exit code 2."""
    lines = result.err.strip().splitlines()
    assert (result.code, len(lines)) == (2, 1), result
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


def content(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
