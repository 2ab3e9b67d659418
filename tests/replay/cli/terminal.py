"""Terminal that records its output, and commands that run at it."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from threading import Thread
from typing import NamedTuple

from replay.cli.main import main
from tests.patience import LOOK_S, PATIENCE_S
from tests.tidy.source import ROOT

ENVIRONMENT = {"TERM": "xterm", "COLUMNS": "120"}


class Terminal:
    """Terminal whose thread reads all the time, so that writers never block."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._shown = b""
        self._looking = Thread(target=self._look)
        self._looking.start()

    def _look(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:  # Linux: no process has the other end open
                return
            self._shown += piece

    @property
    def screen_text(self) -> str:
        """All output so far."""
        return self._shown.decode("utf-8", "replace")

    def close(self) -> None:
        """Stop reading once the last writer has closed the terminal."""
        self._looking.join(PATIENCE_S)
        assert not self._looking.is_alive(), "a process still has the terminal open"
        os.close(self._ours)


class TerminalResult(NamedTuple):
    """Output of a command on its terminal and on standard output, and its exit code."""

    terminal: str
    out: str
    code: int


def at_a_terminal(*arguments: object) -> TerminalResult:
    """Run a command in this process with a terminal as standard error."""
    terminal, out, code = Terminal(), io.StringIO(), 0
    with os.fdopen(terminal.theirs, "w") as err, redirect_stderr(err), redirect_stdout(out):
        try:
            main([str(argument) for argument in arguments], prog_name="replay")
        except SystemExit as end:
            code = int(end.code or 0)
    terminal.close()
    return TerminalResult(terminal.screen_text, out.getvalue(), code)


class Running(NamedTuple):
    """Command that runs at a terminal of its own."""

    process: "subprocess.Popen[str]"
    terminal: Terminal

    def wait_for(self, pattern: str) -> None:
        """Wait until the terminal shows a text that fits."""
        for _ in range(int(PATIENCE_S / LOOK_S)):
            if re.search(pattern, self.terminal.screen_text):
                return
            assert self.process.poll() is None, self.terminal.screen_text
            time.sleep(LOOK_S)
        raise AssertionError(f"{pattern!r} is not shown, but {self.terminal.screen_text!r}")

    def interrupted(self) -> TerminalResult:
        """Press Ctrl-C, which all processes of the command receive; wait until they have ended."""
        os.killpg(self.process.pid, signal.SIGINT)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        self.terminal.close()
        return TerminalResult(self.terminal.screen_text, out, self.process.returncode)


@contextmanager
def running(*arguments: object) -> Iterator[Running]:
    """Start a command in a process with a terminal as standard error; end it with the test."""
    terminal = Terminal()
    words = [sys.executable, "-m", "replay", *map(str, arguments)]
    try:
        started = subprocess.Popen(
            words,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=terminal.theirs,
            text=True,
            process_group=0,
        )
    finally:
        # The thread of the terminal ends with the last writer, also if the command did not start.
        os.close(terminal.theirs)
    with started as process:
        try:
            yield Running(process, terminal)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
