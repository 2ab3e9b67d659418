"""`kill -9` in mid-stream: no record is lost; under exactly-once none is doubled."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from controlplane.connectors.generator import invented_order
from controlplane.core import views
from controlplane.core.releases.profiles import Profile
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.loader import load
from tests.conftest import PROVE, ROOT, seeded

KILLS = 300 if PROVE else 4
"""Lives of the process; each is killed at a random moment of its first second."""

pytestmark = pytest.mark.slow


def live(log: Path, out: Path, mode: str, seconds: float) -> None:
    """Run the process for a while, and kill it."""
    command = [sys.executable, "-m", "tests.worker.killed_worker", str(log), str(out), mode]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(seconds)
        process.kill()


async def orders_in(path: Path) -> tuple[Counter[tuple[int, int]], dict[int, int]]:
    """Orders in the topic by task and number, and the committed number of each task."""
    log = await SqliteLog.open(path, read_only=True)
    try:
        state = (await load(log, Profile.of("kip"), exactly_once=True)).snapshot()
        committed = {
            int(view.partition["task"]): int(view.offset["order"])
            for view in views.source_offsets(state, "source")
            if view.offset is not None
        }
        orders: Counter[tuple[int, int]] = Counter()
        async for batch in log.read(["orders"]):
            for entry in batch.entries():
                order = json.loads(entry.value or b"")
                orders[task_of(order), order["order"]] += 1
        return orders, committed
    finally:
        await log.close()


def task_of(order: dict[str, object]) -> int:
    """Task that generated an order, derived from the order's contents."""
    number = order["order"]
    assert isinstance(number, int)
    (task,) = [task for task in (0, 1) if invented_order("1", task, number) == order]
    return task


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
async def test_kills(tmp_path: Path, mode: str) -> None:
    """The topic has every order up to the committed one; under exactly-once each one once."""
    log, out = tmp_path / "state.db", tmp_path / "out.txt"
    draw = seeded(f"kills {mode}")
    for _ in range(KILLS):
        live(log, out, mode, draw.uniform(0.1, 1.0))
    orders, committed = await orders_in(log)
    assert sum(committed.values()) > 0
    for task, upto in committed.items():
        missing = [number for number in range(upto) if not orders[task, number]]
        assert missing == []
        numbers = [number for other, number in orders if other == task]
        assert sorted(numbers) == [*range(len(numbers))]
    if mode == "exactly-once":
        assert {*orders.values()} == {1}
        assert len(orders) == sum(committed.values())
    else:
        assert max(orders.values()) <= KILLS
