"""Runs of pytest on a small project, in forks of a process that has imported pytest.

Imports take most of the processor time of such a run.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.mutant_processes import MutantOutcome, MutantProcesses

PRELOADED = ("pytest", "hypothesis", "hypothesis.internal.conjecture.providers")
"""Libraries that each run uses."""


def run_project(
    processes: MutantProcesses, folder: Path, environment: Mapping[str, str], *arguments: str
) -> MutantOutcome:
    """Run pytest in a folder, with these environment variables alone."""
    place = f"{__name__}:run_here"
    return processes.run(None, place, str(folder), dict(environment), arguments)


def run_here(folder: str, environment: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run pytest in this process, which has left this repository; only for a fork."""
    repository = str(Path(__file__).parent.parent)
    sys.path[:] = [folder, *(path for path in sys.path if path not in {"", repository})]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return pytest.main(["-p", "no:cacheprovider", *arguments])
