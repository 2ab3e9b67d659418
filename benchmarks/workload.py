"""The logs that are measured: offsets alone, and the mix of a fleet."""

import random
from collections.abc import Iterator

from controlplane.core.entry import Batch

OFFSETS, STATUS, CONFIG = "connect-offsets", "connect-status", "connect-configs"
PARTITIONS = {OFFSETS: 25, STATUS: 5, CONFIG: 1}
"""As Connect creates them."""

BATCH_RECORDS = 500
"""What a poll hands over at the most (`max.poll.records`)."""

MIX = {OFFSETS: 0.95, STATUS: 0.04, CONFIG: 0.01}
"""Shares of records of a fleet. A source task commits its offsets each minute, 1,440 times a day;
it reports a status when it starts, stops or fails; a config changes by hand. So these are rather
too few offsets, which are what is folded fastest."""

START_MS = 1_795_000_000_000

Pair = tuple[bytes, bytes]


def offset(chance: random.Random, keys: int) -> Pair:
    """An offset of a source task: 58 bytes of key, 14 of value."""
    table = chance.randrange(keys)
    key = b'["connector-%04d",{"table":"inventory.customers_%07d"}]' % (table % 500, table)
    return key, b'{"pos":%06d}' % chance.randrange(10**5, 10**6)


def status(chance: random.Random, connectors: int) -> Pair:
    """A task reports."""
    state = chance.choice((b"RUNNING", b"RUNNING", b"RUNNING", b"UNASSIGNED", b"FAILED"))
    name, task = chance.randrange(connectors), chance.randrange(8)
    value = b'{"state":"%s","trace":null,"worker_id":"10.0.0.%d:8083","generation":%d}'
    return b"status-task-connector-%04d-%d" % (name, task), value % (state, task, name)


_PROPERTY = b'"property.%02d":"a value of some length, as they are"'


def config(chance: random.Random, connectors: int) -> Pair:
    """A connector config of 15 properties, a target state, or a task set's commit."""
    name = chance.randrange(connectors)
    kind = chance.randrange(10)
    if kind < 4:
        properties = b",".join(_PROPERTY % n for n in range(15))
        return b"connector-connector-%04d" % name, b'{"properties":{%s}}' % properties
    if kind < 8:
        value = b'{"state":"PAUSED","state.v2":"STOPPED"}'
        return b"target-state-connector-%04d" % name, value
    return b"commit-connector-%04d" % name, b'{"tasks":0}'


def only_offsets(records: int, keys: int = 200_000) -> Iterator[Batch]:
    """Offsets in as many partitions as Connect makes."""
    chance = random.Random(1)
    yield from _batches(OFFSETS, [offset(chance, keys) for _ in range(records)])


def mix(records: int, keys: int = 200_000, connectors: int = 500) -> Iterator[Batch]:
    """Offsets, statuses and configs in the shares of `MIX`."""
    chance = random.Random(2)
    makers = ((OFFSETS, offset, keys), (STATUS, status, connectors), (CONFIG, config, connectors))
    for topic, make, size in makers:
        pairs = [make(chance, size) for _ in range(int(records * MIX[topic]))]
        yield from _batches(topic, pairs)


def _batches(topic: str, pairs: list[Pair]) -> Iterator[Batch]:
    """The records of a topic by partition; a key lies in one partition only."""
    parts: list[list[Pair]] = [[] for _ in range(PARTITIONS[topic])]
    for key, value in pairs:
        parts[hash(key) % len(parts)].append((key, value))
    for partition, records in enumerate(parts):
        for first in range(0, len(records), BATCH_RECORDS):
            chunk = records[first : first + BATCH_RECORDS]
            places = list(range(first, first + len(chunk)))
            yield Batch(
                topic,
                partition,
                places,
                [START_MS + place for place in places],
                [key for key, _ in chunk],
                [value for _, value in chunk],
            )
