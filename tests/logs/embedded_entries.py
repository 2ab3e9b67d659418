"""Entries of embedded logs."""

from pathlib import Path

from controlplane.core.entry import Entry
from controlplane.logs.sqlite import SqliteLog
from tests.logs.reading_contract import everything


async def read_all(path: Path) -> list[Entry]:
    """Entries of a file, opened read-only."""
    log = await SqliteLog.open(path, read_only=True)
    try:
        return await everything(log)
    finally:
        await log.close()
