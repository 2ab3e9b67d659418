"""Calling `replay` in this process."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from replay.cli.main import main


class Said(NamedTuple):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on standard output."""
        return json.loads(self.out)


def call(*arguments: object) -> Said:
    """Run a command. A traceback fails the test."""
    result = CliRunner().invoke(main, [str(one) for one in arguments], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def refusal(said: Said) -> str:
    """The one sentence of a command that refused, with exit code 2."""
    lines = said.err.strip().splitlines()
    assert (said.code, len(lines)) == (2, 1), said
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


def content(folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
