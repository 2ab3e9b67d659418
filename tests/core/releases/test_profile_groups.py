"""Groups of profiles: one call for all that agree, and one fold until they differ."""

import pytest

from controlplane.core.releases.profile_groups import (
    Disagreement,
    SharedResults,
    as_one,
    grouped,
    of_each,
)
from controlplane.core.releases.profiles import PROFILES, Profile

OLD, NEW, NEWER = (Profile.of(name) for name in ("2.3", "3.4", "3.9"))


def test_profiles_that_agree_share_a_call() -> None:
    """Profiles that agree in the behaviours which a call reads share the call."""
    calls = []

    def ask(profile: Profile) -> bool:
        calls.append(profile.fencing)
        return profile.fencing

    assert list(of_each([OLD, NEW, NEWER, OLD], ask)) == [False, True, True, False]
    assert calls == [False, True]


def test_a_result_depends_on_the_behaviours_of_its_parts() -> None:
    """A result made of another shared result is shared only if both are."""
    parts = SharedResults(lambda profile: profile.fencing)
    results = SharedResults(lambda profile: (parts.of(profile), profile.target_state_v2))
    assert parts.of(NEW)
    assert [results.of(profile) for profile in (OLD, NEW, NEWER)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert results.of(NEWER) is results.of(NEWER)


def test_combined_profiles_raise_where_they_disagree() -> None:
    """Reading a behaviour in which the profiles differ raises `Disagreement` with its name."""
    combined = as_one([NEW, NEWER])
    assert combined.fencing
    with pytest.raises(Disagreement) as disagreement:
        assert combined.target_state_v2
    assert disagreement.value.field == "target_state_v2"
    assert combined.fencing  # profiles that agree can still be read


def test_profiles_are_grouped_by_a_behaviour() -> None:
    """Each group agrees in the behaviour, and all groups together are all profiles."""
    assert grouped([OLD, NEW, NEWER], "fencing") == [[OLD], [NEW, NEWER]]
    groups = grouped(PROFILES, "json_huge_exponent")
    assert len(groups) == len({profile.json_huge_exponent for profile in PROFILES})
    assert sorted(profile.release for group in groups for profile in group) == sorted(
        profile.release for profile in PROFILES
    )
