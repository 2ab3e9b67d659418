"""Limits for waiting, for all tests: processes, brokers, workers, tasks of an event loop.

A test waits for a condition, never for a time. This limit only turns a hang into a failure. It is
far above the needs of the slowest and busiest machine, so that load fails no test.
"""

import time
from collections.abc import Callable

from controlplane.controller.admission import CommandLimits

PATIENCE_S = 120

LOOK_S = 0.05
"""Pause between two checks of a condition without a signal: a file, or another process."""

NEVER_RETRIED = CommandLimits(
    write_patience_ms=1_000 * PATIENCE_S, retry_first_ms=2_000 * PATIENCE_S, retry_last_ms=10
)
"""Limits under which a failed write is never retried: the first pause exceeds the patience.

Reading back a write may take as long as a busy machine needs.
"""


def wait_until(happened: Callable[[], bool], event: str) -> None:
    """Wait for a condition outside of an event loop; the failure names `event`."""
    for _ in range(int(PATIENCE_S / LOOK_S)):
        if happened():
            return
        time.sleep(LOOK_S)
    raise AssertionError(f"{event} has not happened")
