"""The README's screen is run as it stands there, in a shell, by a real service."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.patience import PATIENCE_S

README = Path(__file__).parent.parent / "README.md"
HEADING = "## A control plane on one screen"
LEFT_OUT = "…"
TERM = {"COLUMNS": "200", "LC_ALL": "C.UTF-8"}


def screen() -> str:
    """The console block behind the heading."""
    found = re.search(rf"{HEADING}\n\n```console\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command with what it is said to print."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        length = 1
        while subprocess.run(
            ["bash", "-n", "-c", "\n".join(lines[:length])], capture_output=True, check=False
        ).returncode:
            length += 1
        yield "\n".join(lines[:length]), "\n".join(lines[length:])


def pattern(printed: str) -> str:
    """What is printed, with anything where something is left out."""
    spaced = re.escape(printed.strip()).replace(re.escape(LEFT_OUT), ".*?")
    return re.sub(r"(?:\\ )+", r"\\s+", spaced)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_the_screen_is_true(tmp_path: Path) -> None:
    """Every command prints what the README says; times are left out there."""
    assert shutil.which("curl")
    port = str(free_port())
    address = f"http://127.0.0.1:{port}"
    script = ["set -u", f"export CONTROLPLANE_CLUSTER={address}"]
    block = screen().replace("serve ", f"serve --port {port} ").replace("8083", port)
    told = [*commands(block)]
    assert len(told) > 7
    for number, (command, _) in enumerate(told):
        if command.endswith("&"):
            script += [f"{command[:-1]} > out-{number} 2>&1 &", _ANSWERS.format(address)]
        else:
            script += [f"{{ {command}\n}} > out-{number} 2>&1"]
    script += ["kill %1", "wait"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **TERM, "PATH": path}
    subprocess.run(
        ["bash", "-m", "-c", "\n".join(script)],
        cwd=tmp_path,
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )
    for number, (command, printed) in enumerate(told):
        given = (tmp_path / f"out-{number}").read_text("utf-8")
        assert re.match(pattern(printed), given.strip(), re.DOTALL), (command, given)


_ANSWERS = "for _ in $(seq 100); do curl -sf {}/ > /dev/null && break; sleep 0.1; done"
