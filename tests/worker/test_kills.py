"""`kill -9` in mid-stream: no record is lost; under exactly-once none is doubled.

Every life of the process continues at the offsets that the lives before it have committed. So a
life repeats at most the records since the last commit.
"""

import json
import multiprocessing
import time
from collections import defaultdict
from pathlib import Path

import pytest

from controlplane.connectors.generator import invented_order
from controlplane.core import views
from controlplane.core.releases.profiles import Profile
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.loader import load
from tests.conftest import PROVE, seeded
from tests.patience import PATIENCE_S
from tests.worker.killed_worker import run_worker

KILLS = 300 if PROVE else 3
"""Lives of the process; each is killed at a random moment of its first second."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.worker.killed_worker"])
"""Forks of a process with the imports of the worker, which take longer than most lives."""

pytestmark = pytest.mark.slow


def live(log: Path, out: Path, mode: str, seconds: float) -> None:
    """Run the process for a while, and kill it."""
    started = FORKS.Event()
    process = FORKS.Process(target=run_worker, args=(str(log), out, mode, started))
    process.start()
    assert started.wait(PATIENCE_S)
    time.sleep(seconds)
    process.kill()
    process.join()


class LifeChecks:
    """Records, file and committed offsets after each life of the process."""

    def __init__(self, log: Path, out: Path, *, exactly_once: bool) -> None:
        self._log = log
        self._out = out
        self._exactly_once = exactly_once
        self.texts: list[str] = []
        """Values in the topic, by offset."""
        self.committed: dict[int, int] = {}
        """Committed number of each task of the source."""
        self.group_offset = 0
        """Committed offset of the sink's group."""
        self._read_characters = 0

    async def check_life(self) -> None:
        """Compare what the last life wrote with the offsets before and after it."""
        log = await SqliteLog.open(self._log, read_only=True)
        try:
            new = await self._new_texts(log)
            state = (await load(log, Profile.of("kip"), exactly_once=True)).snapshot()
            committed = {
                int(view.partition["task"]): int(view.offset["order"])
                for view in views.source_offsets(state, "source")
                if view.offset is not None
            }
            group_offset = await group_offset_in(log)
        finally:
            await log.close()
        self._check_source(new, committed)
        self.texts += new
        self.committed = committed
        self._check_sink(group_offset)
        self.group_offset = group_offset

    async def _new_texts(self, log: SqliteLog) -> list[str]:
        """Values that the life has appended to the topic."""
        if "orders" not in await log.topics():
            return []
        batches = log.read(["orders"], {"orders": [len(self.texts)]})
        entries = [entry async for batch in batches for entry in batch.entries()]
        first = len(self.texts)
        assert [entry.offset for entry in entries] == [*range(first, first + len(entries))]
        return [(entry.value or b"").decode() for entry in entries]

    def _check_source(self, new: list[str], committed: dict[int, int]) -> None:
        """Check that each task continued at its committed number; each committed order exists."""
        numbers: defaultdict[int, list[int]] = defaultdict(list)
        for text in new:
            order = json.loads(text)
            numbers[task_of(order)].append(order["order"])
        for task in (0, 1):
            first = self.committed.get(task, 0)
            behind = first + len(numbers[task])
            assert numbers[task] == [*range(first, behind)]
            if self._exactly_once:
                assert committed.get(task, 0) == behind
            else:
                assert first <= committed.get(task, 0) <= behind

    def _check_sink(self, group_offset: int) -> None:
        """Check that the sink continued at its committed offset; each committed line exists."""
        text = self._out.read_text("utf-8") if self._out.exists() else ""
        *lines, cut = text[self._read_characters :].split("\n")
        self._read_characters = len(text)
        behind = self.group_offset + len(lines)
        assert lines == self.texts[self.group_offset : behind]
        assert not cut or self.texts[behind].startswith(cut)
        assert self.group_offset <= group_offset <= behind


async def group_offset_in(log: SqliteLog) -> int:
    """Committed offset of the sink's group; 0 without one."""
    offset = 0
    if GROUPS_TOPIC in await log.topics():
        async for batch in log.read([GROUPS_TOPIC]):
            for entry in batch.entries():
                assert json.loads(entry.key or b"") == ["connect-sink", "orders", 0]
                offset = json.loads(entry.value or b"")["offset"]
    return offset


def task_of(order: dict[str, object]) -> int:
    """Task that generated an order, derived from the order's contents."""
    number = order["order"]
    assert isinstance(number, int)
    (task,) = [task for task in (0, 1) if invented_order("1", task, number) == order]
    return task


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
async def test_killed_workers_continue_at_committed_offsets(tmp_path: Path, mode: str) -> None:
    """Each life continues at the committed offsets; topic and file have all that is committed."""
    log, out = tmp_path / "state.db", tmp_path / "out.txt"
    checks = LifeChecks(log, out, exactly_once=mode == "exactly-once")
    draw = seeded(f"kills {mode}")
    for _ in range(KILLS):
        live(log, out, mode, draw.uniform(0.1, 1.0))
        await checks.check_life()
    assert sum(checks.committed.values()) > 0
    assert checks.group_offset > 0
