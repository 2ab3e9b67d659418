"""What happens too often in too short a time, and what happens at once for many keys."""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import msgspec

from controlplane.core.entry import Position
from replay.audit.about import EVIDENCE_KEPT
from replay.audit.reading import Told

K = TypeVar("K", bound=Hashable)


class Burst(msgspec.Struct):
    """Several events that belong together."""

    last: Told
    first_ms: int
    count: int = 0
    evidence: list[Position] = []

    def add(self, told: Told) -> None:
        """One more."""
        self.last = told
        self.count += 1
        if len(self.evidence) < EVIDENCE_KEPT:
            self.evidence.append(told.position)

    @property
    def lasted_ms(self) -> int:
        """From the first to the last."""
        return self.last.time_ms - self.first_ms


def _burst(events: list[Told]) -> Burst:
    burst = Burst(events[0], events[0].time_ms)
    for told in events:
        burst.add(told)
    return burst


class Bursts(Generic[K]):
    """Per key, times when at least so many events lay within a window. Unknown times count not."""

    def __init__(self, least: int, window_ms: int) -> None:
        self._least = least
        self._window_ms = window_ms
        self._recent: dict[K, deque[Told]] = {}
        self._open: dict[K, Burst] = {}

    def add(self, key: K, told: Told) -> Burst | None:
        """One more event; answers the burst that it shows to be over."""
        told = told.kept
        if told.entry.timestamp < 0:
            return None
        recent = self._recent.setdefault(key, deque(maxlen=self._least))
        while recent and told.time_ms - recent[0].time_ms > self._window_ms:
            recent.popleft()
        recent.append(told)
        if len(recent) < self._least:
            return self._open.pop(key, None)
        if key in self._open:
            self._open[key].add(told)
        else:
            self._open[key] = _burst(list(recent))
        return None

    def end(self) -> Iterator[tuple[K, Burst]]:
        """Those that last until the log ends."""
        yield from self._open.items()


class Episodes(Generic[K]):
    """Per key, runs of events with short pauses between them: one cause, one finding."""

    def __init__(self, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._open: dict[K, Burst] = {}

    def add(self, key: K, told: Told) -> Burst | None:
        """One more event; answers the episode that it shows to be over."""
        told = told.kept
        running = self._open.get(key)
        if running is not None and told.time_ms - running.last.time_ms <= self._pause_ms:
            running.add(told)
            return None
        self._open[key] = _burst([told])
        return running

    def end(self) -> Iterator[tuple[K, Burst]]:
        """Those that last until the log ends."""
        yield from self._open.items()
