"""Processes of a pool that do not import the program's main module."""

import io
import os
from multiprocessing import current_process, reduction, resource_tracker, spawn, util
from multiprocessing.context import SpawnContext, SpawnProcess, set_spawning_popen
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.process import BaseProcess
from typing import Any

_MAIN = ("init_main_from_name", "init_main_from_path")
"""Members of the preparation that let a new process import the main module."""


class _MainlessPopen(Popen):
    """Starts a process as `Popen` does, but the process does not import the main module."""

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        """Copy of `Popen._launch`, whose preparation lacks the main module."""
        tracker: Any = resource_tracker.getfd()
        preparation = spawn.get_preparation_data(process_obj.name)
        content = io.BytesIO()
        set_spawning_popen(self)
        try:
            kept = {key: value for key, value in preparation.items() if key not in _MAIN}
            reduction.dump(kept, content)
            reduction.dump(process_obj, content)
        finally:
            set_spawning_popen(None)
        self.sentinel, child_end = os.pipe()
        child_input, parent_output = os.pipe()
        kept_ends = self.sentinel, parent_output
        self.finalizer = util.Finalize(self, _close, kept_ends)
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=child_input)
            passed = [*self._fds, tracker, child_input, child_end]
            executable = os.fsencode(spawn.get_executable())
            self.pid = util.spawnv_passfds(executable, command, passed)
        finally:
            _close(child_input, child_end)
        with open(parent_output, "wb", closefd=False) as to_child:
            to_child.write(content.getbuffer())


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _MainlessProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802 - the name in multiprocessing
        return _MainlessPopen(process_obj)


class MainlessContext(SpawnContext):
    """Context of processes that do not import the main module of the program.

    A script of a user may lack `if __name__ == "__main__"`. With Python's own context, each process
    would run that script again. Work must not come from the main module.
    """

    Process = _MainlessProcess


def may_start_processes() -> bool:
    """True if `multiprocessing` lets this process have children.

    A daemonic process, such as a worker of `multiprocessing.Pool`, may have none. A process that
    still imports its main module may have none yet.
    """
    process = current_process()
    return not process.daemon and not getattr(process, "_inheriting", False)
