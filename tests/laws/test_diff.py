"""Differences between two states are the same for all connectors and for one."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import offset_owners
from controlplane.core.views.diff import Change, diff
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import NAMES, logs, profiles, statuses


@settings(max_examples=FEWER_EXAMPLES)
@given(log=logs(), first=profiles, second=profiles)
def test_the_difference_of_a_connector_is_its_part_of_the_whole(
    log: list[Entry], first: Profile, second: Profile
) -> None:
    """The difference of one connector is its part of the whole, for any spelling of offset keys."""
    before, after = (fold(in_order(log), profile) for profile in (first, second))
    names = {*NAMES, *offset_owners(before), *offset_owners(after)}
    every = diff(before, after)
    names |= {change.connector for change in every}
    assert every == [change for name in sorted(names) for change in diff(before, after, name)]


def loaded(log: list[Entry], profile: Profile) -> ClusterState:
    """State of the service after it has loaded a log in bulk."""
    whole = Fold(profile)
    load(whole, [batch_of([entry]) for entry in log])
    return whole.snapshot()


@given(statuses(), profiles, st.data())
def test_a_difference_between_then_and_now_is_due_to_the_record_that_made_it(
    log: list[Entry], profile: Profile, data: st.DataObject
) -> None:
    """The cause lies after the earlier moment; after the cause, the fact has its present value."""
    check_causes(log, profile, data.draw(st.integers(0, len(log))))


@pytest.mark.parametrize("release", ["2.0", "3.9", "kip"])
def test_a_removed_status_is_due_to_its_tombstone(release: str) -> None:
    """The cause of a removal is the tombstone, not a record before or after it."""
    running = b'{"state":"RUNNING","worker_id":"w","generation":1}'
    values = (running, None, running, None)
    log = [
        Entry("connect-status", 0, offset, offset, b"status-connector-a", value)
        for offset, value in enumerate(values)
    ]
    changes = check_causes(log, Profile.of(release), 1)
    assert [(change.after, change.cause) for change in changes] == [(None, log[3].position)]


def check_causes(log: list[Entry], profile: Profile, cut: int) -> Sequence[Change]:
    """Check the cause of each difference between a prefix of a log and the log; return them."""
    before, after = loaded(log[:cut], profile), loaded(log, profile)
    changes = diff(before, after)
    for change in changes:
        places = [entry.position for entry in log]
        assert change.cause in places[cut:]
        at = places.index(change.cause) + 1
        since = diff(fold(log[:at], profile), after, change.connector)
        assert (change.aspect, change.item) not in {
            (difference.aspect, difference.item) for difference in since
        }
        if change.after is None:
            just = diff(fold(log[: at - 1], profile), after, change.connector)
            assert (change.aspect, change.item) in {
                (difference.aspect, difference.item) for difference in just
            }
    return changes
