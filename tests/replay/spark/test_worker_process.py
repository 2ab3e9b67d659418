"""Processes that run Spark's tasks collect garbage in little time."""

import gc
import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replay.engine.spark.executor import SparkExecutor

pytestmark = [pytest.mark.java]

FEW_OBJECTS = 20_000
"""More objects than a small task has. The modules of `replay` have more than 50,000."""


def collectable(_: int) -> Iterator[tuple[int, int, int]]:
    """Yield this process, and its numbers of frozen objects and of others."""
    yield os.getpid(), gc.get_freeze_count(), len(gc.get_objects())


def test_a_collection_after_a_task_scans_no_modules(spark: SparkSession) -> None:
    """The second task of a process has frozen all modules that the first one imported."""
    executor = SparkExecutor(spark)
    counts = [
        finding
        for _ in range(3)
        for each in executor.run(collectable, range(8))
        for finding in each
    ]
    last = {process: (frozen, others) for process, frozen, others in counts}
    for frozen, others in last.values():
        assert frozen > FEW_OBJECTS
        assert others < FEW_OBJECTS
