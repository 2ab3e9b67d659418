"""Partitions that a sink task pauses (`SinkTaskContext#pause`)."""

from collections.abc import Sequence
from typing import Any

from controlplane.connect import Sink, SinkRecord
from controlplane.connect.sink import KafkaPartition, SinkTaskContext
from controlplane.core.commands import CreateConnector
from controlplane.logs.log import Record
from tests.worker.worker_fixture import config_of, running, until

PAUSED = ("t", 0)

batches: list[list[Any]] = []
"""Values of the records of each `put`."""


class PausingSink(Sink):
    """Sink that pauses a partition in `open`, and resumes it after the first record of another."""

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Pause the first partition."""
        task.pause(*({*partitions} & {PAUSED}))

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values; resume the partition after a record."""
        batches.append([record.value for record in records])
        if records:
            task.resume(PAUSED)


async def test_a_pause_by_open_precedes_all_records() -> None:
    """No record of the partition is put before the task resumes it, as in Kafka."""
    batches.clear()
    async with running(PausingSink) as worker:
        log = worker.plane.log
        await log.create_topic("t", 2)
        await log.append([Record(*PAUSED, 1_000, None, b"paused")])
        await worker.plane.execute(CreateConnector("s", config_of(PausingSink, topics="t")))
        await until(lambda: batches)
        await log.append([Record("t", 1, 1_000, None, b"other")])
        await until(lambda: len([*filter(None, batches)]) == 2)
    assert [*filter(None, batches)] == [["other"], ["paused"]]
