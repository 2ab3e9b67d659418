"""Process without rights that opens a log, takes its lock and prints the error.

python -m tests.logs.unprivileged_process FILE reading|writing

Root ignores access rights, so it becomes `nobody` first.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from controlplane.logs.log import LogError
from controlplane.logs.sqlite import SqliteLog
from tests.jars import ROOT

NOBODY = 65_534


def output_of_unprivileged_process(path: Path, how: str) -> str:
    """Output of an unprivileged process that opens a log and takes its lock."""
    command = [sys.executable, "-m", "tests.logs.unprivileged_process", str(path), how]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


async def main(path: str, how: str) -> None:
    """Try to open the log and to take its lock; a root process does so as `nobody`."""
    if os.geteuid() == 0:
        # Import `asyncio`'s thread pool as root: `nobody` may be unable to read its file.
        await asyncio.to_thread(os.getpid)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        log = await SqliteLog.open(path, read_only=how == "reading")
        try:
            with log.writer_lock():
                pass
        finally:
            await log.close()
    except LogError as error:
        sys.stdout.write(str(error))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
