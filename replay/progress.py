"""How far something long has come, told to whoever wants to know."""

from collections.abc import Callable
from typing import Protocol

Advance = Callable[[int], None]
"""Is told of how much more is done."""


class Progress(Protocol):
    """Somebody who wants to know how far it has come."""

    def begin(self, what: str, total: int) -> None:
        """Something begins, of which there is so much."""
        ...

    def advance(self, amount: int) -> None:
        """So much more of it is done."""
        ...


class Unseen:
    """Nobody wants to know."""

    def begin(self, what: str, total: int) -> None:
        """Something begins."""

    def advance(self, amount: int) -> None:
        """More of it is done."""
