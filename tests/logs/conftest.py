"""Default of the fixture `log`: an embedded log in its own file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.logs.sqlite import SqliteLog
from tests.logs.contract import make_topics


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the log of a test."""
    return tmp_path / "control.log"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SqliteLog]:
    """A log with the topics of the sample."""
    log = await SqliteLog.open(path)
    await make_topics(log)
    yield log
    await log.close()
