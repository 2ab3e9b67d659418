"""What differs between two states, whoever asks: for all connectors, or for one."""

from hypothesis import given

from controlplane.core.diff import diff
from controlplane.core.entry import Entry
from controlplane.core.evolve import fold
from controlplane.core.order import in_order
from controlplane.core.profiles import Profile
from controlplane.core.views import offset_owners
from tests.laws.entries import NAMES, logs, profiles


@given(log=logs(), one=profiles, other=profiles)
def test_all_is_what_each_is(log: list[Entry], one: Profile, other: Profile) -> None:
    """However the keys of offsets are spelled, a connector's are found."""
    before, after = (fold(in_order(log), profile) for profile in (one, other))
    names = {*NAMES, *offset_owners(before), *offset_owners(after)}
    every = diff(before, after)
    names |= {change.connector for change in every}
    assert every == [change for name in sorted(names) for change in diff(before, after, name)]
