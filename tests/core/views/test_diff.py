"""Differences between two states, and the record that caused each."""

import pytest
from msgspec.structs import replace

from controlplane.core.entry import Entry, Position, batch_of
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import load
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views.diff import Aspect, diff
from tests.core.logs import read, report, status

TASK = "status-task-a-0"
GONE = [
    pytest.param((TASK, report("RUNNING")), (TASK, None), id="its own tombstone"),
    pytest.param(
        (TASK, report("RUNNING")), ("status-connector-a", None), id="the connector's tombstone"
    ),
]


def loaded(log: list[Entry], release: str) -> ClusterState:
    """State of the service after it has loaded a log in bulk."""
    fold = Fold(Profile.of(release))
    load(fold, map(batch_of, ([entry] for entry in log)))
    return fold.snapshot()


@pytest.mark.parametrize(("written", "removed"), GONE)
@pytest.mark.parametrize("again", [False, True], ids=["once", "removed again"])
def test_a_removed_task_status_is_due_to_the_tombstone_that_removed_it(
    written: tuple[str, str], removed: tuple[str, None], again: bool
) -> None:
    """The cause is the same after a bulk load, or with larger offsets elsewhere."""
    before = status(written, partition=0, start=100)
    tombstone = status(removed, partition=1, start=200)
    later = status((TASK, None), partition=1, start=300) if again else []
    after = [*before, *tombstone, *later]
    for states in (
        (read(before), read(in_order(after))),
        (loaded(before, "3.9"), loaded(after, "3.9")),
    ):
        (change,) = diff(*states)
        assert (change.aspect, change.after) == (Aspect.TASK_STATUS, None)
        assert change.cause == Position("connect-status", 1, 200)


def test_a_tombstone_in_another_partition_is_named_though_its_offset_is_smaller() -> None:
    """Log offsets of two partitions say nothing about which record was later."""
    before = status((TASK, report("RUNNING")), partition=0, start=100)
    tombstone = status(("status-connector-a", None), partition=1, start=7)
    tombstone = [replace(entry, timestamp=before[0].timestamp + 1) for entry in tombstone]
    (change,) = diff(loaded(before, "3.9"), loaded([*before, *tombstone], "3.9"))
    assert change.cause == Position("connect-status", 1, 7)


def test_a_status_that_one_release_ignores_is_named_though_a_tombstone_lies_between() -> None:
    """3.5 knows STOPPED, 3.4 does not; both obey the tombstone before it."""
    log = status(("status-connector-a", report("RUNNING")), partition=0, start=5)
    log += status((TASK, report("RUNNING")), partition=0, start=6)
    log += [
        replace(entry, offset=9_000)
        for entry in status(("status-connector-a", None), partition=1, start=7)
    ]
    log += status((TASK, report("STOPPED")), partition=0, start=1000)
    for states in (
        (read(log, "3.4"), read(log, "3.5")),
        (loaded(log, "3.4"), loaded(log, "3.5")),
    ):
        (change,) = diff(*states)
        assert change.cause == Position("connect-status", 0, 1000)


def test_two_partitions_of_one_text_are_compared_in_any_order_of_the_load() -> None:
    """`Infinity` names both partitions; the same one counts, however the state was loaded."""
    topic = "connect-offsets"
    keys = (b'["a",{"at":1e999}]', b'["a",{"at":"Infinity"}]')
    log = [Entry(topic, part, 0, part, key, b'{"n":%d}' % part) for part, key in enumerate(keys)]
    assert diff(loaded(log, "kip"), loaded(log[::-1], "kip")) == []
