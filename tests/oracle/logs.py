"""Random logs, each from a seed: the same seed gives the same log on every machine.

`kinds` draws keys and values. This module draws the topic, partition and transaction of each
record. The timestamps count the records. So Kafka's stores get the records in the one order between
partitions (`core/order`).
"""

from collections.abc import Iterator
from itertools import count

import msgspec

from controlplane.core.entry import Entry
from tests.oracle.case import OWN, TOPICS, Case
from tests.oracle.draw import Draw
from tests.oracle.kinds import (
    COMMIT,
    CONFIG_KINDS,
    CONNECTOR,
    OFFSET_KINDS,
    STATUS_KINDS,
    TARGET,
    TASK,
    RecordKind,
    pair,
)

MOST_RECORDS = 25
MOST_OF_LONG = 200
"""Greatest number of records in a long log. Few logs are long."""

TopicKinds = tuple[str, tuple[RecordKind, ...]]
"""A topic, and the kinds of records that are drawn for it."""

CONFIG: TopicKinds = (TOPICS.config, CONFIG_KINDS)
TASKS: TopicKinds = (TOPICS.config, (CONNECTOR, TASK, TASK, TASK, COMMIT, COMMIT))
TARGETS: TopicKinds = (TOPICS.config, (CONNECTOR, TARGET))
STATUS: TopicKinds = (TOPICS.status, STATUS_KINDS)
OFFSETS: TopicKinds = (TOPICS.offsets, OFFSET_KINDS)

MIXES: tuple[tuple[TopicKinds, ...], ...] = (
    *[(CONFIG,)] * 3,
    *[(TASKS,)] * 3,
    (TARGETS,),
    *[(STATUS,)] * 3,
    *[(OFFSETS,)] * 2,
    (CONFIG, STATUS, OFFSETS),
)
"""Topics of a random log. Most logs have one topic, so that records meet often."""


def case(seed: str) -> Case:
    """Draw the log of a seed."""
    draw = Draw(seed)
    mix = draw.one_of(MIXES)
    offset = 0
    entries: list[Entry] = []
    for _ in range(draw.count(MOST_OF_LONG if draw.chance(0.03) else MOST_RECORDS)):
        topic, kinds = draw.one_of(mix)
        entry = Entry(topic, 0, offset, 0, *pair(draw, draw.one_of(kinds)))
        entries.append(_again(draw, entries, entry) if draw.chance(0.1) else entry)
        # Compaction and transaction markers leave gaps.
        offset += 1 + draw.below(3) * draw.below(2)
    batched = len(mix) == 1 and draw.chance(0.3)
    batch = tuple(draw.count(8) for _ in range(draw.count(4))) if batched else ()
    startup = draw.below(len(entries) + 1) if draw.chance(0.5) else 0
    placing = Draw(f"{seed}/placing")
    placed = _placed(placing, entries, batched=bool(batch))
    return Case(placed, startup, batch, exactly_once=placing.chance(0.5))


def _again(draw: Draw, earlier: list[Entry], entry: Entry) -> Entry:
    """Repeat an earlier record in place of this one, or write a tombstone of its key."""
    if not earlier:
        return entry
    previous = draw.one_of(earlier)
    value = previous.value if draw.chance(0.5) else None
    return msgspec.structs.replace(previous, offset=entry.offset, value=value)


def _placed(draw: Draw, entries: list[Entry], *, batched: bool) -> tuple[Entry, ...]:
    """Move some records: to other partitions, to aborted transactions, to an own offsets topic.

    A batch still consists of records of one partition.
    """
    partitions = 1 if batched else draw.one_of((1, 1, 3))
    moved = 0.0 if batched else draw.one_of((0.0, 0.0, 0.5))
    aborted = draw.one_of((0.0, 0.0, 0.2))
    placed = []
    for number, entry in enumerate(entries):
        topic = OWN if entry.topic == TOPICS.offsets and draw.chance(moved) else entry.topic
        place = {
            "topic": topic,
            # The config topic has one partition.
            "partition": 0 if topic == TOPICS.config else draw.below(partitions),
            "timestamp": number,
            "aborted": draw.chance(aborted),
        }
        placed.append(msgspec.structs.replace(entry, **place))
    return tuple(placed)


def cases(seed: str) -> Iterator[Case]:
    """Yield logs without end, each with its own seed."""
    return (case(f"{seed}/{number}") for number in count())
