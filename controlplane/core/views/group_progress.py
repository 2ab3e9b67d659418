"""Progress of sinks: committed offsets of a consumer group beside the ends of its partitions."""

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.core.entry import TopicPartition
from controlplane.core.java.java_library import hash_code, hash_order
from controlplane.core.plan import GroupOffsets


class LogEnd(NamedTuple):
    """End of a partition, or the reason why it is unknown."""

    offset: int | None
    reason: str = ""


_UNKNOWN_END = LogEnd(None, "it was not requested from a cluster")


class PartitionProgress(NamedTuple):
    """Committed offset of a group in one partition, and the end of that partition."""

    topic: str
    partition: int
    committed: int
    end: LogEnd

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end; None: the end is unknown.

        An offset past the end has lag 0: it was altered, or the topic was created again.
        """
        return None if self.end.offset is None else max(0, self.end.offset - self.committed)


class GroupProgress(NamedTuple):
    """Committed offsets of a sink's consumer group, in the order in which a worker lists them."""

    group: str
    partitions: tuple[PartitionProgress, ...]

    @property
    def lag(self) -> int | None:
        """Sum over the partitions whose end is known; None: there are none."""
        lags = [part.lag for part in self.partitions if part.lag is not None]
        return sum(lags) if lags else None


def group_progress(
    group: str, offsets: GroupOffsets, ends: Mapping[TopicPartition, LogEnd]
) -> GroupProgress:
    """Combine committed offsets with the ends of their partitions; `ends` may lack some."""
    partitions = (
        PartitionProgress(topic, partition, offset, ends.get((topic, partition), _UNKNOWN_END))
        for topic, partition, offset in in_worker_order(offsets)
    )
    return GroupProgress(group, tuple(partitions))


def in_worker_order(offsets: GroupOffsets) -> GroupOffsets:
    """Sort offsets as a worker lists them: in the order of a HashMap by `TopicPartition`."""
    # `TopicPartition#hashCode` of each row.
    codes = {row: 31 * (31 + row[1]) + hash_code(row[0]) for row in sorted(offsets)}
    return tuple(hash_order(codes))
