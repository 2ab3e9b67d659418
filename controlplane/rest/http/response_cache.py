"""Cache of responses: a repeated request is answered without the application.

Most answers to a GET are a function of the state and the request. The same bytes, sent again before
a change, have the same answer. The application marks such an answer through the `Cacheability` that
each connection passes with a request (`EXTENSION` of ASGI's scope). No answer outlives its `Date`,
which is new every second.
"""

from collections.abc import Callable

EXTENSION = "controlplane.repeat"

KEPT = 1_000
"""Maximum number of cached answers."""
LONGEST = 1 << 16
"""Maximum bytes of a cached answer with its request."""


class Cacheability:
    """Permission to cache an answer; the application gives it by setting `is_valid`."""

    def __init__(self) -> None:
        self.is_valid: Callable[[], bool] = lambda: False
        """Returns True while the answer is valid, False if it must not be cached."""
        self.listeners: list[Callable[[str | None], None]] = []
        """Callbacks of cache hits; each gets the address of the peer."""
        self.answer = b""
        """Bytes of the answer, once it is cached."""


class ResponseCache:
    """Cached answers of this second, by the bytes of their requests."""

    def __init__(self) -> None:
        self._date: object = None
        self._answers: dict[bytes, Cacheability] = {}

    def find(self, request: bytes, date: object, peer: str | None = None) -> bytes | None:
        """Return the cached answer to these bytes, and call its callbacks (`listeners`)."""
        cached = self._answers.get(request)
        # The server makes a new object for the headers of each second: identity is enough.
        if cached is None or date is not self._date or not cached.is_valid():
            return None
        for notify in cached.listeners:
            notify(peer)
        return cached.answer

    def keep(self, request: bytes, cacheability: Cacheability, answer: bytes, date: object) -> None:
        """Cache an answer if it is valid and there is room; drop those of another second."""
        if date is not self._date:
            self._answers, self._date = {}, date
        fits = len(self._answers) < KEPT and len(request) + len(answer) < LONGEST
        if answer and fits and cacheability.is_valid():
            cacheability.answer = answer
            self._answers[request] = cacheability
