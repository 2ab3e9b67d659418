"""Requests of an audit stream, and which of them may have written a record."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Verb(Enum):
    """What a request wants of a connector."""

    CREATE = "create"
    CONFIG = "config"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART = "restart"
    OFFSETS = "offsets"


class Request(NamedTuple):
    """One line of an audit stream."""

    time_ms: int
    who: str
    connector: str | None
    """None: the line does not tell, as a POST to `/connectors` in an access log."""
    verb: Verb | None
    """None: the line does not tell."""


class Trail:
    """The requests of an audit stream, found by time and connector."""

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        self._by_connector: dict[str | None, list[Request]] = {}
        for request in sorted(requests, key=lambda one: one.time_ms):
            self._by_connector.setdefault(request.connector, []).append(request)

    def near(
        self, connector: str, time_ms: int, within_ms: int, verbs: frozenset[Verb]
    ) -> list[Request]:
        """The requests that may have written a record, the nearest first.

        One that names no connector may have, too, but only where none that names it is there.
        """
        for name in (connector, None):
            found = [
                request
                for request in self._between(name, time_ms - within_ms, time_ms + within_ms)
                if request.verb is None or request.verb in verbs
            ]
            if found:
                return sorted(found, key=lambda one: abs(one.time_ms - time_ms))
        return []

    def _between(self, name: str | None, first_ms: int, last_ms: int) -> list[Request]:
        requests = self._by_connector.get(name, [])
        begin = bisect_left(requests, first_ms, key=lambda one: one.time_ms)
        return requests[begin : bisect_right(requests, last_ms, key=lambda one: one.time_ms)]
