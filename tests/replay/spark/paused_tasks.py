"""Daemon of Spark's Python workers: one task pauses at a chosen step, so a test can kill processes.

Spark starts it in each executor in place of its own daemon (`spark.python.daemon.module`). A step
is an operation on files, seen as an audit event of Python, as in `tests.replay.crash_points`. Only
the first task that reaches the step pauses.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pyspark.daemon import manager

from tests.patience import wait_until
from tests.process_states import process_state
from tests.tidy.source import ROOT

VARIABLE = "REPLAY_TEST_PAUSE"
"""Environment variable of executors with the point in JSON; without it nothing pauses."""


class TaskProcesses(NamedTuple):
    """Process ids of a paused task."""

    task: int
    executor: int


class PausePoint(msgspec.Struct, frozen=True):
    """Point before a numbered operation on a file in one task, counted from 0."""

    event: str
    within: str
    """Text that the path of the file contains."""
    folder: str
    """Folder for files about the pause; its path does not contain `within`."""
    number: int = 0

    @property
    def conf(self) -> dict[str, str]:
        """Spark settings with which a task pauses at this point."""
        return {
            "spark.python.daemon.module": __name__,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            f"spark.executorEnv.{VARIABLE}": msgspec.json.encode(self).decode(),
        }

    def reached(self, driver: "subprocess.Popen[str]") -> TaskProcesses:
        """Wait until a task pauses at this point; return its processes."""

        def is_reached() -> bool:
            if self._reached.exists():
                return True
            assert driver.poll() is None, driver.communicate()[1]
            return False

        wait_until(is_reached, f"{self} in a task")
        return msgspec.json.decode(self._reached.read_bytes(), type=TaskProcesses)

    @property
    def _reached(self) -> Path:
        return Path(self.folder) / "reached"

    def pause(self, processes: TaskProcesses) -> None:
        """Pause this process if it is the first at this point."""
        draft = Path(self.folder) / f"draft-{os.getpid()}"
        draft.write_bytes(msgspec.json.encode(processes))
        with suppress(FileExistsError):
            os.link(draft, self._reached)
            signal.pause()


def pause_at(point: PausePoint) -> None:
    """Pause the first of the child processes that comes to a point."""
    executor = os.getppid()
    steps = count()
    is_over = False

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal is_over
        if is_over or event != point.event or point.within not in str(arguments[0]):
            return
        if next(steps) == point.number:
            is_over = True  # `pause` opens files itself; the hook must ignore them
            point.pause(TaskProcesses(os.getpid(), executor))

    sys.addaudithook(look)


def wait_for_end(process: int) -> None:
    """Wait until a process, which may be no child of this one, has ended."""
    wait_until(lambda: _has_ended(process), f"the end of process {process}")


def _has_ended(process: int) -> bool:
    """True if the process does not exist, or is a zombie."""
    try:
        state = process_state(process)
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "XZ"


def killed(process: int) -> None:
    """Kill a process, and wait for its end."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    wait_for_end(process)


if __name__ == "__main__":
    if VARIABLE in os.environ:
        pause_at(msgspec.json.decode(os.environ[VARIABLE], type=PausePoint))
    manager()
