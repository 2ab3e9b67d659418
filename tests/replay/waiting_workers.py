"""Processes of a pool that print a line each, and then wait for longer than a test does."""

import sys
import time
from collections.abc import Iterator

from replay.engine.executors import ProcessExecutor
from tests.patience import PATIENCE_S

WORKERS = 2


def wait(_item: int) -> Iterator[None]:
    """Print a line, and wait."""
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    time.sleep(10 * PATIENCE_S)
    yield None


if __name__ == "__main__":
    for _ in ProcessExecutor(WORKERS).run(wait, range(WORKERS)):
        pass
