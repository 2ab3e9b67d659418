"""One process of the command line writes an embedded log; a crash holds nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.cli.failing import Refused
from controlplane.cli.holding import holding

HOLDING = """
import sys, time
from controlplane.cli.holding import holding
with holding(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused(tmp_path: Path) -> None:
    """It is told who has it; when that one is killed, the log is free."""
    where = f"sqlite:///{tmp_path / 'state.db'}"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, where], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        told = f"process {other.pid} is the control plane of"
        with pytest.raises(Refused, match=told), holding(where):
            pass
        other.kill()
    with holding(where):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_the_companion_is_not_followed(tmp_path: Path) -> None:
    """It could lead to somebody's file, which would be overwritten with a number."""
    (tmp_path / "victim").write_text("victim")
    (tmp_path / "state.db-writer").symlink_to("victim")
    with (
        pytest.raises(Refused, match=r"state\.db-writer is a symbolic link"),
        holding(str(tmp_path / "state.db")),
    ):
        pass
    assert (tmp_path / "victim").read_text() == "victim"


def test_what_cannot_be_held_is_left_alone(tmp_path: Path) -> None:
    """A cluster, a folder that is not there: whoever opens it says what is wrong."""
    for where in ("kafka://localhost:1", str(tmp_path / "none" / "state.db")):
        with holding(where):
            pass
