"""Long answers page by page: `limit=` how many, `after=` the last one that is known already."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from controlplane.rest.calls import Call
from controlplane.rest.errors import BadQuestion

T = TypeVar("T")

LIMIT_USUAL = 1_000
LIMIT_MOST = 10_000
"""Rows of one answer: some MB, which a browser still shows."""


def page_of(
    rows: Sequence[T], call: Call, place: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """One page, and what to give as `after=` for the next one; None: this is the last.

    Raises:
        BadQuestion: no such number, no such row.
    """
    begin = 0
    after = call.asked("after")
    if after is not None:
        known = [at for at, row in enumerate(rows) if place(row) == after]
        if not known:
            raise BadQuestion(f"after={after} names nothing here: leave it out to begin anew")
        begin = known[-1] + 1
    end = begin + limit_of(call)
    while end < len(rows) and place(rows[end]) == place(rows[end - 1]):
        end += 1  # what has one place stays together, or the next page would begin behind it
    further = place(rows[end - 1]) if end < len(rows) else None
    return rows[begin:end], further


def limit_of(call: Call) -> int:
    """How many rows are wanted. Raises `BadQuestion`."""
    given = call.asked("limit")
    if given is None:
        return LIMIT_USUAL
    if not (given.isascii() and given.isdecimal() and 0 < int(given) <= LIMIT_MOST):
        raise BadQuestion(f"limit={given} is no number from 1 to {LIMIT_MOST}")
    return int(given)
