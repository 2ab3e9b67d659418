"""Processes with their children, which one signal ends together."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.tidy.source import ROOT


@contextmanager
def started_group(
    module: str, *words: str, stdout: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[str]"]:
    """Process that runs a module; it is killed afterwards with its children."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        stdout=stdout,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            kill_group(process)


def kill_group(process: "subprocess.Popen[str]") -> None:
    """Kill a process that leads a group, and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
