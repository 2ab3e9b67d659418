"""Requests to stores that wait at the same time."""

from threading import Barrier

import pytest

from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE, concurrently
from tests.patience import PATIENCE_S


def test_requests_wait_at_the_same_time() -> None:
    """Each waits for all others, so one after another they would never end."""
    barrier = Barrier(REQUESTS_AT_ONCE)

    def request(number: int) -> int:
        barrier.wait(PATIENCE_S)
        return number

    assert list(concurrently(request, range(REQUESTS_AT_ONCE))) == [*range(REQUESTS_AT_ONCE)]


def test_an_error_is_raised_in_its_turn() -> None:
    """Results in front of an error are yielded before it is raised."""
    results = concurrently(lambda number: 1 // number, (1, 0, 1))
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
