"""The smallest log about which two folds disagree, by leaving records out."""

from collections.abc import Callable, Sequence

from controlplane.scenario.folds import Ask

Wrong = Callable[[Sequence[Ask]], list[bool]]
"""About which of these questions there is disagreement; asked for many at once."""


def smallest(ask: Ask, wrong: Wrong) -> Ask:
    """A part of a log about which there is still disagreement, but without any record no more.

    Halves are left out first, then quarters, and in the end single records.
    """
    size = len(ask.entries) // 2
    while size:
        without = [_without(ask, start, size) for start in range(0, len(ask.entries), size)]
        still = [one for one, is_wrong in zip(without, wrong(without), strict=True) if is_wrong]
        if still:
            ask = min(still, key=lambda one: len(one.entries))
        size = min(size if still else size // 2, len(ask.entries) - 1)
    return ask


def _without(ask: Ask, start: int, size: int) -> Ask:
    return ask._replace(entries=ask.entries[:start] + ask.entries[start + size :])


def shown(ask: Ask) -> str:
    """A question so that it can be copied into a test."""
    lines = "".join(f"    {one!r},\n" for one in ask.entries)
    return f"Ask((\n{lines}), {ask.profile!r}, exactly_once={ask.exactly_once})"


def disagreement(asks: Sequence[Ask], wrong: Wrong) -> str:
    """The smallest log of the first question about which there is disagreement; empty: none."""
    first = next((ask for ask, bad in zip(asks, wrong(asks), strict=True) if bad), None)
    return "" if first is None else shown(smallest(first, wrong))
