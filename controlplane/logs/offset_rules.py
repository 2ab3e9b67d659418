"""Rules for topics, partitions, offsets and epochs of writable logs.

The log on Kafka uses those for topics and partitions; brokers assign its offsets and epochs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from controlplane.core.entry import Entry, TopicPartition
from controlplane.core.moments import position_text
from controlplane.core.topic_names import ALLOWED, is_legal
from controlplane.logs.log import OFFSET_LIMIT, Fenced, LogNotUsable

T = TypeVar("T")

PARTITIONS_LIMIT = 10_000
"""Maximum partitions per topic. 25 are usual; a typing error must not fill the memory."""

_TIMESTAMPS = range(-(2**63), 2**63)


def partition_in(partitions: Sequence[T], topic: str, partition: int) -> T:
    """Return the item of a partition. Raises `LogNotUsable` for a number that does not exist."""
    if 0 <= partition < len(partitions):
        return partitions[partition]
    count = len(partitions)
    numbered = f"Topic {topic!r} has {count} partitions, numbered from 0"
    raise LogNotUsable(f"{numbered}: partition {partition} does not exist")


def partition_count(topics: Mapping[str, int], topic: str) -> int:
    """Return the number of partitions of a topic. Raises `LogNotUsable` if it is missing."""
    if topic not in topics:
        raise LogNotUsable(f"Topic {topic!r} does not exist: restart the service, which creates it")
    return topics[topic]


def check_topic(topic: str, wanted: int) -> None:
    """Raise `LogNotUsable` unless the name and the number of partitions are legal."""
    if not is_legal(topic):
        message = f"{topic!r} cannot be the name of a topic"
        raise LogNotUsable(f"{message}: take {ALLOWED}")
    if not 1 <= wanted <= PARTITIONS_LIMIT:
        message = f"Topic {topic!r} cannot have {wanted} partitions"
        raise LogNotUsable(f"{message}: the number must be between 1 and {PARTITIONS_LIMIT}")


def check_partitions(topic: str, wanted: int, existing: int) -> None:
    """Raise `LogNotUsable` for an illegal topic, or one with another number of partitions.

    `existing`: its present number; 0: the topic is new.
    """
    check_topic(topic, wanted)
    if existing not in (0, wanted):
        message = f"Topic {topic!r} exists with {existing} partitions, not with {wanted}"
        raise LogNotUsable(f"{message}: use it as it is, or name another topic")


def check_room(topic: str, partition: int, end: int, count: int) -> None:
    """Raise `LogNotUsable` if `count` more entries would exceed `OFFSET_LIMIT`."""
    if end + count > OFFSET_LIMIT:
        message = f"Partition {partition} of {topic!r} is full: its end offset is {end}"
        raise LogNotUsable(f"{message}, the limit {OFFSET_LIMIT}; begin a new topic")


def check_epoch(epoch: int | None, newest: int) -> None:
    """Raise `Fenced` for an epoch that is not the newest; None is not checked."""
    if epoch is not None and epoch != newest:
        message = f"This writer has epoch {epoch}, the newest is {newest}"
        raise Fenced(f"{message}: another writer has taken over")


def by_place(entries: Iterable[Entry]) -> Mapping[TopicPartition, list[Entry]]:
    """Group entries by partition, in order of offsets and without repetitions.

    Raises `LogNotUsable` for an offset or timestamp out of range. It does so, too, for two
    different entries with the same offset in one partition.
    """
    entries_by_partition: dict[TopicPartition, dict[int, Entry]] = {}
    for entry in entries:
        entries_by_offset = entries_by_partition.setdefault((entry.topic, entry.partition), {})
        if not 0 <= entry.offset < OFFSET_LIMIT:
            raise conflict(entry, f"offsets lie between 0 and {OFFSET_LIMIT - 1}")
        if entry.timestamp not in _TIMESTAMPS:
            raise conflict(entry, f"its timestamp {entry.timestamp} does not fit into 64 bits")
        earlier = entries_by_offset.setdefault(entry.offset, entry)
        if earlier is not entry and earlier != entry:
            raise conflict(entry, "another given entry has the same position")
    return {
        topic_partition: _ascending(entries_by_offset)
        for topic_partition, entries_by_offset in entries_by_partition.items()
    }


def conflict(entry: Entry, reason: str) -> LogNotUsable:
    """Build the error for an entry that cannot be imported."""
    return LogNotUsable(f"The entry {position_text(entry.position)} cannot be imported: {reason}")


OTHER_ENTRY = "another entry lies there, so import into a new log"
GAP = "the log continues after this position and has a gap there, so import into a new log"


def _ascending(entries_by_offset: Mapping[int, Entry]) -> list[Entry]:
    return [entries_by_offset[offset] for offset in sorted(entries_by_offset)]
