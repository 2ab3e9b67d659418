"""Endless appends, for tests that kill the process: `python -m tests.logs.appender FILE NAME`.

Every transaction is a record in `config` and one in `offsets` with the same key, `NAME.number`.
The key is printed as soon as the append has returned, so a printed key is durable.
"""

import asyncio
import os
import sys
from itertools import count

from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog

APPENDERS = 8
"""Simultaneous appends, so that transactions are committed in groups."""


async def append_for_ever(log: SqliteLog, name: str, numbers: "count[int]") -> None:
    """Append transactions and print their keys, for ever."""
    for number in numbers:
        key = f"{name}.{number}".encode()
        await log.append([Record("config", 0, 0, key, key), Record("offsets", 0, 0, key, b"{}")])
        os.write(1, key + b"\n")


async def main(path: str, name: str) -> None:
    """Open the log and append until killed."""
    log = await SqliteLog.open(path, create=False)
    numbers = count()
    await asyncio.gather(*(append_for_ever(log, name, numbers) for _ in range(APPENDERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
