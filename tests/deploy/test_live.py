"""`make run` (`tools/live`) and `make history` check their variables before anything else."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).parents[2]

CONTROLPLANE = """#!/usr/bin/env bash
case "$*" in *"--release foo"*) echo "Error: unknown release" >&2; exit 2;; esac
"""
"""Command that refuses the release `foo`."""

REMEDY = "choose a port with PORT=, such as make run PORT=9083\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Folder with the script, and a `controlplane` that does nothing but refuse one release."""
    command = tmp_path / ".venv" / "bin" / "controlplane"
    command.parent.mkdir(parents=True)
    command.write_text(CONTROLPLANE)
    command.chmod(0o755)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "live", tmp_path / "tools" / "live")
    return tmp_path


def run(
    clone: Path, port: str, *arguments: str, release: str = "kip"
) -> subprocess.CompletedProcess[str]:
    """Run the script in the folder."""
    words = [str(clone / "tools" / "live"), port, release, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("port", ["abc", "", "0", "-1", "65536", "123456", "80 83"])
def test_a_bad_port_is_refused(clone: Path, port: str) -> None:
    """The refusal is one sentence; nothing is created."""
    done = run(clone, port)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: '{port}' is no port from 1 to 65535: {REMEDY}"
    assert not (clone / ".cache").exists()


def test_a_taken_port_is_refused(clone: Path) -> None:
    """The script prints no instructions for a port of another program, and some for a free one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(clone, str(port))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"Error: port {port} is in use: {REMEDY}"
        elsewhere = run(clone, str(port), "--host", "::1")
        assert elsewhere.returncode == 0, elsewhere.stderr
    done = run(clone, str(port))
    assert done.returncode == 0, done.stderr
    assert f"CONTROLPLANE_CLUSTER=http://127.0.0.1:{port}\n" in done.stdout


def test_a_bad_release_is_refused(clone: Path) -> None:
    """The error of `controlplane` is all that the script prints; nothing is created."""
    done = run(clone, str(free_ports(1)[0]), release="foo")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "Error: unknown release\n")
    assert not (clone / ".cache").exists()


def test_make_history_refuses_a_bad_release_first(clone: Path) -> None:
    """`make history` imports nothing if the release is unknown."""
    ready = clone / ".venv" / ".ready"
    ready.touch()
    words = [
        "make",
        "--no-print-directory",
        f"BIN={clone}/.venv/bin",
        f"READY={ready}",
        f"DEMO={clone}/.cache/x.db",
    ]
    done = subprocess.run(
        [*words, "history", "RELEASE=foo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: unknown release\n")
    assert not (clone / ".cache").exists()


def test_the_instructions_are_those_of_the_readme(clone: Path) -> None:
    """The README has each line that the script prints between the export and `get connectors`."""
    lines = run(clone, str(free_ports(1)[0])).stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if "echo three" in line)
    last = next(at for at, line in enumerate(lines) if "get connectors" in line)
    shown = (ROOT / "README.md").read_text("utf-8").splitlines()
    instructions = [f"$ {line.strip()}" for line in lines[first:last]]
    assert len(instructions) == 7
    assert [line for line in shown if line in instructions] == instructions
