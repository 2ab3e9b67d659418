"""Concurrent requests to stores."""

from threading import Barrier

import pytest

from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE, concurrently
from tests.patience import PATIENCE_S


def test_requests_wait_at_the_same_time() -> None:
    """Requests run concurrently: each one waits for all others."""
    barrier = Barrier(REQUESTS_AT_ONCE)

    def request(number: int) -> int:
        barrier.wait(PATIENCE_S)
        return number

    assert list(concurrently(request, range(REQUESTS_AT_ONCE))) == [*range(REQUESTS_AT_ONCE)]


def test_an_error_is_raised_in_its_turn() -> None:
    """Results of earlier requests are yielded before the error is raised."""
    results = concurrently(lambda number: 1 // number, (1, 0, 1))
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
