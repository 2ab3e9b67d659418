"""Hazards of a log as rows and documents: the same words in all command lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.entry import Entry, Position
from controlplane.core.releases.profiles import KIP, NEWEST, RELEASES, Profile
from controlplane.core.state import Topics
from controlplane.core.text import record_text
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count
from controlplane.core.topics.key_owners import owner
from controlplane.core.views.hazards import Hazard, hazards, hazards_of_each, worst_first

HEADS = ("DANGER", "RELEASES", "RECORD", "KEY", "CONNECTOR", "WHAT HAPPENS")
"""Columns of the table; without several releases, `RELEASES` is left out."""


class HazardHit(NamedTuple):
    """Hazard with the releases that it affects; empty if only one release was examined."""

    hazard: Hazard
    releases: tuple[str, ...] = ()


class HazardReader(NamedTuple):
    """Worker that would read a log."""

    profile: Profile | None
    """None: workers of all releases."""
    topics: Topics
    exactly_once: bool

    def hits(self, entries: Iterable[Entry], connector: str | None = None) -> list[HazardHit]:
        """Hazards of a log, the worst first. With `connector`, those of others are left out."""
        every = self._of_all(entries) if self.profile is None else self._of(entries, self.profile)
        return [
            hit for hit in every if connector is None or hit.hazard.connector in (None, connector)
        ]

    def summary(self, where: str, number: int) -> str:
        """Last line of a list: number of hazards, and the workers that would meet them."""
        hazard_count = count(number, "hazard") if number else "no hazards"
        if self.profile is not None:
            worker = worker_named(self.profile, exactly_once=self.exactly_once)
            return f"{worker} would meet {hazard_count} in {where}"
        first = self._profiles()[0].release
        support = " with exactly-once support" if self.exactly_once else ""
        workers = f"workers of all releases{support}, {first} to {NEWEST},"
        return f"{workers} would meet {hazard_count} in {where}"

    def cells(self, hit: HazardHit, entry: Entry) -> tuple[str, ...]:
        """Row of a hazard under `HEADS`; `entry` is the record behind it."""
        hazard = hit.hazard
        named = owner(entry.topic, entry.key, self.topics, Profile.of(KIP))
        return (
            hazard.danger.value,
            ", ".join(spans(hit.releases)),
            record_text.place(hazard.position, self.topics),
            record_text.key(entry),
            (named if hazard.connector is None else hazard.connector) or "",
            redacted_text(hazard.reason),
        )

    def _of(self, entries: Iterable[Entry], profile: Profile) -> list[HazardHit]:
        listed = hazards(entries, profile, topics=self.topics, exactly_once=self.exactly_once)
        return [HazardHit(hazard) for hazard in listed]

    def _of_all(self, entries: Iterable[Entry]) -> list[HazardHit]:
        """Hazards of all releases; equal hazards of several releases become one."""
        releases: dict[Hazard, list[str]] = {}
        for profile, release_hazards in hazards_of_each(
            entries, self._profiles(), topics=self.topics, exactly_once=self.exactly_once
        ):
            for hazard in dict.fromkeys(release_hazards):
                releases.setdefault(hazard, []).append(profile.release)
        ordered = sorted(releases, key=worst_first)
        return [HazardHit(hazard, tuple(releases[hazard])) for hazard in ordered]

    def _profiles(self) -> list[Profile]:
        """All releases, or those with exactly-once support if the log is read with it."""
        profiles = map(Profile.of, RELEASES)
        return [
            profile for profile in profiles if profile.exactly_once_support or not self.exactly_once
        ]


def worker_named(profile: Profile, *, exactly_once: bool) -> str:
    """A worker in words: `a worker of 3.9.2 with exactly-once support`."""
    support = " with exactly-once support" if exactly_once else ""
    release = profile.release
    return ("our own worker (kip)" if release == KIP else f"a worker of {release}") + support


def hit_document(hit: HazardHit, by_position: Mapping[Position, Entry]) -> dict[str, Any]:
    """Hazard as a JSON document, with its record."""
    hazard = hit.hazard
    return {
        "danger": hazard.danger.value,
        "reason": redacted_text(hazard.reason),
        "connector": hazard.connector,
        "record": record_text.document(by_position[hazard.position]),
        **({"releases": list(spans(hit.releases))} if hit.releases else {}),
    }


def spans(releases: Sequence[str]) -> Iterator[str]:
    """Ranges of consecutive releases: `0.9.0.0 to 3.2.3`."""
    numbers = [RELEASES.index(release) for release in releases]
    first = 0
    for index in range(len(numbers)):
        if index + 1 == len(numbers) or numbers[index + 1] != numbers[index] + 1:
            oldest, newest = releases[first], releases[index]
            yield oldest if oldest == newest else f"{oldest} to {newest}"
            first = index + 1


def without_releases(cells: tuple[str, ...]) -> tuple[str, ...]:
    """A row, or the heads, without the column `RELEASES`."""
    return cells[:1] + cells[2:]
