"""Fetch sessions (KIP-227): the requests that a tail sends, and how it takes their answers."""

from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchResponse_v6, FetchResponse_v11

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.reads import fetch_session
from controlplane.logs.kafka.reads.fetch_session import FetchSession

FETCH, NEWEST = 1, 11
SESSION = 4711
PARTITIONS: list[TopicPartition] = [("configs", 0), ("offsets", 0), ("offsets", 1)]


class SessionCalls:
    """Requests of one session, and answers to them."""

    def __init__(self) -> None:
        self.positions = dict.fromkeys(PARTITIONS, 0)
        self._session = FetchSession("read_committed", ReadLimits())

    def request(self, version: int = NEWEST) -> tuple[tuple[int, int] | None, dict[Any, int]]:
        """Session and number of the next request, and the positions that it names."""
        request = self._session.request(PARTITIONS, self.positions)
        sent = request.prepare({FETCH: (version, version)}).to_object()
        place = (sent["session_id"], sent["session_epoch"]) if "session_id" in sent else None
        positions = {
            (topic["topic"], partition["partition"]): partition["fetch_offset"]
            for topic in sent["topics"]
            for partition in topic["partitions"]
        }
        return place, positions

    def answer(self, session: int = SESSION, code: int = 0) -> bool:
        """Take an answer; True if the session is lost."""
        return self._session.is_lost(FetchResponse_v11(0, code, session, []))

    def old_answer(self) -> bool:
        """Take an answer of a version without sessions; True if the session is lost."""
        return self._session.is_lost(FetchResponse_v6(0, []))


def test_only_changed_positions_are_sent() -> None:
    """The first request names all positions, each later one those that have changed."""
    calls = SessionCalls()
    assert calls.request() == ((0, 0), calls.positions)
    assert not calls.answer()
    calls.positions["offsets", 1] = 7
    assert calls.request() == ((SESSION, 1), {("offsets", 1): 7})
    assert not calls.answer()
    assert calls.request() == ((SESSION, 2), {})


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_a_forgotten_session_begins_again(code: ErrorCode) -> None:
    """After the refusal of a session, the next request names all positions in a new session."""
    calls = SessionCalls()
    calls.request()
    calls.answer()
    calls.request()
    assert calls.answer(0, code)
    assert calls.request() == ((0, 0), calls.positions)
    assert not calls.answer(SESSION + 1)
    assert calls.request() == ((SESSION + 1, 1), {})


def test_a_broker_without_sessions_gets_all_positions() -> None:
    """Without a session, each request names all positions."""
    calls = SessionCalls()
    for _ in range(2):
        assert calls.request() == ((0, 0), calls.positions)
        assert not calls.answer(session=0)
    for _ in range(2):
        assert calls.request(version=6) == (None, calls.positions)
        assert not calls.old_answer()


def test_the_numbers_of_requests_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number 1 follows the largest one, because number 0 begins a session."""
    monkeypatch.setattr(fetch_session, "_LAST_EPOCH", 2)
    calls = SessionCalls()
    numbers = []
    for _ in range(4):
        place, _ = calls.request()
        assert place is not None
        numbers.append(place[1])
        calls.answer()
    assert numbers == [0, 1, 2, 1]
