"""Tracking of facts about connectors, record by record, with the core's folds."""

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry
from controlplane.core.fold.config import ConfigFold
from controlplane.core.fold.offsets import OffsetFold
from controlplane.core.fold.status import StatusFold
from controlplane.core.java import json_codec
from controlplane.core.records import ActiveTopic, Invalid, Status, TaskConfig, TaskStatus
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.topics.key_owners import owner
from controlplane.core.views.diff import Aspect, plain_status
from replay.timeline.decoded_records import TimedRecord
from replay.timeline.intervals import (
    FactKey,
    FactValues,
    Interval,
    Moment,
    holds,
    of_config,
    of_status,
    status_fact,
)

AnyFold = ConfigFold | StatusFold | OffsetFold

_STATUS_ORDER = (Aspect.STATUS, Aspect.TASK_STATUS, Aspect.ACTIVE_TOPIC)
"""Aspects of the status topic, in the order of `of_status`."""


class TopicSelection(NamedTuple):
    """Part of a topic to track."""

    topic: str
    topics: Topics
    connectors: Collection[str] = ()
    """Only these connectors; empty means all."""
    aborted: bool = True
    """True if workers see records of aborted transactions in this topic."""


class TrackedFacts(NamedTuple):
    """Current facts of a connector, or of one of its source partitions."""

    connector: str
    facts: dict[FactKey, tuple[Any, Moment]]


class FactTracker:
    """Current facts of the connectors in a topic, each with its first record."""

    def __init__(
        self, selection: TopicSelection, profile: Profile, begun: "FactTracker | None" = None
    ) -> None:
        self.profile = profile
        self.selection = selection
        self.fold = _fold(selection, profile)
        self.facts_by_subject: dict[Hashable, TrackedFacts] = {}
        self.owners: dict[bytes | None, str | None] = {}
        self.status_facts: dict[bytes | None, FactKey] = {}
        """Fact that each key of the status topic is about."""
        self.unshared: set[Hashable] = set()
        """Connectors whose dict of facts no other tracker has: it may be changed in place."""
        if begun is not None:
            self.fold.adopt(begun.fold.publish())  # type: ignore[arg-type]  # of the same kind
            self.facts_by_subject = begun.facts_by_subject.copy()
            begun.unshared.clear()
            if profile is begun.profile:
                self.owners, self.status_facts = begun.owners, begun.status_facts

    def fork(self, profile: Profile) -> "FactTracker":
        """Copy the tracker for a release; the copies are independent."""
        return FactTracker(self.selection, profile, self)

    def take(self, chunk: Sequence[TimedRecord]) -> list[Interval]:
        """Fold some records; return the facts that they ended."""
        ended: list[Interval] = []
        for record in chunk:
            entry = record.entry
            connector = self._owner(entry)
            if connector is None or (entry.aborted and not self.selection.aborted):
                continue
            if not isinstance(self.fold, ConfigFold):
                self.fold.apply(entry)
            elif isinstance(record.fold(self.fold), TaskConfig):
                continue  # pending until a commit: no fact has changed yet
            moment = Moment(record.time_ms, entry.position)
            fact = self._only_fact(connector, entry)
            if fact is None:
                ended += self._noted(connector, entry, moment)
            else:
                ended += self._status_noted(connector, fact, moment)
        return ended

    def _only_fact(self, connector: str, entry: Entry) -> FactKey | None:
        """The only fact that a status may have changed; None: any fact of the connector.

        A connector's tombstone also removes the statuses of its tasks.
        """
        if not isinstance(self.fold, StatusFold):
            return None
        fact = self.status_facts.get(entry.key)
        if fact is None:
            fact = self.status_facts[entry.key] = _status_fact_of(entry.key, self.profile)
        is_removal = fact[0] is Aspect.STATUS and self.fold.of(connector).connector is None
        return None if is_removal else fact

    def _status_noted(self, connector: str, fact: FactKey, moment: Moment) -> list[Interval]:
        """Store one fact of the status topic after a record; return the fact that it ended."""
        assert isinstance(self.fold, StatusFold)
        tracked = self.facts_by_subject.get(connector) or TrackedFacts(connector, {})
        was, since = tracked.facts.get(fact, (None, moment))
        now = status_fact(self.fold.of(connector), fact)
        if _holds(was, now):
            return []
        facts = self._writable(tracked)
        if now is None:
            del facts[fact]
        else:
            facts[fact] = now, moment
        if not facts:
            self._forget(connector)
        return [] if was is None else [Interval(connector, *fact, _plain(was), since, moment)]

    def _writable(self, tracked: TrackedFacts) -> dict[FactKey, tuple[Any, Moment]]:
        """Facts of a connector to change in place; copied first if another tracker has them."""
        connector = tracked.connector
        if connector not in self.unshared:
            self.unshared.add(connector)
            self.facts_by_subject[connector] = TrackedFacts(connector, tracked.facts.copy())
        return self.facts_by_subject[connector].facts

    def _forget(self, subject: Hashable) -> None:
        del self.facts_by_subject[subject]
        self.unshared.discard(subject)

    def _noted(self, connector: str, entry: Entry, moment: Moment) -> list[Interval]:
        """Store all facts of the subject after a record; return the ones that it ended."""
        subject: Hashable = entry.key if isinstance(self.fold, OffsetFold) else connector
        tracked = self.facts_by_subject.get(subject) or TrackedFacts(connector, {})
        now = self._facts(tracked, entry)
        stays = {
            fact
            for fact, (value, _) in tracked.facts.items()
            if fact in now and _holds(value, now[fact])
        }
        if len(stays) == len(tracked.facts) == len(now):
            return []
        self.facts_by_subject[subject] = TrackedFacts(
            connector,
            {
                fact: tracked.facts[fact] if fact in stays else (value, moment)
                for fact, value in now.items()
            },
        )
        if not now:
            self._forget(subject)
        return [
            Interval(connector, *fact, _plain(value), since, moment)
            for fact, (value, since) in self._in_order(tracked)
            if fact not in stays
        ]

    def rest(self) -> list[Interval]:
        """Facts that hold at the end."""
        return [
            Interval(tracked.connector, *fact, _plain(value), since, None)
            for tracked in self.facts_by_subject.values()
            for fact, (value, since) in self._in_order(tracked)
        ]

    def _in_order(self, tracked: TrackedFacts) -> Iterable[tuple[FactKey, tuple[Any, Moment]]]:
        """Facts in the order in which the fold gives them; changes in place do not keep it."""
        facts = tracked.facts.items()
        if not isinstance(self.fold, StatusFold):
            return facts
        return sorted(facts, key=lambda fact: _STATUS_ORDER.index(fact[0][0]))

    def _owner(self, entry: Entry) -> str | None:
        if entry.key not in self.owners:
            name = owner(entry.topic, entry.key, self.selection.topics, self.profile)
            only = self.selection.connectors
            self.owners[entry.key] = name if not only or name in only else None
        return self.owners[entry.key]

    def _facts(self, tracked: TrackedFacts, entry: Entry) -> FactValues:
        match self.fold:
            case ConfigFold():
                return of_config(self.fold.of(tracked.connector))
            case StatusFold():
                return of_status(self.fold.of(tracked.connector))
        return _of_offset(self.fold, tracked, entry.key, self.profile)


def _fold(selection: TopicSelection, profile: Profile) -> AnyFold:
    if selection.topic == selection.topics.config:
        return ConfigFold(profile)
    return (
        StatusFold(profile) if selection.topic == selection.topics.status else OffsetFold(profile)
    )


def _status_fact_of(key: bytes | None, profile: Profile) -> FactKey:
    """Fact that a key of the status topic is about; the key must have a connector."""
    match decode_status(key, None, profile):
        case TaskStatus(_, task):
            return Aspect.TASK_STATUS, str(task)
        case ActiveTopic(_, topic):
            return Aspect.ACTIVE_TOPIC, topic
    return Aspect.STATUS, ""


def _of_offset(
    fold: OffsetFold, tracked: TrackedFacts, key: bytes | None, profile: Profile
) -> FactValues:
    """Offset under a raw key, as a task would read it; it may be undecodable."""
    value = decode_offset(fold.of(key), profile)
    if value is None:
        return {}
    fact = next(iter(tracked.facts), None)
    if fact is None:
        subject = decode_partition(key, profile)
        assert not isinstance(subject, Invalid)  # otherwise the record concerns no connector
        partition = json_codec.encode(dict(sorted(subject.partition.items())))
        fact = Aspect.SOURCE_OFFSET, partition.decode("utf-8", "replace")
    return {fact: f"undecodable: {value.reason}" if isinstance(value, Invalid) else value}


def _holds(was: Any, now: Any) -> bool:
    return was is now or holds(_plain(was), _plain(now))


def _plain(value: Any) -> Any:
    return plain_status(value) if isinstance(value, Status) else value
