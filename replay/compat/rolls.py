"""A change of release: from which to which, and whether workers of both live side by side."""

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

import msgspec

from controlplane.core.profiles import RELEASES, Profile
from replay.errors import ReplayError


class BadRoll(ReplayError):
    """A way of changing the release that is none. The message says why, and what to say instead."""


class Mode(Enum):
    """How the workers are changed."""

    UPGRADE = "upgrade"
    """All workers are stopped; then newer ones are started."""
    DOWNGRADE = "downgrade"
    """All workers are stopped; then older ones are started."""
    ROLLING = "rolling"
    """One worker after the other: for a while both releases read and write the same log."""


class Roll(msgspec.Struct, frozen=True):
    """One change of release."""

    start: Profile
    """What the workers are now."""
    goal: Profile
    """What they are to be."""
    mode: Mode

    @property
    def older(self) -> Profile:
        """The older of the two."""
        return min(self.start, self.goal, key=_age)

    @property
    def newer(self) -> Profile:
        """The newer of the two; of two alike, the goal."""
        return self.start if self.goal == self.older else self.goal

    @property
    def mixed(self) -> bool:
        """Whether workers of both releases live side by side for a while."""
        return self.mode is Mode.ROLLING

    @property
    def ahead(self) -> tuple[Profile, ...]:
        """The releases whose workers start to read the log from its beginning."""
        return (self.start, self.goal) if self.mixed else (self.goal,)

    def gains(self, field: str) -> bool:
        """Whether the newer release has a behaviour (a field of `Profile`) that the older lacks."""
        return bool(getattr(self.newer, field)) and not getattr(self.older, field)

    def loses(self, field: str) -> bool:
        """Whether the older release has a behaviour that the newer one lacks."""
        return bool(getattr(self.older, field)) and not getattr(self.newer, field)

    def __str__(self) -> str:
        return change_text(self.start.release, self.goal.release, self.mode.value)


def change_text(start: str, goal: str, mode: str) -> str:
    """A change of release as people read it; both ends may be the same release."""
    return f"{start} to {goal}, {'no change of release' if start == goal else mode}"


def roll(start: Profile, goal: Profile, mode: Mode | None = None) -> Roll:
    """A change of release; without a mode, all workers are stopped in between.

    Raises:
        BadRoll: an upgrade that leads back, or the other way round.
    """
    back, forwards = _age(goal) < _age(start), _age(goal) > _age(start)
    usual = Mode.DOWNGRADE if back else Mode.UPGRADE
    if (mode is Mode.UPGRADE and back) or (mode is Mode.DOWNGRADE and forwards):
        raise BadRoll(
            f"{goal.release} is {'newer' if forwards else 'older'} than {start.release}, so going "
            f"there is no {mode.value}: say --mode {usual.value}, or leave it out"
        )
    return Roll(start, goal, mode or usual)


def steps_of(whole: Roll) -> list[Roll]:
    """The same way one release line at a time: the last patch of every line in between.

    Lines that read, write and answer alike are one step.
    """
    stops = [whole.start]
    for profile in _between(whole.start, whole.goal):
        if not _alike(profile, stops[-1]):
            stops.append(profile)
    if len(stops) > 1 and _alike(stops[-1], whole.goal):
        stops.pop()
    stops.append(whole.goal)
    return [Roll(start, goal, whole.mode) for start, goal in pairwise(stops)]


def _between(start: Profile, goal: Profile) -> Iterator[Profile]:
    """The last patch of each line that lies strictly between two releases, in the way's order."""
    ends = {_line(release): Profile.of(release) for release in RELEASES}
    ours = {_line(start.kafka_release), _line(goal.kafka_release)}
    first, last = sorted((start, goal), key=_age)
    passed = [
        profile
        for line, profile in ends.items()
        if line not in ours and _age(first) < _age(profile) < _age(last)
    ]
    yield from passed if first == start else reversed(passed)


def _line(release: str) -> str:
    return release.rpartition(".")[0]


def _alike(one: Profile, other: Profile) -> bool:
    """Whether two releases differ in nothing but their name."""
    return msgspec.structs.replace(one, release=other.release) == other


def _age(profile: Profile) -> tuple[int, bool]:
    """The place of a release among all; our own profile comes behind the newest of Kafka's."""
    return RELEASES.index(profile.kafka_release), profile.release not in RELEASES
