"""Console and Python blocks of the documents, in a form that can be run.

Each document has one shell, in an empty folder with links to the folders that documents name. A
document that calls `make` has links to the other files of a clone, too. A block marked `console` is
run line for line:

- `$ ` begins a command. A backslash at the end of a line, or an open quote, continues it.
- The lines below are its output. `…` stands for any text, on a line of its own for any lines.
  Without lines below, only the exit code is checked.
- The exit code is 0, or the one at the end of a comment behind the command: `# exit code 1`.
- `controlplane serve …`, `controlplane standalone …`, `make run` and `make history` run until the
  next such command or the end of the document. They listen on a free
  port, which the document shows as 8083.

A block marked `python` is a command, too: `snippet`. It may use `await` at its top level. A block
marked `text` right behind it is its output. A block marked `sh` needs a cluster or a special
machine, and is not run.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from threading import Timer
from typing import NamedTuple, Self

from tests.patience import PATIENCE_S
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
BESIDE = ("examples", "scenarios", "tests")
PORT_SHOWN = "8083"
CLONE = ("Makefile", "controlplane", "pyproject.toml", "replay", "requirements.lock", "tools")
"""Further files and folders that a clone has, beside those of `BESIDE`."""

SERVE, STANDALONE = "controlplane serve ", "controlplane standalone "
RUNS = ("make run", "make history")
MARK = "--- ended with"


class ConsoleStep(NamedTuple):
    """Command, and its output according to the document."""

    command: str
    printed: str

    @property
    def code(self) -> int:
        """Exit code that the command's comment names; 0 without a comment."""
        match = re.search(r"#.*\bexit code (\d+)$", self.command)
        return int(match[1]) if match else 0

    def prints(self, output: str) -> bool:
        """True if the document shows this output."""
        return not self.printed or pattern(self.printed).fullmatch(output) is not None


_BLOCK = re.compile(
    r"^```(?P<language>console|python)\n(?P<code>.*?)^```$(?:\s+^```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


def steps(text: str) -> list[ConsoleStep]:
    """Commands of a document, in order."""
    console_steps: list[ConsoleStep] = []
    for block in _BLOCK.finditer(text):
        if block["language"] == "python":
            console_steps.append(
                ConsoleStep(_program(block["code"]), (block["printed"] or "").rstrip())
            )
        else:
            console_steps += _commands(block["code"])
    return console_steps


def _program(code: str) -> str:
    return f"snippet <<'PYTHON'\n{code}PYTHON"


def _commands(block: str) -> Iterator[ConsoleStep]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        ends = range(1, len(lines) + 1)
        end = next(end for end in ends if not is_open("\n".join(lines[:end])))
        yield ConsoleStep("\n".join(lines[:end]), "\n".join(lines[end:]).rstrip())


def is_open(command: str) -> bool:
    """True if a command continues in the next line."""
    return command.endswith("\\") or command.count("'") % 2 == 1


def pattern(shown: str) -> re.Pattern[str]:
    """Pattern of a shown output; `…` stands for any text."""
    lines = [
        "(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.split("…"))) + "\n"
        for line in shown.splitlines()
    ]
    return re.compile("".join(lines))


class Shell:
    """Shell that runs one command after another.

    Its commands come from `commands`, a folder of clients (`command_server`). With None, they are
    not on the PATH. With `clone`, the folder has the files of a clone, and the environment of
    `make setup`.
    """

    def __init__(self, folder: Path, commands: Path | None, *, clone: bool) -> None:
        for name in (*BESIDE, *CLONE) if clone else BESIDE:
            (folder / name).symlink_to(ROOT / name)
        if clone:
            (folder / ".venv").symlink_to(sys.prefix)
        self._environment = _environment(on_path=commands is not None)
        self._commands = "" if commands is None else f"{commands}{os.pathsep}"
        self._folder = folder
        (self._port,) = free_ports(1)
        self._bash: subprocess.Popen[str]
        self._service: subprocess.Popen[str] | None = None

    def run(self, step: ConsoleStep) -> tuple[int, str]:
        """Run a command; return its exit code and its output in the document's form."""
        command = step.command.replace(PORT_SHOWN, str(self._port))
        if command.startswith((SERVE, STANDALONE, *RUNS)):
            code, output = 0, self._serve(command.removesuffix(" &"), step)
        else:
            code, output = self._ask(command)
        return code, self._with_shown_port(output)

    def _with_shown_port(self, output: str) -> str:
        """Replace the port; a longer number with the same digits, such as a time, stays."""
        return re.sub(rf"\b{self._port}\b", PORT_SHOWN, output)

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

    def _serve(self, command: str, step: ConsoleStep) -> str:
        """Start a service; return its output once it is the one of the document."""
        self._end_service()
        _, shown = self._ask('printf "%s" "$PATH"')
        path = {"PATH": shown.strip().removeprefix(self._commands)}
        if command.startswith(RUNS):
            command = command.replace("make", f"make -o .venv/.ready PORT={self._port}", 1)
        listeners = {"CONTROLPLANE_LISTENERS": f"http://127.0.0.1:{self._port}"}
        self._service = service = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment | listeners | path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert service.stdout is not None
        patience = Timer(PATIENCE_S, service.kill)
        patience.start()
        output = ""
        for line in service.stdout:
            output += self._with_shown_port(line)
            if step.prints(output):
                break
        patience.cancel()
        return output

    def _end_service(self) -> None:
        if self._service is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._service.pid, signal.SIGTERM)
            self._service.communicate()
            self._service = None

    def __enter__(self) -> Self:
        cluster = {"CONTROLPLANE_CLUSTER": f"http://127.0.0.1:{self._port}"}
        path = {"PATH": self._commands + self._environment["PATH"]}
        self._bash = subprocess.Popen(
            ["bash", "--norc", "-o", "pipefail"],
            cwd=self._folder,
            env=self._environment | cluster | path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._end_service()
        self._bash.communicate()


def _environment(*, on_path: bool) -> dict[str, str]:
    """Environment of a user: wide tables, our commands on the path or not, no settings.

    Variables of the `make` that runs the tests would reach the `make` of a document.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CONTROL", "MAKE", "MFLAGS")) and name not in {"ARGS", "PORT"}
    }
    ours = str(Path(sys.executable).parent)
    others = [folder for folder in kept["PATH"].split(os.pathsep) if folder != ours]
    path = os.pathsep.join([ours, *others] if on_path else others)
    return kept | {"PATH": path, "COLUMNS": "120"}
