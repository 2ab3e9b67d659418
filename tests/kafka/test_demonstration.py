"""`make kafka` starts real Kafka and Connect; its printed commands control them."""

import asyncio
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.kafka.demonstration import TO_TRY
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]


async def test_the_printed_commands_work(tmp_path: Path) -> None:
    """The worker stops a source; dry run and history show the same two records."""
    command = (sys.executable, "-u", "-m", "tests.kafka.demonstration", str(tmp_path / "demo"))
    program = await asyncio.create_subprocess_exec(
        *command, "--port", "0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        commands = await _commands(program)
        planned, stopped, past = [await _run(line) for line in commands]
        assert "lines-source would be stopped: 2 records" in planned
        assert stopped == "lines-source: stopped\n"
        assert "STARTED → STOPPED" in past
    finally:
        program.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            assert await program.wait() == 0


async def _commands(program: asyncio.subprocess.Process) -> list[str]:
    """Wait for the printed commands, and return them."""
    assert program.stdout is not None
    printed: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while sum(line.startswith("  controlplane") for line in printed) < len(TO_TRY):
            line = (await program.stdout.readline()).decode()
            assert line, printed
            printed.append(line)
    return [line.strip() for line in printed if line.startswith("  controlplane")]


async def _run(line: str) -> str:
    """Run a command of `controlplane` in a process of its own, and return its output."""
    words = (sys.executable, "-m", *shlex.split(line))
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, line
    return output.decode()
