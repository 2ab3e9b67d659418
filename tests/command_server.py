"""Server that runs commands in copies of one process with their imports.

Imports take most of the processor time of a short command. The server imports the modules of all
commands, and forks for each command. A client sends words, folder, environment and streams. The
copy calls the entry point of the command. The client gets the id of the copy and its exit code.

A copy ends before Python clears its modules. The clean-up would write to all shared memory, and
take most of the time of a short command.
"""

import atexit
import gc
import marshal
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple, NoReturn

from controlplane.terminal.program_group import CommandEntry

SOCKET = "socket"
READY = b"ready\n"

CLIENT = f"""#!{sys.executable} -IS
import marshal, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.path.join(os.path.dirname(sys.argv[0]), "{SOCKET}"))
words = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ), None))
sent = socket.send_fds(connection, [words], [0, 1, 2])
connection.sendall(words[sent:])
connection.shutdown(socket.SHUT_WR)
process, code = connection.makefile()
sys.exit(int(code) % 256)
"""
"""Client program of every command; its file name is the command's name."""

ENTRY_POINTS = {
    "controlplane": "controlplane.__main__",
    "replay": "replay.__main__",
    "snippet": "tests.docs.snippet",
}
"""Modules whose `main` is the entry point of a command."""


class ForkRequest(NamedTuple):
    """Command as its client was called."""

    argv: list[str]
    folder: str
    environment: dict[str, str]
    files: int | None
    """Limit of open files; None: the server's."""

    @property
    def name(self) -> str:
        """Name of the command, from the first argument."""
        return Path(self.argv[0]).name

    @property
    def python_path(self) -> list[str]:
        """Folders of `PYTHONPATH`."""
        return [path for path in self.environment.get("PYTHONPATH", "").split(os.pathsep) if path]


def modules_of(commands: Mapping[str, CommandEntry]) -> list[str]:
    """Modules of a program's commands."""
    return [entry.place.partition(":")[0] for entry in commands.values()]


@contextmanager
def command_server(folder: Path, modules: Iterable[str]) -> Iterator[None]:
    """Run a server within the block, with its socket in the folder.

    `modules`: modules that the server imports in advance.
    """
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder / SOCKET), *modules],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == READY
        yield
        server.communicate()


def write_clients(folder: Path) -> None:
    """Write a client of each command into the folder of a server, for a PATH."""
    for name in ENTRY_POINTS:
        (folder / name).write_text(CLIENT)
        (folder / name).chmod(0o755)


class ForkingServer:
    """Forks a copy per request, and reports the end of each copy to its client."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._clients: dict[int, socket.socket] = {}
        """Connection of the client of each running copy, by process id."""
        self._ends, ended = socket.socketpair()
        ended.setblocking(False)
        self._ended = ended
        self._events = selectors.DefaultSelector()

    def next_request(self) -> ForkRequest | None:
        """Serve; return the request in each copy, and None at the end of standard input."""
        signal.set_wakeup_fd(self._ended.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (self._listening, self._ends, sys.stdin):
            self._events.register(source, selectors.EVENT_READ)
        while True:
            sources = {key.fileobj for key, _ in self._events.select()}
            if self._ends in sources:
                self._ends.recv(1 << 10)
                self._report_ends()
            if self._listening in sources and (request := self._forked()) is not None:
                return request
            if sys.stdin in sources:
                return None

    def _report_ends(self) -> None:
        while self._clients:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                break
            with self._clients.pop(process) as client:
                try:
                    client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                except BrokenPipeError:
                    continue  # the client has not waited

    def _forked(self) -> ForkRequest | None:
        """Fork for the next client; return the request in the copy only."""
        client, _ = self._listening.accept()
        words, streams, _, _ = socket.recv_fds(client, 1 << 16, 3)
        while chunk := client.recv(1 << 16):
            words += chunk
        child = os.fork()
        if child:
            self._clients[child] = client
            client.sendall(b"%d\n" % child)
        else:
            client.close()
            self._release()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        return None if child else ForkRequest(*marshal.loads(words))

    def _release(self) -> None:
        """Undo in a copy what only the server needs."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, the tests ignore it
        self._events.close()
        for connection in (self._listening, self._ends, self._ended, *self._clients.values()):
            connection.close()


def main(address: str, *modules: str) -> None:
    """Serve until the end of standard input; in each copy, run the command."""
    for module in (*modules, *ENTRY_POINTS.values()):
        import_module(module)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        os.write(sys.stdout.fileno(), READY)
        request = ForkingServer(listening).next_request()
    if request is not None:
        _run(request)


def _run(request: ForkRequest) -> NoReturn:
    """Run a command in this copy as a process of its own would."""
    limit_files(request.files)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv, sys.path[0] = request.argv, request.folder
    sys.path[1:1] = [path for path in request.python_path if path not in sys.path]
    _open_streams()
    code = 0
    try:
        import_module(ENTRY_POINTS[request.name]).main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    atexit.register(_end_process, code)
    raise SystemExit(code)


def limit_files(count: int | None) -> None:
    """Set the limit of open files of this process; None keeps it."""
    if count is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def _end_process(code: int) -> None:
    """Run the other functions of `atexit`; end this process before Python clears its modules."""
    atexit.unregister(_end_process)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(code)


def _open_streams() -> None:
    """Open the standard streams as Python does when it starts."""
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)))
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w", closefd=False)))
    errors = BufferedWriter(FileIO(2, "w", closefd=False))
    sys.stderr = TextIOWrapper(errors, errors="backslashreplace", line_buffering=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
