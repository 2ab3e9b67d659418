"""Random logs, each from a seed: the same seed gives the same log on every machine."""

from collections.abc import Iterator
from itertools import count

from controlplane.core.entry import Entry
from tests.oracle.case import TOPICS, Case
from tests.oracle.draw import Draw
from tests.oracle.kinds import (
    COMMIT,
    CONFIG_KINDS,
    CONNECTOR,
    OFFSET_KINDS,
    STATUS_KINDS,
    TARGET,
    TASK,
    Kind,
    pair,
)

MOST_RECORDS = 25

Source = tuple[str, tuple[Kind, ...]]
"""A topic, and the kinds of records that are drawn for it."""

CONFIG: Source = (TOPICS.config, CONFIG_KINDS)
TASKS: Source = (TOPICS.config, (CONNECTOR, TASK, TASK, TASK, COMMIT, COMMIT))
TARGETS: Source = (TOPICS.config, (CONNECTOR, TARGET))
STATUS: Source = (TOPICS.status, STATUS_KINDS)
OFFSETS: Source = (TOPICS.offsets, OFFSET_KINDS)

MIXES: tuple[tuple[Source, ...], ...] = (
    *[(CONFIG,)] * 3,
    *[(TASKS,)] * 3,
    (TARGETS,),
    *[(STATUS,)] * 3,
    *[(OFFSETS,)] * 2,
    (CONFIG, STATUS, OFFSETS),
)
"""What a log may consist of; most are of one topic, so that its records meet often."""


def case(seed: str) -> Case:
    """The log of this seed."""
    draw = Draw(seed)
    mix = draw.one_of(MIXES)
    offset, entries = 0, []
    for _ in range(draw.count(MOST_RECORDS)):
        topic, kinds = draw.one_of(mix)
        entries.append(Entry(topic, 0, offset, 0, *pair(draw, draw.one_of(kinds))))
        # Compaction and transaction markers leave gaps.
        offset += 1 + draw.below(3) * draw.below(2)
    if len(mix) == 1 and draw.chance(0.2):
        return Case(tuple(entries), batch=draw.count(8))
    startup = draw.below(len(entries) + 1) if draw.chance(0.5) else 0
    return Case(tuple(entries), startup)


def cases(seed: str) -> Iterator[Case]:
    """Logs without end."""
    return (case(f"{seed}/{number}") for number in count())
