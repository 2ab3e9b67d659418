"""Equality of JSON values in which the order of lists does not matter, at any depth."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.scenario.json_equality import equal_json, unshared

DEPTH = 10_000
"""Nesting depth beyond Python's recursion limit and Java's parser."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", 1.0, 0.0]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    """The value with every list reversed."""
    if isinstance(value, list):
        return [shuffled(element) for element in reversed(value)]
    if isinstance(value, dict):
        return {name: shuffled(member) for name, member in reversed(value.items())}
    return value


def nested(value: Any, depth: int = DEPTH) -> Any:
    """Value within alternating lists and objects."""
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def plain(value: Any) -> Any:
    """Value as nested sorted text: a slow reference for equality."""
    if isinstance(value, list):
        return sorted(map(plain, value), key=repr), "list"
    if isinstance(value, dict):
        return sorted((name, plain(member)) for name, member in value.items()), "dict"
    return repr(value)


@given(VALUES, VALUES)
def test_only_order_is_ignored(value: Any, other: Any) -> None:
    """Equality ignores the order of lists and of members, and nothing else."""
    assert equal_json(value, shuffled(value))
    assert equal_json(value, other) is (plain(value) == plain(other))


@pytest.mark.parametrize(
    ("value", "other"),
    [
        *[([], {}), (1, True), (1, 1.0), (0, None), ("1", 1)],
        *[([1, 1, 2], [1, 2, 2]), ([1], [1, 1]), ({"a": None}, {})],
        *[([[1], [2]], [[1, 2]]), ([[], [[]]], [[[]], [[]]])],
    ],
)
def test_other_differences_make_values_unequal(value: Any, other: Any) -> None:
    """Types of numbers, counts, missing versus null members, and nesting make values unequal."""
    assert not equal_json(value, other)


@pytest.mark.slow
def test_differences_at_any_depth_are_found() -> None:
    """A difference at any depth is found."""
    assert equal_json(nested([1, 2]), nested([2, 1]))
    assert not equal_json(nested([1, 2]), nested([1, 3]))


@pytest.mark.slow
def test_unshared_elements_keep_their_order() -> None:
    """Elements that only one list has: those of the first list in its order, then the others."""
    assert unshared(["a", "b", [1, 2]], [[2, 1], "c", "a"]) == ["b", "c"]
    (deep,) = unshared([nested(1), nested(2)], [nested(1)])
    assert equal_json(deep, nested(2))
