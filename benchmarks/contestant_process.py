"""Process of a contestant: it prints a line when it is ready, and one for each line it is sent."""

import subprocess
import sys

import click

from benchmarks.process_memory import family, peak_mb


class ContestantProcess:
    """A module of Python that runs beside others and takes its turns."""

    def __init__(self, title: str, module: str, *arguments: str) -> None:
        """Start it, and wait until it is ready; `title` names it in errors."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._title = title
        self._answer()

    def ask(self, line: str) -> str:
        """Send a line, and return the answer. Raises `click.ClickException` if it has died."""
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
        """End it; return the peak memory in MB of the process, then those of its descendants."""
        peaks = [peak_mb(pid) for pid in family(self._process.pid)]
        self._process.communicate()
        return peaks
