"""Number of processors that this process may use."""

import os
from contextlib import suppress
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
"""Limit of a container (cgroup 2): microseconds of processor time per period, then the period. The
first word is `max` without a limit. Outside of containers, there is no such file."""


def usable_processors() -> int:
    """Number of processors that this process may use; at least 1.

    `taskset` and containers may allow a part of the machine's processors, or a part of their time.
    `os.cpu_count` counts all. Systems that cannot restrict a process, such as macOS, have no
    `sched_getaffinity`.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        time, period = map(int, CPU_MAX.read_text().split())
        allowed = min(allowed, -(-time // period))
    return max(1, allowed)
