"""Processes of a pool: results that are sent by half, and their use of pyarrow."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from replay.engine.executors import ProcessExecutor, WorkerDied
from tests.patience import PATIENCE_S
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, wait_for

pytestmark = pytest.mark.slow

ANNOUNCED_BYTES = 1_000

LIFE = HISTORIES / "life-3.9.log.jsonl"


def sent_by_half(folder: Path) -> Iterator[str]:
    """Yield a result in the folder `whole`; else send the beginning of one.

    Then wait, or die in the folder `killed`.
    """
    if folder.name == "whole":
        yield "whole"
        return
    wait_for(folder / "go")
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    pipe = frame.f_locals["result_queue"]._writer.fileno()
    os.write(pipe, struct.pack("!i", ANNOUNCED_BYTES) + b"half")
    if folder.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / "sent").touch()
    time.sleep(10 * PATIENCE_S)


def test_a_caller_may_leave_while_a_result_is_sent(tmp_path: Path) -> None:
    """The pool ends its processes, and reads no further bytes of the result."""
    whole, half = tmp_path / "whole", tmp_path / "half"
    half.mkdir()
    results = ProcessExecutor(2).run(sent_by_half, [whole, half])
    assert next(iter(results)) == ["whole"]
    (half / "go").touch()
    wait_for(half / "sent")
    leaving = threading.Thread(target=results.close, daemon=True)  # type: ignore[attr-defined]
    leaving.start()
    leaving.join(PATIENCE_S)
    assert not leaving.is_alive()


def test_a_process_that_dies_while_it_sends_is_named(tmp_path: Path) -> None:
    """The kernel may kill a process for lack of memory while it sends a large result."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    killed.mkdir()
    results = iter(ProcessExecutor(2).run(sent_by_half, [whole, killed]))
    assert next(results) == ["whole"]
    (killed / "go").touch()
    with pytest.raises(WorkerDied, match="most likely for lack of memory"):
        next(results)


def imports_pandas(number: int) -> Iterator[bool]:
    """Let pyarrow look for pandas; yield whether this process has imported it."""
    assert pa.array([number]).to_pylist() == [number]
    yield "pandas" in sys.modules


def test_processes_import_no_pandas() -> None:
    """Work that uses pyarrow does not import pandas, which takes longer than most work."""
    assert [list(answers) for answers in ProcessExecutor(2).run(imports_pandas, [0, 1])] == [
        [False],
        [False],
    ]


UNGUARDED = """
import sys
import replay

replay.open(sys.argv[1], jobs=2).summaries()
"""


def test_a_script_without_a_guard_is_told_what_it_needs(tmp_path: Path) -> None:
    """The processes import the script, which would start processes again: Python ends them."""
    for name in ("life", "twin"):
        assert call("capture", f"{name}={LIFE}", tmp_path / "fleet").code == 0
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    words = (sys.executable, script, tmp_path / "fleet")
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    # Python's resource tracker may print its own lines afterwards.
    assert (
        "a worker process could not start: a script that uses several jobs needs "
        '`if __name__ == "__main__"`'
    ) in ended.stderr
