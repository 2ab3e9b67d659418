"""Reduction of a log with different answers to the smallest one that still differs."""

from collections.abc import Callable, Iterator

import msgspec

from controlplane.core.entry import Entry
from tests.oracle.case import Case

MOST_TRIES = 3_000
"""Limit of tries. Each one calls Java: about a third of a millisecond."""

Fails = Callable[[Case], bool]


def smallest(case: Case, fails: Fails) -> Case:
    """The case reduced as far as it still fails. `case` itself must fail."""
    tries = MOST_TRIES
    candidates = _simpler(case)
    while tries and (candidate := next(candidates, None)) is not None:
        tries -= 1
        if fails(candidate):
            case = candidate
            candidates = _simpler(case)
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Cases with fewer parts, much smaller ones first."""
    yield from _with_fewer_entries(case)
    if case.startup:
        yield case._replace(startup=0)
    for size in range(len(case.batch)):
        if len(case.batch) > 1:
            yield case._replace(batch=case.batch[:size] + case.batch[size + 1 :])
    if case.exactly_once:
        yield case._replace(exactly_once=False)
    for number, entry in enumerate(case.entries):
        for smaller in _smaller(entry):
            entries = (*case.entries[:number], smaller, *case.entries[number + 1 :])
            yield case._replace(entries=entries)


def _with_fewer_entries(case: Case) -> Iterator[Case]:
    for start, end in _spans(len(case.entries)):
        startup = case.startup - len(range(start, min(end, case.startup)))
        yield case._replace(entries=case.entries[:start] + case.entries[end:], startup=startup)


def _smaller(entry: Entry) -> Iterator[Entry]:
    if entry.aborted:
        yield msgspec.structs.replace(entry, aborted=False)
    if entry.partition:
        yield msgspec.structs.replace(entry, partition=0)
    if entry.value is not None:
        yield msgspec.structs.replace(entry, value=None)
        for value in _shorter(entry.value):
            yield msgspec.structs.replace(entry, value=value)
    for key in _shorter(entry.key or b""):
        yield msgspec.structs.replace(entry, key=key)


def _shorter(text: bytes) -> Iterator[bytes]:
    for start, end in _spans(len(text)):
        yield text[:start] + text[end:]


def _spans(length: int) -> Iterator[tuple[int, int]]:
    """Spans to remove: all, halves, quarters, …, single items."""
    size = length
    while size:
        yield from ((start, min(start + size, length)) for start in range(0, length, size))
        size //= 2
