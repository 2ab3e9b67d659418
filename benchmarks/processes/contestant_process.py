"""Process of a contestant: it prints one line when it is ready, and one line per input line."""

import subprocess
import sys

import click

from benchmarks.processes.process_memory import family, peak_mb


class ContestantProcess:
    """A Python module in a process of its own; the contestants take turns."""

    def __init__(self, title: str, module: str, *arguments: str) -> None:
        """Start the process, and wait until it is ready; `title` names it in errors."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._title = title
        self._answer()

    def ask(self, line: str) -> str:
        """Send a line; return the answer. Raises `click.ClickException` if the process has died."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self._title} has died")
        return line

    def end(self) -> list[float]:
        """End the process; return its peak memory in MB, then that of each descendant."""
        peaks = [peak_mb(pid) for pid in family(self._process.pid)]
        self._process.communicate()
        return peaks
