"""Progress of long operations, reported to a listener."""

from collections.abc import Callable
from typing import Protocol

Advance = Callable[[int], None]
"""Callback that receives the amount of work done since the last call."""


class ProgressListener(Protocol):
    """Receives the progress of an operation."""

    def begin(self, what: str, total: int) -> None:
        """Start a step with a total amount of work."""
        ...

    def advance(self, amount: int) -> None:
        """Add to the amount of work done."""
        ...


class NoProgress:
    """Listener that ignores all progress, for callers that show none."""

    def begin(self, what: str, total: int) -> None:
        """Ignore the start of a step."""

    def advance(self, amount: int) -> None:
        """Ignore the amount of work done."""
