"""Offsets that a source had lost before they were archived: what was there, nobody can tell."""

from typing import NamedTuple


class Gap(NamedTuple):
    """Offsets of one partition that are missing. What Kafka leaves out by itself is no gap."""

    topic: str
    partition: int
    offsets: range

    @property
    def sentence(self) -> str:
        """What is missing, as a sentence."""
        first, last = self.offsets[0], self.offsets[-1]
        which = f"offsets {first} to {last}" if first < last else f"offset {first}"
        where = f"{self.topic} partition {self.partition}"
        return f"{where}: {which} had been removed before they were archived"
