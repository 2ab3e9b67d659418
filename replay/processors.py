"""Number of processors that this process may use."""

import os


def usable_processors() -> int:
    """Number of processors that the scheduler may give to this process; at least 1.

    A container or `taskset` may allow a part of the machine's processors. `os.cpu_count` counts
    all. Systems that cannot restrict a process, such as macOS, have no `sched_getaffinity`.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
