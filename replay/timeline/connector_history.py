"""History of one connector: every record that concerns it, and its effect."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold
from controlplane.core.order import RankedEntry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.topics.key_owners import owner
from controlplane.core.views.history import HistoryEvent, HistoryFold


class RecordEffect(Enum):
    """Effect of a record on the connector."""

    APPLIED = "applied"
    PENDING = "pending"
    """Stored until a commit arrives."""
    HEARD = "heard"
    """Read, but shown in no table of `replay state`: a request to restart, or a note that producers
    are fenced."""
    NO_CHANGE = "no change"
    """Repeats a known fact."""
    IGNORED = "ignored"
    """Unusable: skipped, or fatal to its batch or to a worker; the event says which."""
    NOT_SEEN = "not seen"
    """Record of an aborted transaction, which this worker skips."""


class EventEffect(NamedTuple):
    """Event of a record, and its effect on the connector."""

    event: HistoryEvent
    meaning: RecordEffect


class HistoryReader(NamedTuple):
    """Connector and release of a history."""

    connector: str
    profile: Profile
    topics: Topics
    exactly_once: bool


class HistoryPass:
    """Yields the effects of each record of a connector; `NO_CHANGE` for a record without any."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        topics, support = reader.topics, reader.exactly_once
        self._worker = Fold(reader.profile, topics=topics, exactly_once=support)
        self._reading = HistoryFold(reader.connector, reader.profile, topics)
        self._owners: dict[tuple[str, bytes | None], str | None] = {}

    def take(self, records: Iterable[RankedEntry]) -> Iterator[EventEffect]:
        """Process further records, in the one order."""
        for _, _, _, topic, entry in records:
            if self._owner(topic, entry.key) != self._reader.connector:
                continue
            if entry.aborted and not self._worker.sees_aborted(topic):
                yield _quiet(entry, RecordEffect.NOT_SEEN, "of an aborted transaction")
                continue
            events = list(self._reading.apply(entry))
            if not events:
                yield _quiet(entry, RecordEffect.NO_CHANGE, "what was known already")
            for event in events:
                yield EventEffect(event, _meaning(event))

    def _owner(self, topic: str, key: bytes | None) -> str | None:
        place = topic, key
        if place not in self._owners:
            self._owners[place] = owner(*place, self._reader.topics, self._reader.profile)
        return self._owners[place]


def _quiet(entry: Entry, meaning: RecordEffect, note: str) -> EventEffect:
    return EventEffect(HistoryEvent(entry, None, "", note=note), meaning)


def _meaning(event: HistoryEvent) -> RecordEffect:
    return RecordEffect.APPLIED if event.aspect else _EFFECTS.get(event.item, RecordEffect.IGNORED)


_EFFECTS = {
    "connector": RecordEffect.APPLIED,
    "task config": RecordEffect.PENDING,
    "fencing": RecordEffect.HEARD,
    "restart": RecordEffect.HEARD,
}
"""Effect of an event without an aspect, by its item. An event with any other item explains an
unusable record."""
