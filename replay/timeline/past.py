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


class Past:
    """What each record meant, those that meant nothing included."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        topics, support = reader.topics, reader.exactly_once
        self._worker = Fold(reader.profile, topics=topics, exactly_once=support)
        self._reading = Reading(reader.connector, reader.profile, topics)
        self._owners: dict[tuple[str, bytes | None], str | None] = {}

    def take(self, records: Iterable[Placed]) -> Iterator[Told]:
        """Go on with records, which come in the one order."""
        for _, _, _, topic, entry in records:
            if self._owner(topic, entry.key) != self._reader.connector:
                continue
            if entry.aborted and not self._worker.sees_aborted(topic):
                yield _quiet(entry, Meaning.NOT_SEEN, "of an aborted transaction")
                continue
            events = list(self._reading.apply(entry))
            if not events:
                yield _quiet(entry, Meaning.NO_CHANGE, "what was known already")
            for event in events:
                yield Told(event, _meaning(event))

    def _owner(self, topic: str, key: bytes | None) -> str | None:
        place = topic, key
        if place not in self._owners:
            self._owners[place] = owner(*place, self._reader.topics, self._reader.profile)
        return self._owners[place]


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
