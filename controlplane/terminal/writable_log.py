"""An embedded log that a command opens for writing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from controlplane.logs.cluster_topics import missing_for_writer
from controlplane.logs.names import path_of
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.logs.sqlite.writer_lock import LogHeld
from controlplane.settings.prefixes import SQLITE
from controlplane.terminal.log_options import NAMING, LogOptions


class WritableLog(NamedTuple):
    """An open log, and a sentence about each topic that it lacks."""

    log: SqliteLog
    missing: tuple[str, ...]


@asynccontextmanager
async def open_writable(
    where: str, reading: LogOptions, instead: str
) -> AsyncIterator[WritableLog]:
    """Open an embedded log for writing within the block; create it if it is missing.

    `instead` says what to do while another process is the log's control plane.

    Raises:
        LogError: it cannot be opened, or has records and lacks a topic that it must have.
    """
    limits = reading.configuration.settings(SqliteSettings, SQLITE)
    log = await SqliteLog.open(path_of(where), settings=limits)
    try:
        missing = await missing_for_writer(log, reading.topics, named=reading.named, naming=NAMING)
        yield WritableLog(log, missing)
    except LogHeld as held:
        raise LogHeld(held.path, held.process, instead) from None
    finally:
        await log.close()
