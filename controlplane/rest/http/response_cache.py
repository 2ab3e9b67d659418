"""Cache of responses: a repeated request is answered without the application.

Most answers to a GET are a function of the state and the request. The same bytes, sent again before
a change, have the same answer. The application marks such an answer through the `Cacheability` that
each connection passes with a request (`EXTENSION` of ASGI's scope). No answer outlives its `Date`,
which is new every second.
"""

from collections.abc import Callable
from typing import Any

EXTENSION = "controlplane.repeat"

KEPT = 1_000
"""Maximum number of cached answers."""
LONGEST = 1 << 16
"""Maximum bytes of a cached answer with its request."""


class Cacheability:
    """Permission to cache an answer; the application gives it by setting `is_valid`."""

    def __init__(self) -> None:
        self.is_valid: Callable[[], bool] | None = None
        """Returns True while the answer is still valid. None: it must not be cached."""
        self.listeners: list[Callable[[str | None], None]] = []
        """Listeners of cache hits; each gets the address of the peer."""

    @staticmethod
    def of(scope: Any) -> "Cacheability | None":
        """Return the cacheability in a request's scope, if any."""
        cacheability: Cacheability | None = (scope.get("extensions") or {}).get(EXTENSION)
        return cacheability


class ResponseCache:
    """Cached answers of this second, by the bytes of their requests."""

    def __init__(self) -> None:
        self._date: object = None
        self._answers: dict[bytes, tuple[bytes, Callable[[], bool], Cacheability]] = {}

    def find(self, request: bytes, date: object, peer: str | None = None) -> bytes | None:
        """Return the cached answer to these bytes, and call its listeners."""
        # The server makes a new object for the headers of each second: identity is enough.
        if date is not self._date:
            self._answers.clear()
            self._date = date
        if request not in self._answers:
            return None
        answer, is_valid, cacheability = self._answers[request]
        if not is_valid():
            del self._answers[request]
            return None
        for notify in cacheability.listeners:
            notify(peer)
        return answer

    def keep(self, request: bytes, cacheability: Cacheability, answer: bytes, date: object) -> None:
        """Cache an answer if it is cacheable, of the current second, and there is room."""
        fits = len(self._answers) < KEPT and len(request) + len(answer) < LONGEST
        if cacheability.is_valid is not None and date is self._date and fits:
            self._answers[request] = answer, cacheability.is_valid, cacheability
