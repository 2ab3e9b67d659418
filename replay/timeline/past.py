"""The past of one connector: every record that concerns it, and what it meant for it."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold
from controlplane.core.history import Event, Reading
from controlplane.core.order import Placed
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.state import Topics


class Meaning(Enum):
    """What a record meant for the connector that it concerns."""

    APPLIED = "applied"
    PENDING = "pending"
    """Kept until a commit comes."""
    HEARD = "heard"
    """An event, or a fact that nobody is shown."""
    NO_CHANGE = "no change"
    """It says what was known already."""
    IGNORED = "ignored"
    """Of no use, and passed over; the event says how, and why."""
    NOT_SEEN = "not seen"
    """Of an aborted transaction, which this worker does not read."""


class Told(NamedTuple):
    """One thing that a record meant."""

    event: Event
    meaning: Meaning


class Reader(NamedTuple):
    """Whose past, through whose eyes."""

    connector: str
    profile: Profile
    topics: Topics
    exactly_once: bool


def past(records: Iterable[Placed], reader: Reader) -> Iterator[Told]:
    """What each record meant, those that meant nothing included. Records come in the one order."""
    worker = Fold(reader.profile, topics=reader.topics, exactly_once=reader.exactly_once)
    reading = Reading(reader.connector, reader.profile, reader.topics)
    owners: dict[tuple[str, bytes | None], str | None] = {}
    for _, _, _, topic, entry in records:
        place = topic, entry.key
        if place not in owners:
            owners[place] = owner(*place, reader.topics, reader.profile)
        if owners[place] != reader.connector:
            continue
        if entry.aborted and not worker.sees_aborted(topic):
            yield _quiet(entry, Meaning.NOT_SEEN, "of an aborted transaction")
            continue
        events = list(reading.apply(entry))
        if not events:
            yield _quiet(entry, Meaning.NO_CHANGE, "what was known already")
        for event in events:
            yield Told(event, _meaning(event))


def _quiet(entry: Entry, meaning: Meaning, note: str) -> Told:
    return Told(Event(entry, None, "", note=note), meaning)


def _meaning(event: Event) -> Meaning:
    return Meaning.APPLIED if event.aspect else _SPOKEN.get(event.item, Meaning.IGNORED)


_SPOKEN = {
    "connector": Meaning.APPLIED,
    "task config": Meaning.PENDING,
    "fencing": Meaning.HEARD,
    "restart": Meaning.HEARD,
}
"""By what an event is about that is no fact; all others tell why a record was of no use."""
