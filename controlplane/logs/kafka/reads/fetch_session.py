"""Fetch session with one broker (KIP-227): requests and answers name only what has changed.

A tail of Connect's topics reads some thirty partitions, and a new record lies in one of them.
Encoding and decoding all partitions would take longer than the rest of a fetch.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.protocol.read_requests import NEW_SESSION, Isolation, SessionEpoch

_LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
_LAST_EPOCH = 2**31 - 1
"""Largest number of a request; 1 follows it, because 0 begins a session."""


class FetchSession:
    """Positions that the broker remembers, and the session and number of the next request.

    A broker without room for a session, or of a release before 1.1, answers with session 0. Each
    request then names all positions.
    """

    def __init__(self, isolation: Isolation, limits: ReadLimits) -> None:
        self._isolation: Isolation = isolation
        self._limits = limits
        self._next = NEW_SESSION
        self._remembered: dict[TopicPartition, int] = {}

    def request(
        self, partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> Any:
        """Build the next fetch request; the partitions are the same in each request."""
        remembered = self._remembered if self._next.session else {}
        changed = {
            partition: positions[partition]
            for partition in partitions
            if remembered.get(partition) != positions[partition]
        }
        self._remembered = {**remembered, **changed}
        return read_requests.fetch_request(changed, self._isolation, self._limits, self._next)

    def is_lost(self, answer: Any) -> bool:
        """Process the session of an answer; True if the broker has forgotten it.

        Such an answer has no records, and the next request begins a new session.
        """
        session, code = read_requests.session_of(answer)
        if not session:
            self._next = NEW_SESSION
        else:
            number = self._next.number
            self._next = SessionEpoch(session, 1 if number == _LAST_EPOCH else number + 1)
        return code in _LOST
