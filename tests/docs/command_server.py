"""Server that runs the commands of documents in copies of one process with their imports.

Imports take half of the processor time of a short command. A command on the PATH is a small client.
It sends its words, folder, environment and streams to the server. The server forks, and the copy
calls the entry point of the command. Commands run one at a time.

A copy ends before Python clears its modules. That would write to all memory that the copy shares
with the server, and take most of the time of a short command.
"""

import atexit
import gc
import marshal
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import controlplane.cli.main
import replay.cli.main
from controlplane.cli.main import COMMANDS
from tests.docs import snippet

SOCKET = "socket"
READY = b"ready\n"
LIBRARIES = ("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet")
"""Libraries that commands import late; the server imports them in advance.

duckdb is left out, because a forked process that has it complains at its end.
"""

CLIENT = f"""#!{sys.executable} -IS
import marshal, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.path.join(os.path.dirname(sys.argv[0]), "{SOCKET}"))
words = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
sent = socket.send_fds(connection, [words], [0, 1, 2])
connection.sendall(words[sent:])
connection.shutdown(socket.SHUT_WR)
sys.exit(int(connection.recv(16)))
"""
"""Client program of every command; its file name is the command's name."""

ENTRY_POINTS: dict[str, Callable[[], None]] = {
    "controlplane": controlplane.cli.main.main,
    "replay": replay.cli.main.main,
    "snippet": lambda: snippet.main(sys.stdin.read()),
}


class ForkRequest(NamedTuple):
    """Command as its client was called."""

    argv: list[str]
    folder: str
    environment: dict[str, str]

    @property
    def name(self) -> str:
        """Name of the command, from the first argument."""
        return Path(self.argv[0]).name


@contextmanager
def command_server(folder: Path) -> Iterator[None]:
    """Run a server within the block; put its clients into the folder, for a PATH."""
    for name in ENTRY_POINTS:
        (folder / name).write_text(CLIENT)
        (folder / name).chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder / SOCKET)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == READY
        yield
        server.communicate()


def main(address: str) -> None:
    """Serve until the end of standard input; in each copy, run the command."""
    places = [entry.place for entry in COMMANDS.values()]
    places += [entry.place for entry in replay.cli.main.COMMANDS.values()]
    for place in (*places, *LIBRARIES):
        import_module(place.partition(":")[0])
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(sys.stdout.fileno(), READY)
        request = _next_request(listening)
    if request is not None:
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        sys.argv = request.argv
        _open_streams()
        try:
            ENTRY_POINTS[request.name]()
        except SystemExit as ended:
            if isinstance(ended.code, int):
                atexit.register(_end_process, ended.code)
            raise


def _end_process(code: int) -> None:
    """Run the other functions of `atexit`; end this process before Python clears its modules."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _open_streams() -> None:
    """Open the standard streams as Python does when it starts."""
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)))
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w", closefd=False)))
    errors = BufferedWriter(FileIO(2, "w", closefd=False))
    sys.stderr = TextIOWrapper(errors, errors="backslashreplace", line_buffering=True)


def _next_request(listening: socket.socket) -> ForkRequest | None:
    """Request of this copy, with its streams in place; None at the end of the server."""
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        connection, _ = listening.accept()
        with connection:
            words, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            while chunk := connection.recv(1 << 16):
                words += chunk
            child = os.fork()
            if not child:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
            for stream in streams:
                os.close(stream)
            if not child:
                return ForkRequest(*marshal.loads(words))
            _, status = os.waitpid(child, 0)
            connection.sendall(b"%d" % (os.waitstatus_to_exitcode(status) % 256))


if __name__ == "__main__":
    main(sys.argv[1])
