"""Process with one task that yields very many source partitions. It prints what they cost.

python -m tests.worker.many_partitions LOG COUNT exactly-once|at-least-once
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from controlplane.core import views
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.entry import TopicPartition
from controlplane.logs.sqlite import SqliteLog
from tests.worker.test_long_lists import LongList, worker_of_list
from tests.worker.worker_fixture import config_of, until_state


class PartitionCosts(msgspec.Struct, frozen=True):
    """Costs of a run, and the number of records and offsets that it has left."""

    seconds: float
    cpu_s: float
    peak_kib: int
    records: int
    offsets: int


async def measure(path: Path, count: int, *, exactly_once: bool) -> PartitionCosts:
    """Run the source until each partition has its offset, and stop it."""
    log = await SqliteLog.open(path)
    async with worker_of_list(exactly_once=exactly_once, log=log) as worker:
        started_s, cpu_s, first_kib = time.monotonic(), time.process_time(), _peak_kib()
        config = config_of(LongList, count=str(count))
        await worker.plane.execute(CreateConnector("long", config))
        topic = worker.plane.state.topics.offsets
        while _end(worker.plane.state.ends, topic) < count:  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(0.05)
        await worker.plane.execute(StopConnector("long"))
        await until_state(worker, "long", "STOPPED")
        seconds, cpu_s = time.monotonic() - started_s, time.process_time() - cpu_s
        peak_kib = _peak_kib() - first_kib
        offsets = len(views.source_offsets(worker.plane.state, "long"))
    records = sum((await log.ends(["long"]))["long"])
    await log.close()
    return PartitionCosts(seconds, cpu_s, peak_kib, records, offsets)


def _end(ends: Mapping[TopicPartition, int], topic: str) -> int:
    return sum(end for (name, _), end in ends.items() if name == topic)


def _peak_kib() -> int:
    """Largest resident memory so far. `getrusage` would count that of the parent process, too."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    measured = measure(
        Path(sys.argv[1]), int(sys.argv[2]), exactly_once=sys.argv[3] == "exactly-once"
    )
    sys.stdout.write(msgspec.json.encode(asyncio.run(measured)).decode())
