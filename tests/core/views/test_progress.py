"""Lag of groups, and the last changes of source offsets."""

import pytest

from controlplane.core.entry import Entry
from controlplane.core.views.group_progress import LogEnd, group_progress, in_worker_order
from controlplane.core.views.source_progress import last_changes


def test_lag_is_the_distance_to_the_end() -> None:
    """The lag is the distance to the end: 0 for an offset past it, unknown without an end."""
    offsets = (("t", 0, 3), ("t", 1, 9), ("u", 0, 1))
    progress = group_progress("g", offsets, {("t", 0): LogEnd(10), ("t", 1): LogEnd(4)})
    lags = {(part.topic, part.partition): part.lag for part in progress.partitions}
    assert lags == {("t", 0): 7, ("t", 1): 0, ("u", 0): None}
    assert progress.lag == 7
    assert group_progress("g", (), {}).lag is None
    assert group_progress("g", offsets, {}).lag is None


@pytest.mark.parametrize(
    ("lines", "orders", "expected"),
    [
        (3, 3, "l0 o0 o1 o2 l1 l2"),
        (12, 0, "l0 l9 l10 l11 l5 l6 l7 l8 l1 l2 l3 l4"),
        (
            *(20, 5),
            "l18 l14 l16 l10 l12 l6 o1 l8 o3 l2 l4 l0 l17 l19 l13 l15 l9 l11 l5 o0 l7 o2 l1 o4 l3",
        ),
    ],
)
def test_partitions_are_in_the_order_of_a_worker(lines: int, orders: int, expected: str) -> None:
    """Partitions come in the order of a HashMap of `TopicPartition`, for any input.

    The expected orders are those of a JDK with Kafka's class of 3.9.1.
    """
    offsets = [("lines", partition, 0) for partition in range(lines)]
    offsets += [("orders", partition, 0) for partition in range(orders)]
    for listed in (offsets, offsets[::-1]):
        order = [f"{topic[0]}{partition}" for topic, partition, _ in in_worker_order(tuple(listed))]
        assert " ".join(order) == expected


def entry(offset: int, value: bytes | None) -> Entry:
    """A record of one source partition."""
    return Entry("offsets", 0, offset, offset, b"k", value)


def test_repeated_values_change_nothing() -> None:
    """A record with the same value changes nothing; one after a tombstone does."""
    records = [entry(0, b"1"), entry(1, b"2"), entry(2, b"2"), entry(3, b"2")]
    assert last_changes(records) == {("offsets", b"k"): records[1]}
    records.append(entry(4, None))
    records.append(entry(5, b"2"))
    assert last_changes(records) == {("offsets", b"k"): records[5]}
    assert last_changes([]) == {}
