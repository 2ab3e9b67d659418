"""Answers that are given again as they were, without asking the application again.

What is known is a value, and most answers to a GET are a function of it and of what was asked: the
same bytes, asked again before anything has changed, have the same answer. An application that knows
this of an answer says so, by the `Repeat` that our connections offer with each request (`EXTENSION`
of ASGI's scope). No answer outlives its `Date`, which is new every second.
"""

from collections.abc import Callable
from typing import Any

EXTENSION = "controlplane.repeat"

KEPT = 1_000
"""So many answers are kept at once, and none that is longer than `LONGEST` with its question."""
LONGEST = 1 << 16


class Repeat:
    """Whether an answer may be given again. Whoever does not know leaves it alone."""

    def __init__(self) -> None:
        self.holds: Callable[[], bool] | None = None
        """Whether it would be answered the same now. None: it may not be given again."""
        self.told: list[Callable[[str | None], None]] = []
        """Called each time that it is, with the address of the peer to which it goes."""

    @staticmethod
    def of(scope: Any) -> "Repeat | None":
        """What is offered with a request, if anything is."""
        offered: Repeat | None = (scope.get("extensions") or {}).get(EXTENSION)
        return offered


class Repeats:
    """The answers of this second, by the bytes that asked for them."""

    def __init__(self) -> None:
        self._date: object = None
        self._answers: dict[bytes, tuple[bytes, Callable[[], bool], Repeat]] = {}

    def find(self, request: bytes, date: object, peer: str | None = None) -> bytes | None:
        """The answer that may be given to these bytes from a peer; its listeners are called."""
        if date is not self._date:
            self._answers.clear()
            self._date = date
        if request not in self._answers:
            return None
        answer, holds, repeat = self._answers[request]
        if not holds():
            del self._answers[request]
            return None
        for tell in repeat.told:
            tell(peer)
        return answer

    def keep(self, request: bytes, repeat: Repeat, answer: bytes, date: object) -> None:
        """Keep an answer, if it may be given again and there is room for it."""
        fits = len(self._answers) < KEPT and len(request) + len(answer) < LONGEST
        if repeat.holds is not None and date is self._date and fits:
            self._answers[request] = answer, repeat.holds, repeat
