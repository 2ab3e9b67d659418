"""Statistics of measured values, and of the time spent in states.

Kafka: `SampledStat` with its default settings, and `StateTracker`.
"""

from collections.abc import Callable
from math import inf, isnan, nan
from time import monotonic

from controlplane.core.records import State

WINDOW_S = 30.0
"""Length of a window (`metrics.sample.window.ms`). Two of them count (`metrics.num.samples`), so
that an average or maximum is that of the last 30 to 60 seconds."""

Clock = Callable[[], float]
"""Monotonic clock, in seconds."""


class _Window:
    """Values of one window."""

    __slots__ = ("began_s", "count", "maximum", "minimum", "total")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.count = 0
        self.total = 0.0
        self.maximum = -1.0
        self.minimum = inf


class Distribution:
    """Measured values, none negative: count and sum since the start, recent average and extremes.

    One thread records; any thread reads.
    """

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self.count = 0
        """Number of all values since the start."""
        self.total = 0.0
        """Sum of all values since the start."""
        self._windows: tuple[_Window, ...] = ()

    def record(self, value: float) -> None:
        """Add a value to the totals and to the present window."""
        now_s = self._clock()
        if not self._windows or now_s - self._windows[-1].began_s >= WINDOW_S:
            # A new tuple: a reader in another thread may iterate over the former one.
            self._windows = (*self._windows[-1:], _Window(now_s))
        window = self._windows[-1]
        window.count += 1
        window.total += value
        window.maximum = max(window.maximum, value)
        window.minimum = min(window.minimum, value)
        self.count += 1
        self.total += value

    @property
    def average(self) -> float:
        """Average of the last 30 to 60 seconds; NaN without a value."""
        recent = self._recent()
        count = sum(window.count for window in recent)
        return sum(window.total for window in recent) / count if count else nan

    @property
    def maximum(self) -> float:
        """Maximum of the last 30 to 60 seconds; NaN without a value."""
        return max((window.maximum for window in self._recent()), default=nan)

    @property
    def minimum(self) -> float:
        """Minimum of the last 30 to 60 seconds; NaN without a value."""
        # A reader of another thread may see a window before its first value.
        return min((window.minimum for window in self._recent() if window.count), default=nan)

    def fraction(self, outcome: int) -> float:
        """Return the fraction of recent values that are `outcome` (0 or 1); 0 without values.

        Call it only if all values are 0 or 1 (Kafka: `Frequencies`).
        """
        ones = self.average
        if isnan(ones):
            return 0.0
        return ones if outcome else 1 - ones

    def _recent(self) -> list[_Window]:
        oldest_s = self._clock() - 2 * WINDOW_S
        return [window for window in self._windows if window.began_s > oldest_s]


class StateTimes:
    """Time that a task has spent in each state."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self._clock = clock
        self._spent_s: dict[State, float] = dict.fromkeys(State, 0.0)
        self._now: tuple[State, float] | None = None
        """Present state and its beginning; None before the first."""

    def change(self, state: State) -> None:
        """Enter a state; the time in the former one ends now."""
        now_s = self._clock()
        if self._now is not None:
            before, since_s = self._now
            self._spent_s[before] += now_s - since_s
        self._now = state, now_s

    def ratio(self, state: State) -> float:
        """Fraction of the task's time in `state`, since its first state; 0 before the first."""
        if self._now is None:
            return 0.0
        present, since_s = self._now
        spent_s = dict(self._spent_s)
        spent_s[present] += self._clock() - since_s
        total_s = sum(spent_s.values())
        return spent_s[state] / total_s if total_s else 0.0
