"""Release change: start, goal, and the rollout mode."""

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

import msgspec

from controlplane.core.releases.profiles import (
    NEWEST,
    RELEASES,
    Profile,
    UnknownRelease,
    release_line,
    resolve,
)
from replay.errors import ReplayError


class BadReleaseChange(ReplayError):
    """Invalid release change. The message gives the reason and a remedy."""


class RolloutMode(Enum):
    """Way of replacing the workers: all at once, or one by one."""

    UPGRADE = "upgrade"
    """All workers stop; then newer ones start."""
    DOWNGRADE = "downgrade"
    """All workers stop; then older ones start."""
    ROLLING = "rolling"
    """Workers are replaced one by one: both releases read and write the same log for a while."""


class ReleaseChange(msgspec.Struct, frozen=True):
    """Release change of all workers of a cluster."""

    start: Profile
    """Present release of the workers."""
    goal: Profile
    """Future release of the workers."""
    mode: RolloutMode

    @property
    def older(self) -> Profile:
        """The older of the two releases."""
        return min(self.start, self.goal, key=_age)

    @property
    def newer(self) -> Profile:
        """The newer of the two releases."""
        return self.start if self.goal == self.older else self.goal

    @property
    def mixed(self) -> bool:
        """True if workers of both releases run at the same time."""
        return self.mode is RolloutMode.ROLLING

    @property
    def starting(self) -> tuple[Profile, ...]:
        """Releases of workers that may start meanwhile; they read the log from its beginning."""
        return (self.start, self.goal) if self.mixed else (self.goal,)

    def gains(self, field: str) -> bool:
        """True if only the newer release has a behaviour (a field of `Profile`)."""
        return bool(getattr(self.newer, field)) and not getattr(self.older, field)

    def loses(self, field: str) -> bool:
        """True if only the older release has a behaviour."""
        return bool(getattr(self.older, field)) and not getattr(self.newer, field)

    def __str__(self) -> str:
        return change_text(self.start.release, self.goal.release, self.mode.value)


def check_predictable(*names: str) -> None:
    """Refuse releases of lines newer than all known ones: nobody knows how these read a log.

    An unknown patch of a known line passes, because it is read as the last known patch.

    Raises:
        UnknownRelease: a release is too new, or there is no such release.
    """
    for name in names:
        resolved = resolve(name)
        line = release_line(resolved.profile.kafka_release)
        if resolved.warning and not name.strip().startswith(f"{line}."):
            raise UnknownRelease(
                f"release {name} is newer than {NEWEST}, the newest known release, so its effects "
                f"cannot be predicted: use {RELEASES[0]} to {NEWEST}, or a line such as {line}"
            )


def change_text(start: str, goal: str, mode: str) -> str:
    """Format a release change; both releases may be equal."""
    return f"{start} to {goal}, {'no change of release' if start == goal else mode}"


def roll(start: Profile, goal: Profile, mode: RolloutMode | None = None) -> ReleaseChange:
    """Create a release change; without a mode, all workers stop in between.

    Raises:
        BadReleaseChange: the mode contradicts the direction.
    """
    back, forwards = _age(goal) < _age(start), _age(goal) > _age(start)
    usual = RolloutMode.DOWNGRADE if back else RolloutMode.UPGRADE
    if (mode is RolloutMode.UPGRADE and back) or (mode is RolloutMode.DOWNGRADE and forwards):
        raise BadReleaseChange(
            f"{goal.release} is {'newer' if forwards else 'older'} than {start.release}, so this "
            f"change is no {mode.value}: give --mode {usual.value}, or leave --mode out"
        )
    return ReleaseChange(start, goal, mode or usual)


def steps_of(whole: ReleaseChange) -> list[ReleaseChange]:
    """Split a change into single steps through the last patch of each release line in between.

    Lines with equal behaviour are one step.
    """
    stops = [whole.start]
    for profile in _between(whole.start, whole.goal):
        if not _alike(profile, stops[-1]):
            stops.append(profile)
    if len(stops) > 1 and _alike(stops[-1], whole.goal):
        stops.pop()
    stops.append(whole.goal)
    return [ReleaseChange(start, goal, whole.mode) for start, goal in pairwise(stops)]


def _between(start: Profile, goal: Profile) -> Iterator[Profile]:
    """Last patch of each line between two releases, in the direction of the change."""
    ends = {release_line(release): Profile.of(release) for release in RELEASES}
    ours = {release_line(start.kafka_release), release_line(goal.kafka_release)}
    first, last = sorted((start, goal), key=_age)
    passed = [
        profile
        for line, profile in ends.items()
        if line not in ours and _age(first) < _age(profile) < _age(last)
    ]
    yield from passed if first == start else reversed(passed)


def _alike(profile: Profile, other: Profile) -> bool:
    """True if two releases differ in their name only."""
    return msgspec.structs.replace(profile, release=other.release) == other


def _age(profile: Profile) -> tuple[int, bool]:
    """Sort key of a release by age; the control plane's own profile follows Kafka's newest."""
    return RELEASES.index(profile.kafka_release), profile.release not in RELEASES
