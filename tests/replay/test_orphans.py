"""Worker processes end with the command that has started them."""

import select
import subprocess

import pytest

from tests.patience import PATIENCE_S
from tests.replay.process_groups import started_group
from tests.replay.waiting_workers import WORKERS

pytestmark = pytest.mark.slow


def test_worker_processes_end_after_a_kill_of_the_command() -> None:
    """After a kill of the command, no process holds its output: its workers have ended, too."""
    with started_group("tests.replay.waiting_workers", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(WORKERS):
            assert process.stdout.readline() == "begun\n"
        process.kill()
        assert select.select([process.stdout], [], [], PATIENCE_S)[0]
        assert process.stdout.read() == ""
