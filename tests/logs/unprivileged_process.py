"""Process without rights that opens a log and prints the error.

python -m tests.logs.unprivileged_process FILE reading|writing

Root ignores access rights, so it becomes `nobody` first.
"""

import asyncio
import os
import sys

from controlplane.logs.log import LogUnavailable
from controlplane.logs.sqlite import SqliteLog

NOBODY = 65_534


async def main(path: str, how: str) -> None:
    """Try to open the log; a root process does so as `nobody`."""
    if os.geteuid() == 0:
        # Import `asyncio`'s thread pool as root: `nobody` may be unable to read its file.
        await asyncio.to_thread(os.getpid)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        await SqliteLog.open(path, read_only=how == "reading")
    except LogUnavailable as error:
        sys.stdout.write(str(error))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
