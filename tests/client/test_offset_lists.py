"""Offsets as values: both JSON shapes, and the alteration from one list to another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.connectors.offset_lists import OffsetEntry, alteration, offsets_in

SINK = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}
SOURCE = {"partition": {"file": "x"}, "offset": {"position": 5}}


@pytest.mark.parametrize(
    ("body", "offsets"),
    [
        ({"offsets": [SINK]}, [SINK]),
        ([SOURCE], [SOURCE]),
        ({"offsets": {"source": [SOURCE]}}, [SOURCE]),
        (
            {
                "offsets": {
                    "sink": [{"partition": {"topic": "t", "partition": 0}, "offset": {"offset": 5}}]
                }
            },
            [SINK],
        ),
        ({"offsets": {"sink": [SINK]}}, [SINK]),
        (
            {"offsets": {"sink": [{"partition": "x", "offset": 5}]}},
            [{"partition": "x", "offset": 5}],
        ),
        ({"offsets": []}, []),
        ({"offsets": [{"partition": {"file": "x"}}]}, [{**SOURCE, "offset": None}]),
    ],
)
def test_both_shapes_of_a_list_are_read(body: Any, offsets: list[OffsetEntry]) -> None:
    """Releases use a list; the KIP's draft uses a list by type, with shorter keys for sinks."""
    assert offsets_in(body) == offsets


@pytest.mark.parametrize("body", [{}, {"offsets": 1}, 5, [1], [{"x": 1}], {"offsets": {"sink": 1}}])
def test_bodies_without_offsets_are_refused(body: Any) -> None:
    """A body without a list of offsets raises ValueError."""
    with pytest.raises(ValueError, match=r"no list of offsets|is not of the form"):
        offsets_in(body)


lists = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4).map(
    lambda offsets: [{"partition": {"p": key}, "offset": {"o": n}} for key, n in offsets.items()]
)


@given(lists, lists)
def test_an_alteration_makes_one_list_the_other(before: list[Any], after: list[Any]) -> None:
    """The alteration, applied as by Connect, gives the other list, and repeats no equal offset."""
    state = {entry["partition"]["p"]: entry["offset"] for entry in before}
    altered = alteration(before, after)
    assert all(state.get(entry["partition"]["p"]) != entry["offset"] for entry in altered)
    state |= {entry["partition"]["p"]: entry["offset"] for entry in altered}
    expected = {entry["partition"]["p"]: entry["offset"] for entry in after}
    assert {key: value for key, value in state.items() if value is not None} == expected
