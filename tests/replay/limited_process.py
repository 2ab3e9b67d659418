"""Processes of `replay` with a limit of the system."""

import resource
import subprocess
import sys

from tests.tidy.source import ROOT


def run_limited(
    kind: int, soft: int, hard: int, *arguments: object
) -> "subprocess.CompletedProcess[str]":
    """Run `replay` under a soft and a hard limit; `kind` is one of `resource.RLIMIT_*`."""
    return subprocess.run(
        [sys.executable, "-m", "replay", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(kind, (soft, hard)),
    )
