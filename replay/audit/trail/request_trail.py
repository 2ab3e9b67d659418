"""Requests of an audit stream, and the search for the request behind a record."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Self

import msgspec


class TrailVerb(Enum):
    """Intended effect of a request on a connector."""

    CREATE = "create"
    CONFIG = "config"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART = "restart"
    OFFSETS = "offsets"


class TrailRequest(NamedTuple):
    """Request that may have changed a connector: its time, its sender and its verb."""

    time_ms: int
    who: str
    connector: str | None
    """None if the line has no name, such as a POST to `/connectors` in an access log."""
    verb: TrailVerb | None
    """None if the line has no verb."""


class RequestTrail:
    """Requests of an audit stream, searchable by time and connector."""

    def __init__(self, requests: Iterable[TrailRequest] = ()) -> None:
        self._by_connector: dict[str | None, list[TrailRequest]] = {}
        for request in sorted(requests, key=lambda recorded: recorded.time_ms):
            self._by_connector.setdefault(request.connector, []).append(request)

    def near(
        self, connector: str, time_ms: int, within_ms: int, verbs: frozenset[TrailVerb]
    ) -> list[TrailRequest]:
        """Requests that may have written a record, the nearest first.

        Requests without a connector name count only if none with the name is found.
        """
        for name in (connector, None):
            matches = [
                request
                for request in self._between(name, time_ms - within_ms, time_ms + within_ms)
                if request.verb is None or request.verb in verbs
            ]
            if matches:
                return sorted(matches, key=lambda request: abs(request.time_ms - time_ms))
        return []

    def _between(self, name: str | None, first_ms: int, last_ms: int) -> list[TrailRequest]:
        requests = self._by_connector.get(name, [])
        begin = bisect_left(requests, first_ms, key=lambda request: request.time_ms)
        return requests[
            begin : bisect_right(requests, last_ms, key=lambda request: request.time_ms)
        ]


class TrailTask(msgspec.Struct, frozen=True, kw_only=True):
    """Task about one cluster that needs the requests of audit streams."""

    requests: dict[str, list[TrailRequest]] = {}
    """Requests of audit streams, by cluster."""

    def of_cluster(self, cluster: str) -> Self:
        """Task without the requests of other clusters."""
        requests = {cluster: self.requests.get(cluster, [])}
        return msgspec.structs.replace(self, requests=requests)

    def trail(self, cluster: str) -> RequestTrail:
        """Searchable requests of a cluster."""
        return RequestTrail(self.requests.get(cluster, ()))
