"""Generated archive for benchmarks: a large cluster over months, from a seed.

Nine records in ten are offsets of 200,000 source partitions in 25 partitions, with Zipf-distributed
activity (1.05). 8 % are statuses of 8,000 tasks in 5 partitions, 2 % configs of 1,000 connectors:
committed and uncommitted task sets, deleted and recreated connectors. A record has about 60 bytes
of key and 140 of value; one offset in a thousand is a tombstone. A day has a million records, each
up to 40 ms earlier or later than its position suggests.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.progress import Progress

from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.segments.segment_files import SCHEMA
from replay.archive.stores.store import open_store
from replay.engine.snapshots.daily_snapshots import DAY_MS, daily

SEED = 20_261_122
NAME = "fleet"
START_MS = 1_767_225_600_000
"""Start of the log in ms since 1970: the beginning of 2026."""

RECORDS_PER_DAY = 1_000_000
JITTER_MS = 40
CHUNK_ROWS = 250_000

TOPICS = Topics()
PARTITIONS = {TOPICS.offsets: 25, TOPICS.status: 5, TOPICS.config: 1}
SHARES = {TOPICS.offsets: 0.9, TOPICS.status: 0.08, TOPICS.config: 0.02}

SOURCE_PARTITIONS = 200_000
CONNECTORS = 1_000
TASKS = 8

Numbers = npt.NDArray[np.int64]


def generate(folder: Path, records: int, progress: Progress) -> ArchivedCluster:
    """Generate an archive in a folder, with daily snapshots and winners.

    Winners are copies of the rows of a segment that may still affect a state.
    """
    store = open_store(str(folder))
    appending = Appender(store, NAME, TOPICS)
    bar = progress.add_task(f"{records:,} records", total=records)
    for topic, partitions in PARTITIONS.items():
        per_partition = int(records * SHARES[topic]) // partitions
        for partition in range(partitions):
            chance = np.random.default_rng([SEED, list(PARTITIONS).index(topic), partition])
            segment_writer = appending.segment_writer((topic, partition), 0)
            for rows in _rows(topic, partition, per_partition, records, chance):
                segment_writer.add(rows)
                progress.advance(bar, rows.num_rows)
            segment_writer.write()
            appending.take_over(segment_writer.segments)
            appending.reached(topic, partition, 0, per_partition)
    progress.update(bar, description="snapshots of each day")
    appending.commit(daily)
    return open_cluster(store, NAME)


def _rows(
    topic: str, partition: int, many: int, records: int, chance: np.random.Generator
) -> Iterator[pa.Table]:
    """Records of a partition, spread over the whole time."""
    step_ms = records / RECORDS_PER_DAY * DAY_MS / max(many, 1)
    configs = _configs(many) if topic == TOPICS.config else None
    for first in range(0, many, CHUNK_ROWS):
        places = np.arange(first, min(first + CHUNK_ROWS, many))
        times = (START_MS + places * step_ms).astype(np.int64)
        times += chance.integers(-JITTER_MS, JITTER_MS, len(places))
        if configs is not None:
            pairs = [next(configs) for _ in places]
            keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
        elif topic == TOPICS.offsets:
            keys, values = _offsets(partition, places, chance)
        else:
            keys, values = _statuses(partition, len(places), chance)
        empty = pa.array([[]] * len(places), SCHEMA.field("headers").type)
        aborted = pa.array(np.zeros(len(places), bool))
        yield pa.table([places, times, keys, values, empty, aborted], schema=SCHEMA)


def _offsets(
    partition: int, places: Numbers, chance: np.random.Generator
) -> tuple[pa.Array, pa.Array]:
    key_count = SOURCE_PARTITIONS // PARTITIONS[TOPICS.offsets]
    tables = np.arange(key_count) * PARTITIONS[TOPICS.offsets] + partition
    keys = pa.array(
        [
            b'["connector-%04d",{"table":"inventory.customers_%07d"}]'
            % (number % CONNECTORS, number)
            for number in tables.tolist()
        ],
        pa.binary(),
    )
    values = _texts(
        '{"transaction_id":null,"ts_sec":',
        places // 100 + START_MS // 1_000,
        ',"file":"mysql-bin.',
        places // 10_000,
        '","pos":',
        chance.integers(0, 2**31, len(places)),
        ',"row":1,"server_id":223344,"event":',
        chance.integers(1, 9, len(places)),
        ',"snapshot":false}',
    )
    gone = pa.array(chance.random(len(places)) < 0.001)
    values = pc.if_else(gone, pa.scalar(None, pa.binary()), values)
    return _taken(keys, _zipf(key_count, len(places), chance)), values


def _statuses(partition: int, many: int, chance: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    step = PARTITIONS[TOPICS.status]
    tasks = [
        b"status-task-connector-%04d-%d" % (connector, task)
        for connector in range(partition, CONNECTORS, step)
        for task in range(TASKS)
    ]
    states = pa.array(["RUNNING", "RUNNING", "RUNNING", "UNASSIGNED", "FAILED"])
    values = _texts(
        '{"state":"',
        states.take(pa.array(chance.integers(0, len(states), many))),
        '","trace":null,"worker_id":"10.0.0.',
        chance.integers(1, 9, many),
        ':8083","generation":',
        chance.integers(1, 500, many),
        "}",
    )
    return _taken(pa.array(tasks, pa.binary()), chance.integers(0, len(tasks), many)), values


def _texts(*parts: "str | Numbers | pa.Array") -> pa.Array:
    """Concatenate the texts of each row; the result is binary."""
    columns = [
        pa.scalar(part) if isinstance(part, str) else pc.cast(pa.array(part), pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "").cast(pa.binary())


def _taken(keys: pa.Array, which: Numbers) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), keys).cast(pa.binary())


def _zipf(things: int, many: int, chance: np.random.Generator) -> Numbers:
    """Draw Zipf-distributed numbers below `things`, by inverting the cumulative distribution."""
    shares = np.cumsum(1.0 / np.arange(1, things + 1) ** 1.05)
    numbers: Numbers = np.searchsorted(shares, chance.random(many) * shares[-1])
    return numbers


# --- configs -----------------------------------------------------------------------------------


_PROPERTIES = b",".join(
    b'"property.%02d":"a value of some length, as they are"' % n for n in range(9)
)

KeyAndValue = tuple[bytes, bytes | None]


def _configs(many: int) -> Iterator[KeyAndValue]:
    """Config records of connectors, at least as many as requested."""
    chance = random.Random(SEED)
    pair_count = 0
    while pair_count < many + 2 * TASKS:
        for pair in _event(chance, b"connector-%04d" % chance.randrange(CONNECTORS), pair_count):
            yield pair
            pair_count += 1


def _event(chance: random.Random, name: bytes, version: int) -> Iterator[KeyAndValue]:
    kind = chance.random()
    if kind < 0.05:
        yield b"connector-" + name, None
        yield b"target-state-" + name, None
    elif kind < 0.5:
        state = b"PAUSED" if chance.random() < 0.5 else b"STARTED"
        yield b"target-state-" + name, b'{"state":"%s","state.v2":"%s"}' % (state, state)
    else:
        yield b"connector-" + name, b'{"properties":{"version":"%d",%s}}' % (version, _PROPERTIES)
        tasks = chance.randint(1, TASKS)
        for task in range(tasks):
            value = b'{"properties":{"task.class":"io.example.Task","version":"%d"}}' % version
            yield b"task-%s-%d" % (name, task), value
        if chance.random() < 0.95:  # otherwise the worker died before the commit
            yield b"commit-" + name, b'{"tasks":%d}' % tasks
