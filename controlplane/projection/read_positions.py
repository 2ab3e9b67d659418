"""Positions up to which a log has been read; callers wait for them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.entry import Position, TopicPartition
from controlplane.core.order import Ends
from controlplane.logs.log import LogError, LogUnavailable

INLINE_POSITIONS = 200
"""Maximum positions that are summed up in the event loop; more are summed up in a thread."""


class ReadPositions:
    """End offsets by topic and partition. Every fold of new entries moves them and wakes waiters.

    `failure` is the reason why the log cannot be read; `fail` sets it and wakes the waiters.
    """

    def __init__(self) -> None:
        self.failure: LogError | None = None
        self._ends: dict[str, list[int]] = {}
        self._changed = asyncio.Event()
        """Set and cleared at once: that releases the tasks that wait now, and no later one."""
        self._moves = 0

    @property
    def ends(self) -> Ends:
        """A copy of the positions."""
        return {topic: tuple(parts) for topic, parts in self._ends.items()}

    def without(self, topics: Iterable[str]) -> set[str]:
        """Return those of the topics that are not read."""
        return {*topics} - self._ends.keys()

    @property
    def moves(self) -> int:
        """Counter that increases with each fold of new entries."""
        return self._moves

    def end(self, topic: str, partition: int) -> int:
        """Return the position in one partition; 0 if it is unknown."""
        parts = self._ends.get(topic, ())
        return parts[partition] if partition < len(parts) else 0

    def exceeds(self, ends: Ends) -> bool:
        """Return True if more of these topics was read than these ends contain."""
        return any(
            any(map(int.__lt__, parts, self._ends.get(topic, ()))) for topic, parts in ends.items()
        )

    def add(self, ends: Ends) -> None:
        """Add every topic and partition that is new, at its beginning."""
        for topic, parts in ends.items():
            positions = self._ends.setdefault(topic, [])
            positions.extend([0] * (len(parts) - len(positions)))

    def replace(self, ends: Ends) -> None:
        """Start over at these positions: the log was replaced."""
        self._ends = {topic: list(parts) for topic, parts in ends.items()}
        self._move()

    def advance(self, ends: Mapping[TopicPartition, int]) -> None:
        """Move partitions forward to these ends."""
        for (topic, partition), end in ends.items():
            parts = self._ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = max(parts[partition], end)
        self._move()

    def fail(self, failure: LogError) -> None:
        """Record why the log cannot be read. Waiters may have to give up."""
        self.failure = failure
        self._wake()

    async def moved(self, moves: int) -> None:
        """Return as soon as `moves` differs from the given number."""
        while self._moves == moves:
            await self._changed.wait()

    async def wait_for_records(self, positions: Sequence[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        few = len(positions) <= INLINE_POSITIONS
        behind = _behind(positions) if few else await asyncio.to_thread(_behind, positions)
        while not self._reach(behind):
            await self._changed.wait()

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
            await self._changed.wait()

    def _reach(self, ends: Mapping[TopicPartition, int]) -> bool:
        return all(self.end(*partition) >= end for partition, end in ends.items())

    def _move(self) -> None:
        self._moves += 1
        self._wake()

    def _wake(self) -> None:
        """Wake every task that waits now; each checks again whether it may go on."""
        self._changed.set()
        self._changed.clear()


def _behind(positions: Iterable[Position]) -> dict[TopicPartition, int]:
    """Return the end after the last of these positions in each partition."""
    ends: dict[TopicPartition, int] = {}
    for topic, partition, offset in positions:
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    return ends
