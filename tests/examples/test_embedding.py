"""The embedding example runs unchanged."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> list[str]:
    """Run an example; return its output lines."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.splitlines()


def test_the_program_prints_the_documented_output(tmp_path: Path) -> None:
    """The example prints the output in its comments; a second run repeats its key's outcome."""
    where = str(tmp_path / "state.db")
    first = run("embedding.py", where)
    assert "lines target state STARTED → STOPPED" in first
    assert "now Target.STOPPED and at first Target.STARTED" in first
    assert any(line.endswith(": target state: STARTED → STOPPED") for line in first)
    assert "delete would write 2 records, in 1 step" in first
    assert "config  config-0  connector-lines     ∅" in first
    assert any(line.startswith("refused: Unknown connector nobody") for line in first)
    again = run("embedding.py", where)
    assert not any(line.startswith("lines config") for line in again)
