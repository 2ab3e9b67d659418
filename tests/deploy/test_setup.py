"""`tools/setup`, the first step of `make run`, shows its progress."""

import os
import signal
import subprocess
from pathlib import Path

from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]

PIP = """#!/usr/bin/env bash
packages=$(dirname "$0")/../lib/python3.11/site-packages
case "$*" in
  *--requirement*)
    for ((number = 0; number < 45; number++)); do echo "Collecting package-$number"; done
    echo "Installing collected packages: package-0, package-1"
    sleep 0.5
    for ((number = 0; number < 45; number++)); do mkdir -p "$packages/p$number-1.dist-info"; done
    sleep 2
    ;;
esac
"""
"""Stands in for the environment's Python: its pip prints what pip prints, and installs folders."""


def test_setting_up_shows_progress(tmp_path: Path) -> None:
    """`tools/setup` counts downloaded and installed packages, and prints where the commands are."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(PIP)
    python.chmod(0o755)
    words = [ROOT / "tools" / "setup", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    begun, *shown, last = done.stdout.splitlines()
    assert begun.startswith("Setting up ")
    steps = [line.split(" of ")[0].split(" (")[0].strip() for line in shown]
    assert steps[:3] == ["20", "40", "Installing them"]
    assert steps[-1] == "Installing controlplane and replay ..."
    installed = [int(count) for count in steps[3:-1]]  # several on a busy machine
    assert installed == sorted(installed)
    assert installed[-1] == 45
    assert all(line.endswith(" installed") for line in shown[3:-1])
    assert last == (
        f'To have controlplane and replay on your PATH: export PATH="{tmp_path / "bin"}:$PATH"'
    )


def test_ctrl_c_prints_no_traceback(tmp_path: Path) -> None:
    """Ctrl-C while the environment is made ends the set-up silently, and with a failure."""
    with subprocess.Popen(
        [ROOT / "tools" / "setup", tmp_path / "venv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        wait_until((tmp_path / "venv" / "pyvenv.cfg").exists, "an environment without pip")
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert printed.startswith("Setting up ")
    assert len(printed.splitlines()) == 1
    assert "Traceback" not in errors
