"""Lag of groups, and the last changes of source offsets."""

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


def test_the_order_of_partitions_does_not_depend_on_the_input() -> None:
    """Partitions come in one order, that of a HashMap of `TopicPartition`, for any input."""
    offsets = tuple(("lines", partition, 0) for partition in range(20))
    order = [partition for _, partition, _ in in_worker_order(offsets)]
    assert sorted(order) == list(range(20))
    assert order == [partition for _, partition, _ in in_worker_order(offsets[::-1])]


def entry(offset: int, value: bytes | None, *, aborted: bool = False) -> Entry:
    """A record of one source partition."""
    return Entry("offsets", 0, offset, offset, b"k", value, aborted=aborted)


def test_repeated_and_aborted_values_change_nothing() -> None:
    """A record with the same value changes nothing; an aborted record does not count."""
    records = [
        entry(0, b"1"),
        entry(1, b"2"),
        entry(2, b"2"),
        entry(3, b"9", aborted=True),
        entry(4, b"2"),
    ]
    assert last_changes(records) == {("offsets", b"k"): records[1]}
    records.append(entry(5, None))
    records.append(entry(6, b"2"))
    assert last_changes(records) == {("offsets", b"k"): records[6]}
    assert last_changes([]) == {}
