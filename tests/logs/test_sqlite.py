"""The SQLite log keeps the contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from tests.logs.embedded_contract import EmbeddedContract


class TestSqliteLog(EmbeddedContract):
    """The contract of embedded logs, on a SQLite file."""

    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[SqliteLog]:
        """An empty log in a SQLite file."""
        log = await SqliteLog.open(tmp_path / "control.log")
        yield log
        await log.close()


class TestSqliteLogWithTinyLimits(EmbeddedContract):
    """The contract under limits so small that each is reached all the time."""

    @pytest.fixture
    async def log(self, tmp_path: Path) -> AsyncIterator[SqliteLog]:
        """An empty log with the smallest queue, groups and chunks."""
        tiny = SqliteSettings(
            queued_appends=2,
            group_records=3,
            chunk_records=2,
            chunk_bytes=1,
            checkpoint_pages=1,
            wal_limit_bytes=0,
            synchronous="NORMAL",
        )
        log = await SqliteLog.open(tmp_path / "control.log", settings=tiny)
        yield log
        await log.close()
