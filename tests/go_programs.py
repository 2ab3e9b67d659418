"""Programs of Go modules, built once into `.cache/go/`.

The project commits nothing of a module: Go downloads it into its own cache.
"""

import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.jars import locked

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "go"

DOWNLOAD_TIMEOUT_S = 900
"""Limit for the download of one module, without the modules that it needs."""

BUILD_TIMEOUT_S = 7200
"""Limit for a build with all downloads: SeaweedFS has 1,750 packages."""

LAST_CHARACTERS = 500
"""Length of Go's output in an error; its reason comes last."""

NICENESS = 10
"""Niceness of a build, so that tests in other processes are not delayed."""


class GoProgramUnavailable(RuntimeError):
    """Go could not download or build a program; the message has its last words."""


def go_program(package: str, version: str) -> Path:
    """Program in a folder of a module; `github.com/owner/name/folder` names both.

    Raises:
        GoProgramUnavailable: Go could not download the module, or not build it.
    """
    root, _, folder = package.rpartition("/")
    program = CACHE / f"{folder}-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        if not program.exists():
            _build(root, version, folder, program)
    return program


def _build(root: str, version: str, folder: str, program: Path) -> None:
    # `go install` refuses a module with `replace` directives, unless it is the main module.
    with TemporaryDirectory() as elsewhere:
        download = ("go", "mod", "download", "-json", f"{root}@{version}")
        answer = _run(download, Path(elsewhere), DOWNLOAD_TIMEOUT_S)
    sources = Path(json.loads(answer)["Dir"])
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    strip = ("-trimpath", "-ldflags=-s -w")
    build = ("nice", "-n", str(NICENESS), "go", "build", *strip, "-o", str(unfinished))
    _run((*build, f"./{folder}"), sources, BUILD_TIMEOUT_S)
    unfinished.rename(program)


def _run(command: tuple[str, ...], folder: Path, timeout_s: int) -> str:
    """Output of a command of Go, which needs no C compiler."""
    env = {**os.environ, "CGO_ENABLED": "0"}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=env,
            check=True,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        ).stdout
    except subprocess.TimeoutExpired:
        raise GoProgramUnavailable(f"{' '.join(command)} took longer than {timeout_s} s") from None
    except subprocess.CalledProcessError as failure:
        last = " ".join((failure.stderr or failure.stdout).split())[-LAST_CHARACTERS:]
        raise GoProgramUnavailable(f"{' '.join(command)} failed: {last}") from None
