"""Positions of copied records: old and new offsets, as runs of consecutive records."""

from collections.abc import Iterable

import msgspec

from controlplane.core.entry import Position, TopicPartition


class PositionRun(msgspec.Struct):
    """Consecutive offsets of a partition that became consecutive offsets of the copy."""

    topic: str
    partition: int
    source: int
    """Offset of the first record in the source."""
    target: int
    """Offset of the first record in the copy."""
    records: int = 1
    """Number of records in the run."""


class PositionRuns:
    """Runs of copied records, by partition."""

    def __init__(self) -> None:
        self._runs: dict[TopicPartition, list[PositionRun]] = {}

    @property
    def all(self) -> list[PositionRun]:
        """All runs, sorted by topic, partition and offset."""
        return [run for _, runs in sorted(self._runs.items()) for run in runs]

    @property
    def records(self) -> int:
        """Number of records in all runs."""
        return sum(run.records for run in self.all)

    def add(self, source: Position, target: int) -> None:
        """Add the next record of a partition; it is at offset `target` of the copy."""
        topic, partition, offset = source
        runs = self._runs.setdefault((topic, partition), [])
        last = runs[-1] if runs else None
        if last is not None and (
            (offset - last.source, target - last.target) == (last.records, last.records)
        ):
            last.records += 1
        else:
            runs.append(PositionRun(topic, partition, offset, target))

    def add_all(self, sources: Iterable[Position], targets: Iterable[Position]) -> None:
        """Add records with their new positions; both in the order of each partition."""
        for source, target in zip(sources, targets, strict=True):
            self.add(source, target.offset)
