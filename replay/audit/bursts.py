"""Bursts and episodes: events that are too frequent, and events of many keys with one cause."""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import msgspec

from controlplane.core.entry import Position
from replay.audit.context import EVIDENCE_KEPT
from replay.audit.decoded_log import DecodedRecord

K = TypeVar("K", bound=Hashable)


class Burst(msgspec.Struct):
    """Events of one key that make one finding: number, time span and a few positions."""

    last: DecodedRecord
    first_ms: int
    count: int = 0
    evidence: list[Position] = []

    def add(self, decoded: DecodedRecord) -> None:
        """Count an event, and keep its position if there are few."""
        self.last = decoded
        self.count += 1
        if len(self.evidence) < EVIDENCE_KEPT:
            self.evidence.append(decoded.position)

    @property
    def lasted_ms(self) -> int:
        """Time from the first to the last event."""
        return self.last.time_ms - self.first_ms


def _burst(events: list[DecodedRecord]) -> Burst:
    burst = Burst(events[0], events[0].time_ms)
    for decoded in events:
        burst.add(decoded)
    return burst


class Bursts(Generic[K]):
    """Bursts by key: a number of events within a window. Events without a time are ignored."""

    def __init__(self, least: int, window_ms: int) -> None:
        self._least = least
        self._window_ms = window_ms
        self._recent: dict[K, deque[DecodedRecord]] = {}
        self._open: dict[K, Burst] = {}

    def add(self, key: K, decoded: DecodedRecord) -> Burst | None:
        """Add an event; return the burst that ended before it."""
        decoded = decoded.without_states
        if decoded.entry.timestamp < 0:
            return None
        recent = self._recent.setdefault(key, deque(maxlen=self._least))
        while recent and decoded.time_ms - recent[0].time_ms > self._window_ms:
            recent.popleft()
        recent.append(decoded)
        if len(recent) < self._least:
            return self._open.pop(key, None)
        if key in self._open:
            self._open[key].add(decoded)
        else:
            self._open[key] = _burst(list(recent))
        return None

    def end(self) -> Iterator[tuple[K, Burst]]:
        """Bursts that last until the end of the log."""
        yield from self._open.items()


class Episodes(Generic[K]):
    """Episodes by key: events with little time between them make one finding."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._open: dict[K, Burst] = {}

    def add(self, key: K, decoded: DecodedRecord) -> Burst | None:
        """Add an event; return the episode that ended before it."""
        decoded = decoded.without_states
        running = self._open.get(key)
        if running is not None and decoded.time_ms - running.last.time_ms <= self._pause_ms:
            running.add(decoded)
            return None
        self._open[key] = _burst([decoded])
        return running

    def end(self) -> Iterator[tuple[K, Burst]]:
        """Episodes that last until the end of the log."""
        yield from self._open.items()
