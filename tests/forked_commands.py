"""Commands of `controlplane` as processes that begin with all imports (`tests/command_server.py`).

Such a process starts in a fifth of the processor time. `make prove` starts each one anew. In
`make test`, the services of the documents start anew.
"""

import asyncio
import atexit
import marshal
import os
import shlex
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from controlplane.cli.main import COMMANDS
from tests.command_server import SOCKET, command_server, limit_files, modules_of, write_clients
from tests.conftest import PROVE
from tests.patience import PATIENCE_S

MOST_PRINTED = 1 << 30
"""Bytes of a process's output that are buffered; the process would hang on a full pipe."""

PROGRAM = "controlplane"


class ForkedProcess:
    """Running command, with the methods of asyncio's processes."""

    def __init__(
        self,
        pid: int,
        end: Awaitable[bytes],
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.pid = pid
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None
        self._end = asyncio.ensure_future(self._ended(end))

    async def _ended(self, end: Awaitable[bytes]) -> int:
        self.returncode = int(await end)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit code."""
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for the end of the process; return the rest of its output."""
        stdout, stderr, _ = await asyncio.gather(
            self.stdout.read(), self.stderr.read(), self.wait()
        )
        return stdout, stderr


CommandProcess = Process | ForkedProcess


async def started(*words: str, cwd: Path, files: int | None = None) -> CommandProcess:
    """Start `controlplane` with pipes for its output. `files`: limit of open files."""
    if PROVE:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, *words),
            cwd=cwd,
            stdout=PIPE,
            stderr=PIPE,
            limit=MOST_PRINTED,
            preexec_fn=lambda: limit_files(files),
        )
    server = _server()
    (out, stdout), (err, stderr) = os.pipe(), os.pipe()
    try:
        connection = _requested(server, words, cwd, files, (0, stdout, stderr))
    finally:
        os.close(stdout)
        os.close(stderr)
    answers, writer = await asyncio.open_connection(sock=connection)
    pid = int(await answers.readline())

    async def end() -> bytes:
        try:
            return await answers.readline()
        finally:
            writer.close()

    return ForkedProcess(pid, end(), await _reader(out), await _reader(err))


async def _reader(descriptor: int) -> asyncio.StreamReader:
    """Reader of a pipe."""
    reader = asyncio.StreamReader(limit=MOST_PRINTED)
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader


def completed(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `controlplane` to its end; return its exit code and output. A hanging one is killed.

    `environment`: additional variables. If Python reads one at its start, the process is no fork.

    Raises:
        TimeoutError, subprocess.TimeoutExpired: the process has not ended within `PATIENCE_S`.
    """
    if PROVE or any(map(_is_read_at_start, environment)):
        command, variables = [sys.executable, "-m", PROGRAM, *words], os.environ | environment
        return subprocess.run(
            command, capture_output=True, cwd=cwd, env=variables, timeout=PATIENCE_S, check=False
        )
    server, variables = _server(), os.environ | environment
    with TemporaryFile() as out, TemporaryFile() as err:
        with (
            _requested(
                server, words, cwd, None, (0, out.fileno(), err.fileno()), variables=variables
            ) as connection,
            connection.makefile() as answers,
        ):
            pid = int(answers.readline())
            connection.settimeout(PATIENCE_S)
            try:
                code = answers.readline()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, int(code), out.read(), err.read())


def command_line(program: str) -> str:
    """Words of `command_words`, quoted for a line of shell."""
    return shlex.join(command_words(program))


def command_words(program: str) -> list[str]:
    """Words that start `controlplane` or `replay` with open standard streams.

    Arguments follow them, in a shell or elsewhere. A signal reaches only the client of the fork.
    """
    if PROVE:
        return [sys.executable, "-m", program]
    return [str(_server() / program)]


def _is_read_at_start(variable: str) -> bool:
    """True for a variable that Python reads only when it starts."""
    return variable.startswith(("PYTHON", "LC_"))


def _requested(
    server: Path,
    words: tuple[str, ...],
    cwd: Path,
    files: int | None,
    streams: tuple[int, int, int],
    *,
    variables: Mapping[str, str] = os.environ,
) -> socket.socket:
    """Send a request to the server; return the connection."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(server / SOCKET))
    request = marshal.dumps(([PROGRAM, *words], str(cwd), dict(variables), files))
    sent = socket.send_fds(connection, [request], [*streams])
    connection.sendall(request[sent:])
    connection.shutdown(socket.SHUT_WR)
    return connection


@cache
def _server() -> Path:
    """Folder of the server, which lives as long as this process of pytest."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(TemporaryDirectory()))
    stack.enter_context(command_server(folder, modules_of(COMMANDS)))
    write_clients(folder)
    return folder
