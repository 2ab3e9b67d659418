"""Following what is known of connectors, record by record, through the core's own folds."""

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

from controlplane.core import javajson
from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.diff import Aspect, plain_status
from controlplane.core.entry import Entry
from controlplane.core.evolve.config import ConfigFold
from controlplane.core.evolve.offsets import OffsetFold
from controlplane.core.evolve.status import StatusFold
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.records import Invalid, Status, TaskConfig
from controlplane.core.state import Topics
from replay.timeline.decoding import Decoded
from replay.timeline.intervals import (
    Fact,
    Facts,
    Interval,
    Moment,
    holds,
    of_config,
    of_status,
)

AnyFold = ConfigFold | StatusFold | OffsetFold


class Wanted(NamedTuple):
    """What is followed of a topic."""

    topic: str
    topics: Topics
    connectors: Collection[str] = ()
    """Only these; none: all."""
    aborted: bool = True
    """Whether the workers see records of aborted transactions there."""


class Known(NamedTuple):
    """What holds of a connector, or of one of its source partitions."""

    connector: str
    facts: dict[Fact, tuple[Any, Moment]]


class Follower:
    """What is known of the connectors in a topic, and since when."""

    def __init__(self, wanted: Wanted, profile: Profile, begun: "Follower | None" = None) -> None:
        self.profile = profile
        self.wanted = wanted
        self.fold = _fold(wanted, profile)
        self.known: dict[Hashable, Known] = {}
        self.owners: dict[bytes | None, str | None] = {}
        if begun is not None:
            self.fold.adopt(begun.fold.publish())  # type: ignore[arg-type]  # of the same kind
            self.known = begun.known.copy()
            self.owners = begun.owners if profile is begun.profile else {}

    def fork(self, profile: Profile) -> "Follower":
        """Another one that knows the same, and goes on by itself."""
        return Follower(self.wanted, profile, self)

    def take(self, chunk: Sequence[Decoded]) -> list[Interval]:
        """Fold some records; the facts that they ended."""
        ended: list[Interval] = []
        for one in chunk:
            entry = one.entry
            connector = self._owner(entry)
            if connector is None or (entry.aborted and not self.wanted.aborted):
                continue
            if not isinstance(self.fold, ConfigFold):
                self.fold.apply(entry)
            elif isinstance(one.fold(self.fold), TaskConfig):
                continue  # it waits for a commit: no fact is another one yet
            ended += self._noted(connector, entry, Moment(one.time_ms, entry.position))
        return ended

    def _noted(self, connector: str, entry: Entry, moment: Moment) -> list[Interval]:
        """Know the facts that hold behind a record; those that it ended."""
        subject: Hashable = entry.key if isinstance(self.fold, OffsetFold) else connector
        known = self.known.get(subject) or Known(connector, {})
        now = self._facts(known, entry)
        stays = {
            fact
            for fact, (value, _) in known.facts.items()
            if fact in now and _holds(value, now[fact])
        }
        if len(stays) == len(known.facts) == len(now):
            return []
        self.known[subject] = Known(
            connector,
            {
                fact: known.facts[fact] if fact in stays else (value, moment)
                for fact, value in now.items()
            },
        )
        if not now:
            del self.known[subject]
        return [
            Interval(connector, *fact, _plain(value), since, moment)
            for fact, (value, since) in known.facts.items()
            if fact not in stays
        ]

    def rest(self) -> list[Interval]:
        """The facts that hold at the end."""
        return [
            Interval(known.connector, *fact, _plain(value), since, None)
            for known in self.known.values()
            for fact, (value, since) in known.facts.items()
        ]

    def _owner(self, entry: Entry) -> str | None:
        if entry.key not in self.owners:
            name = owner(entry.topic, entry.key, self.wanted.topics, self.profile)
            only = self.wanted.connectors
            self.owners[entry.key] = name if not only or name in only else None
        return self.owners[entry.key]

    def _facts(self, known: Known, entry: Entry) -> Facts:
        match self.fold:
            case ConfigFold():
                return of_config(self.fold.of(known.connector))
            case StatusFold():
                return of_status(self.fold.of(known.connector))
        return _of_offset(self.fold, known, entry.key, self.profile)


def _fold(wanted: Wanted, profile: Profile) -> AnyFold:
    if wanted.topic == wanted.topics.config:
        return ConfigFold(profile)
    return StatusFold(profile) if wanted.topic == wanted.topics.status else OffsetFold(profile)


def _of_offset(fold: OffsetFold, known: Known, key: bytes | None, profile: Profile) -> Facts:
    """The raw key decides, as it does for a task that asks; what lies there may be undecodable."""
    value = decode_offset(fold.of(key), profile)
    if value is None:
        return {}
    fact = next(iter(known.facts), None)
    if fact is None:
        subject = decode_partition(key, profile)
        assert not isinstance(subject, Invalid)  # else it would concern nobody
        partition = javajson.encode(dict(sorted(subject.partition.items())))
        fact = Aspect.SOURCE_OFFSET, partition.decode("utf-8", "replace")
    return {fact: f"undecodable: {value.reason}" if isinstance(value, Invalid) else value}


def _holds(was: Any, now: Any) -> bool:
    return was is now or holds(_plain(was), _plain(now))


def _plain(value: Any) -> Any:
    """What of a fact people compare."""
    return plain_status(value) if isinstance(value, Status) else value
