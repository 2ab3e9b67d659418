"""How many refused commands the command topic keeps: a flood of bad requests must not fill it."""


class Refusals:
    """A bucket that fills by so many a minute, and holds a minute's worth."""

    def __init__(self, per_minute: int, now_ms: int) -> None:
        self._per_ms = per_minute / 60_000
        self._most = float(per_minute)
        self._left = self._most
        self._at_ms = now_ms

    def admits(self, now_ms: int) -> bool:
        """Whether one more is kept."""
        gained = max(0, now_ms - self._at_ms) * self._per_ms
        self._left, self._at_ms = min(self._most, self._left + gained), now_ms
        if self._left < 1:
            return False
        self._left -= 1
        return True
