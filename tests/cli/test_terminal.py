"""Colours and progress bars appear on a terminal, and nowhere else."""

import asyncio
import os
import pty
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.terminal.progress_bar import WORTH_A_BAR_RECORDS
from tests.cli.command_calls import ROOT, call, shell
from tests.forked_commands import command_words


class TerminalOutput(NamedTuple):
    """Output of a command on the terminal and elsewhere."""

    terminal: str
    elsewhere: str


def at_a_terminal(stream: str, *arguments: object) -> TerminalOutput:
    """Run a command whose standard output or error is a terminal."""
    ours, theirs = pty.openpty()
    words = [*command_words("controlplane"), *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    out, err = (theirs if stream == name else subprocess.PIPE for name in ("stdout", "stderr"))
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=err) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            shown += piece
        elsewhere = b"".join(pipe.read() for pipe in (process.stdout, process.stderr) if pipe)
    os.close(ours)
    return TerminalOutput(shown.decode(), elsewhere.decode())


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embedded log with the least number of records that gets a progress bar."""
    path = tmp_path_factory.mktemp("large") / "log.db"

    async def fill() -> None:
        log = await SqliteLog.open(path)
        for topic in ("connect-configs", "connect-offsets", "connect-status"):
            await log.create_topic(topic, 1)
        records = [
            Record("connect-offsets", 0, 1, b'["c",{"f":%d}]' % (n % 100), b'{"at":1}')
            for n in range(WORTH_A_BAR_RECORDS)
        ]
        await log.append(records)
        await log.close()

    asyncio.run(fill())
    return path


@pytest.mark.slow
def test_a_bar_appears_while_much_is_read(large: Path) -> None:
    """The bar is on standard error, if that is a terminal; standard output has the answer."""
    output = at_a_terminal("stderr", "inspect", large, "-o", "json")
    assert f"reading {large}"[:20] in output.terminal
    assert output.elsewhere == call("inspect", large, "-o", "json").out


def test_a_pipe_gets_no_bar(large: Path) -> None:
    """A pipe gets the answer only."""
    assert shell("inspect", large).err == ""


def test_only_a_terminal_gets_colours(histories: Path) -> None:
    """A table has colours on a terminal only."""
    log = histories / "odd-records-3.9.log.jsonl"
    assert "\x1b[" in at_a_terminal("stdout", "inspect", log).terminal
    assert "\x1b[" not in shell("inspect", log).out
