"""Costs of a task with very many source partitions grow no faster than their number."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.conftest import PROVE, ROOT, sampled
from tests.worker.many_partitions import PartitionCosts

PARTITIONS = 1_000_000 if PROVE else 10_000
FEWER = PARTITIONS // 10

PARTITION_KIB = 4
"""Memory for each partition: its record, its offset in the task and its offset in the state."""

CPU_GROWTH = 20
"""Limit for the growth of CPU time from `FEWER` to `PARTITIONS`: 10 for work, times 2 for noise."""

pytestmark = pytest.mark.slow


def costs_of(log: Path, count: int, mode: str) -> PartitionCosts:
    """Run a task with this number of partitions in a process of its own."""
    command = [sys.executable, "-m", "tests.worker.many_partitions", str(log), str(count), mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=PartitionCosts)


@pytest.mark.parametrize("mode", sampled(("at-least-once", "exactly-once"), "exactly-once"))
def test_costs_grow_with_the_number_of_partitions(tmp_path: Path, mode: str) -> None:
    """Each partition gets its record and its offset, within the limits of CPU time and memory."""
    few = costs_of(tmp_path / "few.db", FEWER, mode)
    many = costs_of(tmp_path / "many.db", PARTITIONS, mode)
    assert (many.records, many.offsets) == (PARTITIONS, PARTITIONS)
    assert many.cpu_s < CPU_GROWTH * few.cpu_s, (few, many)
    assert many.peak_kib < PARTITION_KIB * PARTITIONS, (few, many)
