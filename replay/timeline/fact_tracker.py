"""Tracking of facts about connectors, record by record, with the core's folds."""

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.entry import Entry
from controlplane.core.fold.config import ConfigFold
from controlplane.core.fold.offsets import OffsetFold
from controlplane.core.fold.status import StatusFold
from controlplane.core.java import json_codec
from controlplane.core.records import Invalid, Status, TaskConfig
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
)

AnyFold = ConfigFold | StatusFold | OffsetFold


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
        if begun is not None:
            self.fold.adopt(begun.fold.publish())  # type: ignore[arg-type]  # of the same kind
            self.facts_by_subject = begun.facts_by_subject.copy()
            self.owners = begun.owners if profile is begun.profile else {}

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
            ended += self._noted(connector, entry, Moment(record.time_ms, entry.position))
        return ended

    def _noted(self, connector: str, entry: Entry, moment: Moment) -> list[Interval]:
        """Store the facts after a record; return the ones that it ended."""
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
            del self.facts_by_subject[subject]
        return [
            Interval(connector, *fact, _plain(value), since, moment)
            for fact, (value, since) in tracked.facts.items()
            if fact not in stays
        ]

    def rest(self) -> list[Interval]:
        """Facts that hold at the end."""
        return [
            Interval(tracked.connector, *fact, _plain(value), since, None)
            for tracked in self.facts_by_subject.values()
            for fact, (value, since) in tracked.facts.items()
        ]

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
