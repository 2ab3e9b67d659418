"""An embedded log whose `close` is cancelled at any step leaves no thread and no open file."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controlplane.logs.sqlite import SqliteLog
from tests.worker.leak_checks import inventory, surplus

STEPS = 5
"""Steps of the event loop, after each of which a close is cancelled."""


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Let the garbage collector close nothing that was left open."""
    gc.disable()
    yield
    gc.enable()


def names(folder: Path) -> list[str]:
    """Names of the files in a folder."""
    return [file.name for file in folder.iterdir()]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("steps", range(1, STEPS))
async def test_a_cancelled_close_closes_the_file(
    tmp_path: Path, steps: int, read_only: bool
) -> None:
    """The caller is cancelled once the file is closed: nobody else could close it."""
    path = tmp_path / "state.db"
    await (await SqliteLog.open(path)).close()
    before = inventory()
    log = await SqliteLog.open(path, read_only=read_only)
    await log.topics()
    closing = asyncio.ensure_future(log.close())
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    with suppress(asyncio.CancelledError):
        await closing
    assert not any(surplus(before)), surplus(before)
    assert names(tmp_path) == ["state.db"]
