"""Embedded logs that change between two captures."""

from pathlib import Path

from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog


async def write_config(path: Path, key: bytes) -> None:
    """Write one more config into an embedded log."""
    log = await SqliteLog.open(path)
    await log.create_topic("connect-configs", 1)
    await log.append([Record("connect-configs", 0, 1, key, b'{"properties":{}}')])
    await log.close()
