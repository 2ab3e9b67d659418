"""Positions up to which a log has been read and folded, and waiting for them."""

from collections.abc import Iterable, Mapping

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.event_loop import sliced
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.logs.wakeup import ChangeCounter

PartitionKey = tuple[str, int]
"""Topic and partition number."""


class ReadPositions:
    """End offsets by topic and partition. Every fold of new entries moves them and wakes waiters.

    `failure` is the reason why the log cannot be read; `fail` sets it and wakes the waiters.
    """

    def __init__(self) -> None:
        self.failure: LogError | None = None
        self._ends: dict[str, list[int]] = {}
        self._changes = ChangeCounter()
        self._moves = 0

    @property
    def ends(self) -> Ends:
        """A copy of the positions."""
        return {topic: tuple(parts) for topic, parts in self._ends.items()}

    @property
    def moves(self) -> int:
        """Counter that increases with each fold of new entries."""
        return self._moves

    def end(self, topic: str, partition: int) -> int:
        """Return the position in one partition; 0 if it is unknown."""
        parts = self._ends.get(topic, ())
        return parts[partition] if partition < len(parts) else 0

    def beyond(self, ends: Ends) -> bool:
        """Return True if more of these topics was read than these ends contain."""
        return any(
            any(map(int.__lt__, parts, self._ends.get(topic, ()))) for topic, parts in ends.items()
        )

    def add(self, ends: Ends) -> None:
        """Add every topic and partition that is new, at its beginning."""
        for topic, parts in ends.items():
            known = self._ends.setdefault(topic, [])
            known.extend([0] * (len(parts) - len(known)))

    def replace(self, ends: Ends) -> None:
        """Start over at these positions: the log was replaced."""
        self._ends = {topic: list(parts) for topic, parts in ends.items()}
        self._move()

    def advance(self, ends: Mapping[PartitionKey, int]) -> None:
        """Move partitions forward to these ends."""
        for (topic, partition), end in ends.items():
            parts = self._ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = max(parts[partition], end)
        self._move()

    def fail(self, failure: LogError) -> None:
        """Record why the log cannot be read. Waiters may have to give up."""
        self.failure = failure
        self._changes.tell()

    async def moved(self, seen: int) -> None:
        """Return as soon as `moves` differs from `seen`."""
        while self._moves == seen:
            await self._changes.beyond(self._changes.count)

    async def passed(self, positions: Iterable[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        behind: dict[PartitionKey, int] = {}
        async for topic, partition, offset in sliced(positions):
            behind[topic, partition] = max(offset + 1, behind.get((topic, partition), 0))
        while not self._reach(behind):
            await self._changes.beyond(self._changes.count)

    async def wait_for(self, ends: Ends) -> None:
        """Return as soon as every record before these ends has been folded.

        Raises:
            LogError: the log cannot be read, for another reason than an outage.
        """
        behind = {
            (topic, number): end
            for topic, parts in ends.items()
            for number, end in enumerate(parts)
        }
        while not self._reach(behind):
            if self.failure is not None and not isinstance(self.failure, LogUnavailable):
                raise self.failure
            await self._changes.beyond(self._changes.count)

    def _reach(self, ends: Mapping[PartitionKey, int]) -> bool:
        return all(self.end(*partition) >= end for partition, end in ends.items())

    def _move(self) -> None:
        self._moves += 1
        self._changes.tell()
