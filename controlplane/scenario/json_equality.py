"""Equality of JSON values without the order of lists, which Java does not keep.

Lists are equal if they have the same elements equally often. An integer and a float differ. The
functions are not recursive: offsets may be nested more deeply than Python can recurse or compare.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from controlplane.core.java.json_values import members


def equal_json(first: Any, other: Any) -> bool:
    """True if two values are equal."""
    numbered: _NumberedValues = {}
    return _number(first, numbered) == _number(other, numbered)


def unshared(first: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """The elements that only one of two lists has, in their order."""
    value_numbers: _NumberedValues = {}
    mine, theirs = (
        [_number(element, value_numbers) for element in listed] for listed in (first, other)
    )
    shared = {*mine} & {*theirs}
    numbered = zip((*first, *other), (*mine, *theirs), strict=True)
    return [element for element, number in numbered if number not in shared]


_NumberedValues = dict[Hashable, int]
"""Number of each structure; equal values have the same number."""


def _number(value: Any, numbered: _NumberedValues) -> int:
    """Number of a value; members are numbered before the values that contain them."""
    items = [value]
    for item in items:
        items += members(item)
    numbers: dict[int, int] = {}
    for item in reversed(items):
        numbers[id(item)] = numbered.setdefault(_made_of(item, numbers), len(numbered))
    return numbers[id(value)]


def _made_of(item: Any, numbers: Mapping[int, int]) -> Hashable:
    if isinstance(item, dict):
        return dict, frozenset((name, numbers[id(member)]) for name, member in item.items())
    if isinstance(item, list | tuple):
        return list, frozenset(Counter(numbers[id(element)] for element in item).items())
    return type(item), item
