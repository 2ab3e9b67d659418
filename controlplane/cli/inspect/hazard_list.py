"""`--hazards`: records on which a worker of a release chokes, which no view can show.

Without a release every one is asked: what stops one worker is often nothing to the next.
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
    """A hazard, and the releases that meet it; none where only one was asked."""

    hazard: Hazard
    releases: tuple[str, ...] = ()


async def show(
    source: InputLog, profile: Profile | None, output: str, connector: str | None
) -> int:
    """Print every hazard, worst first, for one release or for all (None); return how many.

    Of one connector: also those that hit every connector.
    """
    entries = await source.entries()
    every = _of_all(source, entries) if profile is None else _of(source, entries, profile)
    found = [one for one in every if connector is None or one.hazard.connector in (None, connector)]
    by_place = {entry.position: entry for entry in entries}
    if output == "json":
        told = {
            "profile": profile.release if profile else None,
            "exactly_once": source.exactly_once,
        }
        print_json(source.about | told | {"hazards": [_document(one, by_place) for one in found]})
        return len(found)
    _print(source, found, by_place)
    say(_summary(source, profile, len(found)))
    say(f"read up to {vector(source)}")
    return len(found)


def _of(source: InputLog, entries: Iterable[Entry], profile: Profile) -> list[HazardHit]:
    found = hazards(entries, profile, topics=source.topics, exactly_once=source.exactly_once)
    return [HazardHit(one) for one in found]


def _of_all(source: InputLog, entries: Iterable[Entry]) -> list[HazardHit]:
    """Equal hazards of several releases are one."""
    releases: dict[Hazard, list[str]] = {}
    for profile, found in hazards_of_each(
        entries, _asked(source), topics=source.topics, exactly_once=source.exactly_once
    ):
        for hazard in dict.fromkeys(found):
            releases.setdefault(hazard, []).append(profile.release)
    return [HazardHit(one, tuple(releases[one])) for one in sorted(releases, key=worst_first)]


def _asked(source: InputLog) -> list[Profile]:
    """Every release whose workers can read as it is asked for."""
    profiles = map(Profile.of, RELEASES)
    return [one for one in profiles if one.exactly_once_support or not source.exactly_once]


def spans(releases: Sequence[str]) -> Iterator[str]:
    """Releases in the fewest words: `0.9.0.0 to 3.2.3`."""
    at = [RELEASES.index(release) for release in releases]
    first = 0
    for index in range(len(at)):
        if index + 1 == len(at) or at[index + 1] != at[index] + 1:
            one, other = releases[first], releases[index]
            yield one if one == other else f"{one} to {other}"
            first = index + 1


def _summary(source: InputLog, profile: Profile | None, found: int) -> str:
    many = count(found, "hazard") if found else "no hazards"
    if profile is None:
        first = _asked(source)[0].release
        support = " with exactly-once support" if source.exactly_once else ""
        who = f"workers of all releases{support}, {first} to {NEWEST},"
        return f"{who} would meet {many} in {source.where}"
    return heading(profile, source, f"would meet {many} in")


def _print(source: InputLog, found: list[HazardHit], by_place: Mapping[Position, Entry]) -> None:
    if not found:
        return
    heads: tuple[str, ...] = ("DANGER", "RELEASES", "RECORD", "KEY", "CONNECTOR", "WHAT HAPPENS")
    rows = [_cells(source, one, by_place[one.hazard.position]) for one in found]
    if not any(one.releases for one in found):
        heads, rows = _without_releases(heads), list(map(_without_releases, rows))
    styles = {number: _STYLES.get(one.hazard.danger, "") for number, one in enumerate(found)}
    table(heads, rows, styles, spare=("KEY",))
    say()


def _cells(source: InputLog, met: HazardHit, entry: Entry) -> tuple[str, ...]:
    hazard = met.hazard
    named = owner(entry.topic, entry.key, source.topics, Profile.of(KIP))
    return (
        hazard.danger.value,
        ", ".join(spans(met.releases)),
        records.place(hazard.position, source.topics),
        records.key(entry),
        (named if hazard.connector is None else hazard.connector) or "",
        redacted_text(hazard.reason),
    )


def _without_releases(cells: tuple[str, ...]) -> tuple[str, ...]:
    return cells[:1] + cells[2:]


def _document(met: HazardHit, by_place: Mapping[Position, Entry]) -> dict[str, Any]:
    hazard = met.hazard
    return {
        "danger": hazard.danger.value,
        "reason": redacted_text(hazard.reason),
        "connector": hazard.connector,
        "record": records.document(by_place[hazard.position]),
        **({"releases": list(spans(met.releases))} if met.releases else {}),
    }
