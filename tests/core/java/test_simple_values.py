"""The fast encoder of simple values writes the same bytes as the slow one."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.java import json_codec

_SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_both_encoders_write_the_same_bytes(value: Any) -> None:
    """The slow encoder writes a value within 20 lists as the fast one writes the value alone."""
    deep = value
    for _ in range(20):
        deep = [deep]
    assert json_codec.encode(deep) == b"[" * 20 + json_codec.encode(value) + b"]" * 20


def test_a_very_deep_value_is_encoded_without_recursion() -> None:
    """A value 100,000 levels deep is encoded beyond Python's recursion limit."""
    deep: Any = "x"
    for _ in range(50_000):
        deep = {"a": [deep]}
    assert json_codec.encode(deep).count(b"[") == 50_000
    assert json.loads(json_codec.encode({"a": [{"b": [1]}]})) == {"a": [{"b": [1]}]}
