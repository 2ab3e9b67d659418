"""Release changes: their direction, and the release lines in between."""

import pytest

from controlplane.core.releases.profiles import RELEASES, Profile
from replay.compat import BadReleaseChange, ReleaseChange, RolloutMode, roll, steps_of


def change(start: str, goal: str, mode: RolloutMode | None = None) -> ReleaseChange:
    """Release change between two releases by name."""
    return roll(Profile.of(start), Profile.of(goal), mode)


def test_the_direction_is_seen() -> None:
    """Without a mode, a change to an older release is a downgrade, and any other an upgrade.

    In both, all workers of the old release stop before workers of the new one start.
    """
    assert change("3.4", "3.9").mode is RolloutMode.UPGRADE
    assert change("3.9", "3.4").mode is RolloutMode.DOWNGRADE
    assert change("4.3", "kip").mode is RolloutMode.UPGRADE
    assert change("3.9", "3.9").mode is RolloutMode.UPGRADE


@pytest.mark.parametrize(
    ("start", "goal", "mode"),
    [("3.4", "3.9", RolloutMode.DOWNGRADE), ("3.9", "3.4", RolloutMode.UPGRADE)],
)
def test_the_wrong_direction_is_refused(start: str, goal: str, mode: RolloutMode) -> None:
    """A mode that contradicts the two releases is refused."""
    with pytest.raises(BadReleaseChange, match=f"no {mode.value}: give --mode"):
        change(start, goal, mode)


def test_older_and_newer_do_not_depend_on_the_direction() -> None:
    """The two releases alone decide which behaviours the change gains."""
    upgrade, back = change("3.4", "3.9"), change("3.9", "3.4")
    assert (upgrade.older, upgrade.newer) == (back.older, back.newer)
    assert upgrade.gains("stops")
    assert not upgrade.gains("restart_requests")


def test_both_releases_start_workers_in_a_rolling_change() -> None:
    """In a rolling change, workers of both releases may start."""
    assert [profile.release for profile in change("3.4.1", "3.9.1").starting] == ["3.9.1"]
    both = change("3.4.1", "3.9.1", RolloutMode.ROLLING).starting
    assert [profile.release for profile in both] == ["3.4.1", "3.9.1"]


def test_a_change_passes_each_line_that_differs() -> None:
    """Both directions go through the same release lines, and each step keeps the mode."""
    upward = steps_of(change("3.4.1", "3.9.1", RolloutMode.ROLLING))
    back = steps_of(change("3.9.1", "3.4.1", RolloutMode.ROLLING))
    names = [step.start.release for step in upward] + [upward[-1].goal.release]
    assert names == ["3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1"]
    assert [step.goal.release for step in reversed(back)] + [back[0].start.release] == names
    assert {step.mode for step in (*upward, *back)} == {RolloutMode.ROLLING}


def test_neighbouring_releases_are_one_step_apart() -> None:
    """Neighbouring releases have no line in between; equal releases are one step, too."""
    for start, goal in (("3.8", "3.9"), ("3.9.0", "3.9.1"), ("3.9", "3.9")):
        (step,) = steps_of(change(start, goal))
        assert (step.start, step.goal) == (Profile.of(start), Profile.of(goal))


def test_each_line_differs_from_its_neighbours() -> None:
    """All lines are known releases, and each one differs from its neighbours."""
    way = steps_of(change(RELEASES[0], RELEASES[-1]))
    stops = [step.start.release for step in way]
    assert stops == sorted(stops, key=RELEASES.index)
    assert all(step.start.release != step.goal.release for step in way)
    assert way[-1].goal.release == RELEASES[-1]
