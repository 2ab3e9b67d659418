"""Gaps: offsets that were removed from the captured log before a capture read them."""

from typing import NamedTuple


class OffsetGap(NamedTuple):
    """Missing offsets of one partition. Offsets that Kafka itself skips are not a gap."""

    topic: str
    partition: int
    offsets: range

    @property
    def sentence(self) -> str:
        """The gap as a sentence for people: topic, partition, lost offsets and the cause."""
        first, last = self.offsets[0], self.offsets[-1]
        which = f"offsets {first} to {last}" if first < last else f"offset {first}"
        where = f"{self.topic} partition {self.partition}"
        return f"{where}: {which} had been removed before they were archived"
