"""Requests of the Kafka reader, byte for byte beside those of aiokafka."""

from io import BytesIO

import pytest
from aiokafka.protocol.offset import OffsetRequest, OffsetRequest_v3, OffsetResponse_v3
from hypothesis import given
from hypothesis import strategies as st

from controlplane.logs.kafka.protocol.read_requests import LATEST, offsets, offsets_request

PARTITIONS = st.lists(
    st.tuples(st.sampled_from(["configs", "offsets", "\N{SNOWMAN}"]), st.integers(0, 99)),
    unique=True,
    max_size=40,
)
NEWEST, FIRST_ISOLATED = {2: (0, 9)}, {2: (0, 2)}
"""Versions of ListOffsets that a broker supports."""


def _by_topic(partitions: list[tuple[str, int]], *rest: int) -> list[tuple[str, list[object]]]:
    topics = dict.fromkeys(topic for topic, _ in partitions)
    return [
        (topic, [(number, *rest) for name, number in partitions if name == topic])
        for topic in topics
    ]


@given(PARTITIONS)
def test_offsets_requests_are_those_of_aiokafka(partitions: list[tuple[str, int]]) -> None:
    """A ListOffsets request has the bytes that aiokafka sends, in each version."""
    request = offsets_request(partitions, LATEST, "read_committed")
    expected = OffsetRequest(-1, 1, _by_topic(partitions, LATEST))
    for versions in NEWEST, FIRST_ISOLATED:
        assert request.prepare(versions).encode() == expected.prepare(versions).encode()
    assert type(request.prepare(NEWEST)) is not OffsetRequest_v3


@given(PARTITIONS, st.integers(-1, 100), st.integers(-1, 1 << 62))
def test_offsets_responses_are_read_as_by_aiokafka(
    partitions: list[tuple[str, int]], code: int, offset: int
) -> None:
    """A ListOffsets response gives the offsets that aiokafka reads from it."""
    octets = OffsetResponse_v3(7, _by_topic(partitions, code, LATEST, offset)).encode()
    response = offsets_request([], LATEST, "read_committed").prepare(NEWEST).RESPONSE_TYPE
    assert list(offsets(response.decode(BytesIO(octets)))) == list(
        offsets(OffsetResponse_v3.decode(BytesIO(octets)))
    )


def test_a_short_offsets_response_is_a_value_error() -> None:
    """Missing bytes of a ListOffsets response are a failure that the reader retries."""
    octets = OffsetResponse_v3(7, _by_topic([("configs", 0)], 0, LATEST, 5)).encode()
    response = offsets_request([], LATEST, "read_committed").prepare(NEWEST).RESPONSE_TYPE
    with pytest.raises(ValueError, match="fewer than 1 rows"):
        response.decode(BytesIO(octets[:-1]))
