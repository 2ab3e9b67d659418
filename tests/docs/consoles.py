"""What the documents show of a shell, as something that can be run.

A block marked `console` is run, line for line, in one shell for each document, in an empty folder
beside which lie the folders of this repository that documents speak of:

- `$ ` begins a command; it goes on where a line ends in a backslash, or a quote is open.
- What stands below is what it prints. `…` stands for anything, a line of its own for any lines.
  Where nothing stands below, only its exit code is looked at.
- The exit code is 0, or the one that a comment behind the command says: `# exit code 1`.
- `controlplane serve …` runs until the next one, or to the end of the document, on a free port
  that the document calls 8083.

What needs a cluster, or a machine that nobody has, is marked `sh` and is not run.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from shlex import quote
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
BESIDE = ("examples", "scenarios", "tests")
PORT_SHOWN = "8083"
SERVE = "controlplane serve "
MARK = "--- ended with"


class Step(NamedTuple):
    """A command, and what it prints according to the document."""

    command: str
    printed: str

    @property
    def code(self) -> int:
        """How it ends."""
        said = re.search(r"# exit code (\d+)$", self.command)
        return int(said[1]) if said else 0

    def prints(self, output: str) -> bool:
        """Whether that is what the document shows."""
        return not self.printed or pattern(self.printed).fullmatch(output) is not None


def steps(text: str) -> list[Step]:
    """The commands of a document, in order."""
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            ends = range(1, len(lines) + 1)
            end = next(end for end in ends if not is_open("\n".join(lines[:end])))
            found.append(Step("\n".join(lines[:end]), "\n".join(lines[end:]).rstrip()))
    return found


def is_open(command: str) -> bool:
    """Whether a command goes on in the next line."""
    return command.endswith("\\") or command.count("'") % 2 == 1


def pattern(shown: str) -> re.Pattern[str]:
    """What a document shows, with `…` for anything."""
    lines = [
        "(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + "\n"
        for line in shown.splitlines()
    ]
    return re.compile("".join(lines))


class Shell:
    """A shell that is told one command after the other."""

    def __init__(self, folder: Path) -> None:
        for name in BESIDE:
            (folder / name).symlink_to(ROOT / name)
        self._folder = folder
        self._port = _free_port()
        self._bash: subprocess.Popen[str]
        self._service: subprocess.Popen[str] | None = None

    def run(self, step: Step) -> tuple[int, str]:
        """The exit code of a command and all that it printed, as the document would show it."""
        command = step.command.replace(PORT_SHOWN, str(self._port))
        if command.startswith(SERVE):
            ended = 0, self._serve(command, len(step.printed.splitlines()))
        else:
            ended = self._ask(command)
        code, output = ended
        return code, output.replace(str(self._port), PORT_SHOWN)

    def _ask(self, command: str) -> tuple[int, str]:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        marked = f"printf '\\n{MARK} %s\\n' $?"
        self._bash.stdin.write(f"eval {quote(command)} 2>&1 </dev/null; {marked}\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(MARK):
                break
            lines.append(line)
        else:
            raise AssertionError(f"the shell ended: {command}")
        text = "".join(lines).removesuffix("\n")
        return int(line.split()[-1]), text if text.endswith("\n") or not text else text + "\n"

    def _serve(self, command: str, lines: int) -> str:
        """Start a service; answers the first lines that it prints."""
        self._end_service()
        self._service = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=_environment() | {"CONTROLPLANE_LISTENERS": f"http://127.0.0.1:{self._port}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._service.stdout is not None
        return "".join(self._service.stdout.readline() for _ in range(lines))

    def _end_service(self) -> None:
        if self._service is not None:
            self._service.send_signal(signal.SIGTERM)
            self._service.communicate()
            self._service = None

    def __enter__(self) -> Self:
        self._bash = subprocess.Popen(
            ["bash", "--norc", "-o", "pipefail"],
            cwd=self._folder,
            env=_environment() | {"CONTROLPLANE_CLUSTER": f"http://127.0.0.1:{self._port}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._end_service()
        self._bash.communicate()


def _environment() -> dict[str, str]:
    """That of a person: our commands are found, tables have room, and nothing else is told."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONTROL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "COLUMNS": "120"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
