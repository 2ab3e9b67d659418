"""`--hazards`: records that stop a worker, make reads fail or split a group.

Without `--release` the hazards of all releases are listed: a record that stops one release is often
harmless to the next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.cli.inspect.overview import heading, vector
from controlplane.cli.opened_log import InputLog
from controlplane.core.entry import Entry, Position
from controlplane.core.releases.profiles import KIP, NEWEST, RELEASES, Profile
from controlplane.core.text import record_text as records
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.safe_text import count
from controlplane.core.topics.key_owners import owner
from controlplane.core.views.hazards import Danger, Hazard, hazards, hazards_of_each, worst_first
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

_STYLES = {Danger.STOPS_WORKER: "red", Danger.LOSES_BATCH: "red", Danger.READ_FAILS: "red"}


class HazardHit(NamedTuple):
    """Hazard with the releases that it affects; empty if only one release was examined."""

    hazard: Hazard
    releases: tuple[str, ...] = ()


async def show(
    source: InputLog, profile: Profile | None, output: str, connector: str | None
) -> int:
    """Print the hazards for one release or for all (None), worst first; return their number.

    With `connector`, hazards of other connectors are left out.
    """
    entries = await source.entries()
    every = _of_all(source, entries) if profile is None else _of(source, entries, profile)
    hits = [hit for hit in every if connector is None or hit.hazard.connector in (None, connector)]
    by_position = {entry.position: entry for entry in entries}
    if output == "json":
        reader = {
            "profile": profile.release if profile else None,
            "exactly_once": source.exactly_once,
        }
        documents = [_document(hit, by_position) for hit in hits]
        print_json(source.about | reader | {"hazards": documents})
        return len(hits)
    _print(source, hits, by_position)
    say(_summary(source, profile, len(hits)))
    say(f"read up to {vector(source)}")
    return len(hits)


def _of(source: InputLog, entries: Iterable[Entry], profile: Profile) -> list[HazardHit]:
    release_hazards = hazards(
        entries, profile, topics=source.topics, exactly_once=source.exactly_once
    )
    return [HazardHit(hazard) for hazard in release_hazards]


def _of_all(source: InputLog, entries: Iterable[Entry]) -> list[HazardHit]:
    """Hazards of all releases; equal hazards of several releases become one."""
    releases: dict[Hazard, list[str]] = {}
    for profile, release_hazards in hazards_of_each(
        entries, _profiles(source), topics=source.topics, exactly_once=source.exactly_once
    ):
        for hazard in dict.fromkeys(release_hazards):
            releases.setdefault(hazard, []).append(profile.release)
    ordered = sorted(releases, key=worst_first)
    return [HazardHit(hazard, tuple(releases[hazard])) for hazard in ordered]


def _profiles(source: InputLog) -> list[Profile]:
    """All releases, or those with exactly-once support if the log is read with it."""
    profiles = map(Profile.of, RELEASES)
    return [
        profile for profile in profiles if profile.exactly_once_support or not source.exactly_once
    ]


def spans(releases: Sequence[str]) -> Iterator[str]:
    """Ranges of consecutive releases: `0.9.0.0 to 3.2.3`."""
    numbers = [RELEASES.index(release) for release in releases]
    first = 0
    for index in range(len(numbers)):
        if index + 1 == len(numbers) or numbers[index + 1] != numbers[index] + 1:
            oldest, newest = releases[first], releases[index]
            yield oldest if oldest == newest else f"{oldest} to {newest}"
            first = index + 1


def _summary(source: InputLog, profile: Profile | None, number: int) -> str:
    hazard_count = count(number, "hazard") if number else "no hazards"
    if profile is None:
        first = _profiles(source)[0].release
        support = " with exactly-once support" if source.exactly_once else ""
        workers = f"workers of all releases{support}, {first} to {NEWEST},"
        return f"{workers} would meet {hazard_count} in {source.where}"
    return heading(profile, source, f"would meet {hazard_count} in")


def _print(source: InputLog, hits: list[HazardHit], by_position: Mapping[Position, Entry]) -> None:
    if not hits:
        return
    heads: tuple[str, ...] = ("DANGER", "RELEASES", "RECORD", "KEY", "CONNECTOR", "WHAT HAPPENS")
    rows = [_cells(source, hit, by_position[hit.hazard.position]) for hit in hits]
    if not any(hit.releases for hit in hits):
        heads, rows = _without_releases(heads), list(map(_without_releases, rows))
    styles = {number: _STYLES.get(hit.hazard.danger, "") for number, hit in enumerate(hits)}
    table(heads, rows, styles, spare=("KEY",))
    say()


def _cells(source: InputLog, hit: HazardHit, entry: Entry) -> tuple[str, ...]:
    hazard = hit.hazard
    named = owner(entry.topic, entry.key, source.topics, Profile.of(KIP))
    return (
        hazard.danger.value,
        ", ".join(spans(hit.releases)),
        records.place(hazard.position, source.topics),
        records.key(entry),
        (named if hazard.connector is None else hazard.connector) or "",
        redacted_text(hazard.reason),
    )


def _without_releases(cells: tuple[str, ...]) -> tuple[str, ...]:
    return cells[:1] + cells[2:]


def _document(hit: HazardHit, by_position: Mapping[Position, Entry]) -> dict[str, Any]:
    hazard = hit.hazard
    return {
        "danger": hazard.danger.value,
        "reason": redacted_text(hazard.reason),
        "connector": hazard.connector,
        "record": records.document(by_position[hazard.position]),
        **({"releases": list(spans(hit.releases))} if hit.releases else {}),
    }
