"""Differences between two states are the same for all connectors and for one."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import offset_owners
from controlplane.core.views.diff import diff
from tests.laws.entries import NAMES, logs, profiles, statuses


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
    cut = data.draw(st.integers(0, len(log)))
    before, after = loaded(log[:cut], profile), loaded(log, profile)
    for change in diff(before, after):
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
