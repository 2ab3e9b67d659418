"""Processes that are killed at a chosen step of their work on an archive.

A step is an operation on files, seen as an audit event of Python: nothing is patched. An archive
writes a new file as a draft. Then it links the draft to the file's own name, and removes the draft.

Usage: python -m tests.replay.crash_points EVENTS WITHIN NUMBER IS_LINKED MODULE [WORD...]
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.patience import PATIENCE_S
from tests.replay.process_groups import started_group

STEPS = frozenset({"open", "os.link", "os.mkdir", "os.remove", "os.rename"})

LOOK_S = 0.005
"""Pause between checks: short enough to kill a capture before a manifest names its last file."""

ArchiveAction = Callable[[Path], object]
"""Action on an archive in a folder."""


class CrashPoint(NamedTuple):
    """Point before an operation on a file, such as a link or a removal."""

    events: frozenset[str]
    within: str
    """Text that the path of the file contains."""
    number: int
    """Number of such operations that come before the point."""
    is_linked: bool = False
    """True: count only drafts that the process itself has linked, and no abandoned ones."""


def before_manifest(number: int) -> CrashPoint:
    """Point before the process links file `number` (from 0) in `_manifest`.

    A capture links only manifests there. A merge also links other files.
    """
    return CrashPoint(frozenset({"os.link"}), "/_manifest/", number)


def behind_manifest(number: int) -> CrashPoint:
    """Point after file `number` (from 0) in `_manifest` is linked, before its draft is removed."""
    return CrashPoint(frozenset({"os.remove"}), "/_manifest/", number, is_linked=True)


def die_at(moment: CrashPoint) -> None:
    """Kill this process at a crash point, with its children."""
    steps = count()
    linked: set[str] = set()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in STEPS or moment.within not in (path := str(arguments[0])):
            return
        counts = event in moment.events and (path in linked or not moment.is_linked)
        if event == "os.link":
            linked.add(path)
        if counts and next(steps) == moment.number:
            os.killpg(0, signal.SIGKILL)

    sys.addaudithook(look)


def at_every_step(folder: Path, first: ArchiveAction, then: ArchiveAction, every: int = 1) -> None:
    """Run two actions in a new folder each time; kill the second one a step later each time.

    Ends when the second action survives. `every`: distance between the steps.
    """
    for step in count(step=every):
        into = folder / f"{step:04}"
        first(into)
        child = os.fork()
        if not child:
            os.setsid()
            die_at(CrashPoint(STEPS, str(into), step))
            then(into)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended != -signal.SIGKILL:
            assert ended == 0
            return


def killed_at(moment: CrashPoint, module: str, *words: str) -> None:
    """Run a module that is killed at a crash point; fail if it ends earlier."""
    point_words = (
        ",".join(moment.events),
        moment.within,
        str(moment.number),
        str(int(moment.is_linked)),
    )
    with started_group(__name__, *point_words, module, *words) as process:
        _, complaint = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == -signal.SIGKILL, complaint


def killed_when(is_reached: Callable[[], bool], module: str, *words: str) -> None:
    """Run a module and kill it as soon as a condition holds."""
    with started_group(module, *words) as process:
        for _ in range(int(PATIENCE_S / LOOK_S)):
            if is_reached():
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
                raise AssertionError(process.communicate()[1])
    assert process.returncode == -signal.SIGKILL
    assert is_reached()


def main(events: str, within: str, number: str, is_linked: str, module: str, *words: str) -> None:
    """Run a module with its arguments until it is killed."""
    names = frozenset(events.split(","))
    die_at(CrashPoint(names, within, int(number), is_linked=bool(int(is_linked))))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
