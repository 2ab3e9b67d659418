"""Captures that are killed at every step: a process that forks, and children that kill themselves.

A step is whatever a process does to files, as Python's audit events tell it: nothing is patched. So
each child dies a step later than the one before, until one lives to its end.

Usage: python -m tests.replay.dying FOLDER HISTORY
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from controlplane.core.entry import Entry
from replay.archive.segments import Sizes
from tests.recorded import recorded_entries
from tests.replay.archived import capture, log_of

FEW = Sizes(20, 10)
RECORDS = 60

STEPS = frozenset({"open", "os.link", "os.mkdir", "os.remove", "os.rename"})


def die_at(step: int, folder: Path) -> None:
    """Have this process be killed before it does something to files in a folder so many times."""
    steps = count()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in STEPS or str(folder) not in str(arguments[0]):
            return
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def first_of(history: str) -> list[Entry]:
    """The beginning of a history: each step costs a few captures."""
    return recorded_entries(history)[:RECORDS]


def main(folder: Path, history: str) -> None:
    """Archive the first half of a history, then all of it, each time a step later dead."""
    entries = first_of(history)
    half = entries[: len(entries) // 2]
    for step in count():
        into = folder / f"{step:04}"
        capture(into, log_of(half), sizes=FEW)
        child = os.fork()
        if not child:
            die_at(step, into)
            capture(into, log_of(entries), sizes=FEW)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
