"""Generated logs for benchmarks: offsets alone, and the mix of a fleet."""

import random
from collections.abc import Callable, Iterator

from controlplane.core.entry import Batch, ColumnBatch

OFFSETS, STATUS, CONFIG = "connect-offsets", "connect-status", "connect-configs"
PARTITIONS = {OFFSETS: 25, STATUS: 5, CONFIG: 1}
"""Partitions of each topic, as Connect creates them."""

BATCH_RECORDS = 500
"""Greatest number of records per poll (`max.poll.records`)."""

MIX = {OFFSETS: 0.95, STATUS: 0.04, CONFIG: 0.01}
"""Shares of records in a fleet. A source task commits its offsets every minute; statuses change at
starts, stops and failures; configs change by hand. Real fleets have an even greater share of
offsets, which fold fastest."""

START_MS = 1_795_000_000_000

FILE_SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "t",
    "file": "f",
}
"""Config of a connector that a request creates."""

RecordPair = tuple[bytes, bytes]
RecordMaker = Callable[[random.Random, int], RecordPair]
"""Makes a record about the n-th source partition, task or connector."""


def offset(chance: random.Random, table: int) -> RecordPair:
    """Offset of a source task: 58 bytes of key, 14 of value."""
    key = b'["connector-%04d",{"table":"inventory.customers_%07d"}]' % (table % 500, table)
    return key, b'{"pos":%06d}' % chance.randrange(10**5, 10**6)


def status(chance: random.Random, task: int) -> RecordPair:
    """Status of a task: RUNNING, UNASSIGNED or FAILED."""
    state = chance.choice((b"RUNNING", b"RUNNING", b"RUNNING", b"UNASSIGNED", b"FAILED"))
    value = b'{"state":"%s","trace":null,"worker_id":"10.0.0.%d:8083","generation":%d}'
    key = b"status-task-connector-%04d-%d" % (task // 8, task % 8)
    return key, value % (state, task % 8, chance.randrange(500))


_PROPERTY = b'"property.%02d":"a value of some length, as they are"'


def config(chance: random.Random, name: int) -> RecordPair:
    """Config of a connector with 15 properties, a target state, or a task commit."""
    kind = chance.randrange(10)
    if kind < 4:
        properties = b",".join(_PROPERTY % n for n in range(15))
        return b"connector-connector-%04d" % name, b'{"properties":{%s}}' % properties
    if kind < 8:
        value = b'{"state":"PAUSED","state.v2":"STOPPED"}'
        return b"target-state-connector-%04d" % name, value
    return b"commit-connector-%04d" % name, b'{"tasks":0}'


def only_offsets(records: int, keys: int = 200_000) -> Iterator[Batch]:
    """Offsets in as many partitions as Connect creates."""
    yield from _batches(OFFSETS, offset, records, keys)


def mix(records: int, keys: int = 200_000, connectors: int = 500) -> Iterator[Batch]:
    """Offsets, statuses and configs in the shares of `MIX`."""
    things = (
        (OFFSETS, offset, keys),
        (STATUS, status, connectors * 8),
        (CONFIG, config, connectors),
    )
    for topic, make, many in things:
        yield from _batches(topic, make, int(records * MIX[topic]), many)


def _batches(topic: str, make: RecordMaker, records: int, things: int) -> Iterator[Batch]:
    """Records of a topic, partition by partition, in batches of a poll.

    A key lies in one partition only. The bytes of each batch are adjacent in memory, as in a
    fetched batch.
    """
    chance, parts = random.Random(topic), PARTITIONS[topic]
    for partition in range(parts):
        for first in range(0, records // parts, BATCH_RECORDS):
            places = list(range(first, min(first + BATCH_RECORDS, records // parts)))
            numbers = [chance.randrange(things // parts) * parts + partition for _ in places]
            pairs = [make(chance, number) for number in numbers]
            yield ColumnBatch(
                topic,
                partition,
                places,
                [START_MS + place for place in places],
                [key for key, _ in pairs],
                [value for _, value in pairs],
            )
