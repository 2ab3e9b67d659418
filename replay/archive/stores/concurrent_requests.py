"""Concurrent requests to stores, because an object store answers each one slowly."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import local
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

REQUESTS_AT_ONCE = 32
"""Number of requests, or of clusters, that wait for a store concurrently."""

PARTITIONS_AT_ONCE = 8
"""Number of a plan's partitions whose requests wait concurrently.

`REQUESTS_AT_ONCE` plans of a fleet then have 256 threads. Each may hold the offsets of a segment:
8 MB for a million records. Larger fleets have fewer threads (`requests_in_turn`).
"""


def concurrently(
    request: Callable[[T], R], items: Iterable[T], at_once: int = REQUESTS_AT_ONCE
) -> Iterator[R]:
    """Yield the result for each item, in order; the first error ends it.

    Results wait in memory until they are taken. If `at_once` is 1, this thread makes the requests.
    """
    if at_once == 1:
        yield from map(request, items)
        return
    with ThreadPoolExecutor(at_once) as threads:
        yield from threads.map(request, items)


class _PlanLimit(local):
    """Number of partitions whose requests the plan of this thread sends concurrently."""

    partitions = PARTITIONS_AT_ONCE


_LIMIT = _PlanLimit()


def concurrently_in_plan(
    request: Callable[[T], R], partitions: Iterable[T], at_once: int
) -> Iterator[R]:
    """Yield the result for each partition of one plan; `at_once` is the limit of the store."""
    return concurrently(request, partitions, min(at_once, _LIMIT.partitions))


@contextmanager
def requests_in_turn() -> Iterator[None]:
    """Within this context, a plan of this thread sends the requests of its partitions in turn.

    The caller makes many plans at once, and they keep the store busy. Further threads would only
    take processor time.
    """
    _LIMIT.partitions = 1
    try:
        yield
    finally:
        _LIMIT.partitions = PARTITIONS_AT_ONCE
