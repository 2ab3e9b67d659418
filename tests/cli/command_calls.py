"""Runs of the command line, in this process or as a process of its own."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from controlplane.cli.main import main
from controlplane.core.entry import Entry
from controlplane.logs.log_factory import partitions_of
from controlplane.logs.sqlite import SqliteLog
from tests.forked_commands import completed

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65_534
"""User id of the unprivileged user `nobody` on Linux."""


class CommandResult(NamedTuple):
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on standard output."""
        return json.loads(self.out)


def call(
    *arguments: object,
    columns: int = 120,
    typed: str | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> CommandResult:
    """Run a command in this process with this input; a traceback fails the test."""
    words = [str(argument) for argument in arguments]
    usual = {"COLUMNS": str(columns), "CONTROLPLANE_DEBUG": "1"}
    result = CliRunner().invoke(main, words, input=typed, env={**usual, **(environment or {})})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


def shell(*arguments: object, **environment: str) -> CommandResult:
    """Run a command as a process of its own with these additional variables."""
    done = completed(*map(str, arguments), cwd=ROOT, **environment)
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def refusal(result: CommandResult) -> str:
    """Error sentence of a refused command: no standard output, exit code 2."""
    lines = result.err.strip().splitlines()
    assert (result.code, result.out, len(lines)) == (2, "", 1), result
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


def embedded(path: Path, entries: Sequence[Entry]) -> Path:
    """Embedded log with these entries."""

    async def fill() -> None:
        log = await SqliteLog.open(path)
        for topic, partitions in partitions_of(list(entries)).items():
            await log.create_topic(topic, partitions)
        await log.put(entries)
        await log.close()

    asyncio.run(fill())
    return path


def topics(path: Path) -> Mapping[str, int]:
    """Topics of an embedded log."""

    async def read() -> Mapping[str, int]:
        log = await SqliteLog.open(path, create=False, read_only=True)
        try:
            return await log.topics()
        finally:
            await log.close()

    return asyncio.run(read())


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop root's rights within the block, because root may read everything.

    If the tests run as another user, nothing changes.
    """
    me = os.geteuid()
    if me == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(me)
