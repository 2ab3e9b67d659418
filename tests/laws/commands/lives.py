"""Random lives: drawn, executed and checked; the shortest one that breaks a law."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from controlplane.core.releases.profiles import KIP, Profile
from tests.laws.commands.crashes import crashes
from tests.laws.commands.events import CommandEvent, Event
from tests.laws.commands.execution import IMPATIENT, PATIENT, SimulatedCluster, entries_in, live
from tests.laws.commands.life import Life, life_of
from tests.laws.commands.random_events import Drawing
from tests.laws.commands.storage import LogOpener, in_memory
from tests.laws.commands.table import BrokenLaw, judge

RELEASES = (*[KIP] * 6, "2.8", "3.4", "3.6", "3.7", "3.9", "4.3")
"""Releases of the lives: half of them `kip`, else one release for each way of writing."""

EVENTS = (3, 20)
"""Number of events of a life: least and greatest."""

MOST_TRIES = 500
"""Attempts to find a shorter life that breaks the same law; each takes some hundredths of a second.
"""

New = Callable[[], LogOpener]


class Fate(NamedTuple):
    """Release, mode and events of a life."""

    release: str
    exactly_once: bool
    patient: bool
    events: Sequence[Event]


def drawn(chance: Random) -> Fate:
    """Draw a fate: release, mode and events."""
    profile = Profile.of(chance.choice(RELEASES))
    exactly_once = profile.exactly_once_support and chance.random() < 1 / 3
    events = Drawing(chance, profile).events(chance.randint(*EVENTS))
    return Fate(profile.release, exactly_once, chance.choice((True, False)), events)


async def lived(fate: Fate, new: New = in_memory) -> Life:
    """The executed life, with the outcome of each crash that it could have had."""
    limits = PATIENT if fate.patient else IMPATIENT
    cluster = SimulatedCluster(
        Profile.of(fate.release), exactly_once=fate.exactly_once, limits=limits
    )
    place = new()
    journal = await live(place, fate.events, cluster)
    async with place() as log:
        life = life_of(await entries_in(log), journal, cluster)
    return life._replace(crashes=await crashes(life, new))


def judged(fate: Fate, new: New = in_memory) -> dict[str, int]:
    """Return the number of cases for each law.

    Raises: BrokenLaw if a law does not hold; the message has the shortest life that breaks it.
    """
    try:
        return judge(asyncio.run(lived(fate, new)))
    except BrokenLaw as broken:
        shortest, violation = _shortest(fate, broken, new)
        raise BrokenLaw(broken.name, f"{violation.why}\n{_story(shortest)}") from None


def _shortest(fate: Fate, broken: BrokenLaw, new: New) -> tuple[Fate, BrokenLaw]:
    """The shortest life that still breaks the law, within a number of tries."""
    tries, shorter = MOST_TRIES, _shorter(fate)
    while tries and (candidate := next(shorter, None)) is not None:
        tries -= 1
        try:
            judge(asyncio.run(lived(candidate, new)))
        except BrokenLaw as violation:
            if violation.name == broken.name:
                fate, broken, shorter = candidate, violation, _shorter(candidate)
    return fate, broken


def _shorter(fate: Fate) -> Iterator[Fate]:
    for number, event in enumerate(fate.events):
        before, after = fate.events[:number], fate.events[number + 1 :]
        yield fate._replace(events=[*before, *after])
        if isinstance(event, CommandEvent) and event != CommandEvent(event.command):
            yield fate._replace(events=[*before, CommandEvent(event.command), *after])


def _story(fate: Fate) -> str:
    who = fate.release + ", exactly-once" * fate.exactly_once + ", impatient" * (not fate.patient)
    return "\n  ".join([f"{who}:", *map(str, fate.events)])
