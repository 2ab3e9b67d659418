"""A process of `controlplane serve`, and its output at the start."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.forked_commands import CommandProcess, started

ROOT = Path(__file__).parent.parent.parent
HISTORIES = ROOT / "tests" / "histories"
LIFE = str(HISTORIES / "life-3.9.log.jsonl")
CURLS = 3
"""Number of curl lines, which are printed last."""


class RunningService(NamedTuple):
    """Running service and its output at the start."""

    process: CommandProcess
    lines: Sequence[str]

    @property
    def url(self) -> str:
        """URL that the service prints in its first line."""
        return self.lines[0].rpartition(" on ")[2]

    async def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int | None, str]:
        """Send the signal; return the exit code and standard error."""
        self.process.send_signal(how)
        _, stderr = await self.process.communicate()
        return self.process.returncode, stderr.decode()


@asynccontextmanager
async def running(
    *arguments: str, port: tuple[str, ...] = ("--port", "0"), files: int | None = None
) -> AsyncIterator[RunningService]:
    """Run `controlplane serve` until it answers, by default on a free port.

    `files`: limit of open files.
    """
    process = await started("serve", *port, *arguments, cwd=ROOT, files=files)
    assert process.stdout is not None
    try:
        lines: list[str] = []
        async for line in process.stdout:
            lines.append(line.decode().rstrip("\n"))
            if sum(printed.startswith("  curl") for printed in lines) == CURLS:
                break
        yield RunningService(process, lines)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
