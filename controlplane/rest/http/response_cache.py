"""Cache of responses: a repeated request is answered without the application.

Most answers to a GET are a function of the state and the request. The same bytes, sent again before
a change, have the same answer. The application marks such an answer through the `Repeat` that each
connection offers with a request (`EXTENSION` of ASGI's scope). No answer outlives its `Date`, which
is new every second.
"""

from collections.abc import Callable
from typing import Any

EXTENSION = "controlplane.repeat"

KEPT = 1_000
"""Maximum number of cached answers. None is longer than `LONGEST` with its request."""
LONGEST = 1 << 16


class Repeat:
    """Cacheability of an answer. Leave it unset if cacheability is unknown."""

    def __init__(self) -> None:
        self.holds: Callable[[], bool] | None = None
        """Returns True while the answer is still valid. None: it must not be cached."""
        self.told: list[Callable[[str | None], None]] = []
        """Listeners of cache hits; each gets the address of the peer."""

    @staticmethod
    def of(scope: Any) -> "Repeat | None":
        """Return the offer in a request's scope, if any."""
        offered: Repeat | None = (scope.get("extensions") or {}).get(EXTENSION)
        return offered


class Repeats:
    """Cached answers of this second, by the bytes of their requests."""

    def __init__(self) -> None:
        self._date: object = None
        self._answers: dict[bytes, tuple[bytes, Callable[[], bool], Repeat]] = {}

    def find(self, request: bytes, date: object, peer: str | None = None) -> bytes | None:
        """Return the cached answer to these bytes, and call its listeners."""
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
        """Cache an answer if it is cacheable and there is room."""
        fits = len(self._answers) < KEPT and len(request) + len(answer) < LONGEST
        if repeat.holds is not None and date is self._date and fits:
            self._answers[request] = answer, repeat.holds, repeat
