"""Garbage collection in a process of `replay`."""

import gc
from pathlib import Path

from tests.replay.cli.replay_calls import call


def test_a_replay_collects_rarely(tmp_path: Path) -> None:
    """States have many objects and no cycles, so each command sets larger thresholds."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        call("verify", tmp_path)
        assert gc.get_threshold() == (10_000, 10, 100)
    finally:
        gc.set_threshold(*before)
