"""Laws of hazards: sharing work between releases changes no hazard."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, Fold
from controlplane.core.order import in_order
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import PROFILES, RELEASES, Profile
from controlplane.core.views.hazards import Danger, Hazard, hazards, hazards_of_each
from tests.conftest import FEWER_EXAMPLES, examples
from tests.laws.entries import logs, profiles

EVERY = [Profile.of(release) for release in RELEASES]
THROWN = {FateKind.POISON: Danger.STOPS_WORKER, FateKind.LOSES_BATCH: Danger.LOSES_BATCH}


@settings(max_examples=examples(20, proved=10_000))
@given(logs(), st.booleans())
def test_hazards_together_equal_hazards_alone(entries: list[Entry], exactly_once: bool) -> None:
    """Each release has the same hazards, alone or together with others."""
    together = hazards_of_each(entries, PROFILES, exactly_once=exactly_once)
    alone = [
        (profile, hazards(entries, profile, exactly_once=exactly_once)) for profile in PROFILES
    ]
    assert together == alone


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), profiles, st.booleans())
def test_records_that_throw_are_hazards(
    entries: list[Entry], profile: Profile, exactly_once: bool
) -> None:
    """Hazards name every record at which folding the whole log throws, and no other."""
    fold = Fold(profile, exactly_once=exactly_once)
    fates = [(entry, fold.apply(entry).kind) for entry in in_order(entries)]
    thrown = {(THROWN[kind], entry.position) for entry, kind in fates if kind in THROWN}
    found_hazards = hazards(entries, profile, exactly_once=exactly_once)
    assert {
        (hazard.danger, hazard.position) for hazard in found_hazards if throws(hazard)
    } == thrown


def throws(hazard: Hazard) -> bool:
    """True if a hazard is about one record that throws."""
    return hazard.danger in THROWN.values() and "more than one partition" not in hazard.reason


def asked_count(key: bytes) -> int:
    """Number of releases for which an offset's key is decoded; others share their results."""
    asked_profiles: list[Profile] = []

    def ask(profile: Profile) -> object:
        asked_profiles.append(profile)
        return decode_partition(key, profile)

    answers = list(of_each(EVERY, ask))
    assert answers == [decode_partition(key, profile) for profile in EVERY]
    return len(asked_profiles)


def test_a_key_is_decoded_once_for_releases_that_read_it_alike() -> None:
    """A plain key is decoded once, a fraction four times, an invalid number more often."""
    assert asked_count(b'["c",{"file":"a","line":1}]') == 1
    assert asked_count(b'["c",{"file":"a","line":1.5}]') == 4
    assert asked_count(b'["c",{"file":01}]') > 4


def test_a_behaviour_that_is_read_late_distinguishes_releases() -> None:
    """A call may read a behaviour twice, or only for some releases."""

    def ask(profile: Profile) -> tuple[bool, ...]:
        if profile.statuses and profile.statuses:
            return profile.status_topics, profile.status_version
        return (profile.target_states,)

    assert list(of_each(EVERY, ask)) == [ask(profile) for profile in EVERY]
