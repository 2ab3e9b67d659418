"""Offsets as values: both JSON shapes, and the alteration from one list to another."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.connectors.offset_lists import (
    OffsetEntry,
    alteration,
    offsets_in,
    present_offsets,
)
from controlplane.client.http.request_errors import Unavailable
from tests.client.client_calls import FakeWorker

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


@pytest.mark.parametrize("body", [{}, 5, {"offsets": [1]}])
async def test_an_odd_answer_about_offsets_is_a_failure_of_the_server(body: Any) -> None:
    """A migration can undo its steps after such an answer."""
    api = await FakeWorker(httpx.Response(200, json=body)).api()
    with pytest.raises(Unavailable, match="http://worker gave no list of the offsets of x"):
        await present_offsets(api, "x")


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
