"""`--hazards`: records on which a worker of a release chokes, which no view can show."""

from collections.abc import Mapping
from typing import Any

from controlplane.cli import records
from controlplane.cli.inspect.overview import heading, vector
from controlplane.cli.printing import count, print_json, say, table
from controlplane.cli.sources import Source
from controlplane.core.entry import Entry, Position
from controlplane.core.hazards import Danger, Hazard, hazards
from controlplane.core.profiles import Profile
from controlplane.core.redact import redacted_text

_STYLES = {Danger.STOPS_WORKER: "red", Danger.LOSES_BATCH: "red", Danger.READ_FAILS: "red"}


async def show(source: Source, profile: Profile, output: str, connector: str | None) -> None:
    """Print every hazard, worst first; of one connector: also those that hit every connector."""
    entries = await source.entries()
    found = [
        one
        for one in hazards(entries, profile, topics=source.topics, exactly_once=source.exactly_once)
        if connector is None or one.connector in ("", connector)
    ]
    by_place = {entry.position: entry for entry in entries}
    if output == "json":
        told = {"profile": profile.release, "exactly_once": source.exactly_once}
        print_json(source.about | told | {"hazards": [_document(one, by_place) for one in found]})
        return
    _print(source, found, by_place)
    say(f"{count(len(found), 'hazard')} where {heading(profile, source)}")
    say(f"read up to {vector(source)}")


def _print(source: Source, found: list[Hazard], by_place: Mapping[Position, Entry]) -> None:
    if not found:
        return
    rows = [
        (
            one.danger.value,
            records.place(one.position, source.topics),
            records.key(by_place[one.position]),
            one.connector,
            redacted_text(one.reason),
        )
        for one in found
    ]
    styles = {number: _STYLES.get(one.danger, "") for number, one in enumerate(found)}
    table(("DANGER", "RECORD", "KEY", "CONNECTOR", "WHAT HAPPENS"), rows, styles)
    say()


def _document(one: Hazard, by_place: Mapping[Position, Entry]) -> dict[str, Any]:
    return {
        "danger": one.danger.value,
        "reason": redacted_text(one.reason),
        "connector": one.connector or None,
        "record": records.document(by_place[one.position]),
    }
