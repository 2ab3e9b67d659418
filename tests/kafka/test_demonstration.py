"""`make kafka` starts real Kafka and Connect; its printed commands control them."""

import asyncio
import shlex
import signal
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.command_calls import shell
from tests.kafka.demonstration import TO_TRY, main
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]


@pytest.mark.prove
async def test_the_printed_commands_work(tmp_path: Path) -> None:
    """The worker stops a source; dry run and history show the same two records."""
    folder = tmp_path / "demo"
    program = await _started(folder, port=0)
    try:
        commands = await _commands(program)
        assert _refusal(folder, port=0) == (
            f"Error: {folder} is in use: `make kafka` runs already. End it with Ctrl-C first.\n"
        )
        assert (folder / "lines.txt").exists()
        planned, stopped, past = [await _run(line) for line in commands]
        assert "lines-source would be stopped: 2 records" in planned
        assert stopped == "lines-source: stopped\n"
        assert "STARTED → STOPPED" in past
    finally:
        program.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            assert await program.wait() == 0


def test_a_used_port_is_refused_before_the_folder_is_emptied(tmp_path: Path) -> None:
    """A port of another program ends the command; files of an earlier run stay."""
    kept = tmp_path / "lines.txt"
    kept.write_text("line 0\n", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert _refusal(tmp_path, port) == (
            f"Error: 127.0.0.1:{port} cannot be used: Address already in use. "
            "Choose another port: make kafka PORT=8084\n"
        )
    assert kept.read_text("utf-8") == "line 0\n"


async def _started(folder: Path, port: int) -> asyncio.subprocess.Process:
    """Start the command with this folder; its output is one stream."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "tests.kafka.demonstration", str(folder)),
        *("--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


def _refusal(folder: Path, port: int) -> str:
    """Output of a command that this process refuses at once; its exit code is 1."""
    result = CliRunner().invoke(main, [str(folder), "--port", str(port)])
    assert result.exit_code == 1, result.output
    return result.output


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
    program, *words = shlex.split(line)
    result = await asyncio.to_thread(shell, *words)
    assert (program, result.code) == ("controlplane", 0), result
    return result.out
