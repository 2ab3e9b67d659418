"""The history of a connector: which records concern it, and what each of them did.

A connector's facts follow from its own records alone, so nothing else is folded for it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition, frozen
from controlplane.core.diff import Aspect, changed_by
from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold, Kind
from controlplane.core.order import Ordering
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    Invalid,
    RestartRequest,
    SourcePartition,
    TaskConfig,
    TaskCount,
)
from controlplane.core.redact import redacted_text
from controlplane.core.shown import change, item, shown
from controlplane.core.state import ClusterState, Topics


class Event(NamedTuple):
    """One thing that a record did to a connector.

    `before`, `after` and the record hold what the log holds. What is made for people, `what`,
    `values` and `words`, is made when it is asked for, and holds no secrets.
    """

    entry: Entry
    aspect: Aspect | None
    """The fact that changed; None: no fact, but something worth a line."""
    item: Any
    """Which one: config key, task id, topic, source partition; or what it was about instead."""
    before: Any = None
    after: Any = None
    note: str = ""

    @property
    def what(self) -> str:
        """What changed: `target state`, `config rows`, `task status 0`."""
        if self.aspect is None:
            return str(self.item)
        return f"{self.aspect.value} {item(self.aspect, self.item)}".strip()

    @property
    def values(self) -> tuple[Any, Any]:
        """Before and after as JSON without secrets; None: absent."""
        if self.aspect is None:
            return self.before, self.after
        was, now = (shown(self.aspect, self.item, value) for value in (self.before, self.after))
        return was, now

    @property
    def words(self) -> str:
        """What became of it: `PAUSED → STOPPED`."""
        if self.aspect is None:
            return self.note
        return change(self.aspect, self.item, self.before, self.after)


class History(NamedTuple):
    """All that a log tells of one connector."""

    records: list[Entry]
    """Every record that concerns it, in the one order."""
    events: list[Event]
    """What they did; some did nothing."""


def history(
    entries: Iterable[Entry],
    name: str,
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> History:
    """The history of a connector, as a worker of a release reads these records."""
    search = Search(name, profile, topics, exactly_once=exactly_once)
    for entry in entries:
        search.look_at(entry)
    records = list(search.found())
    return History(records, list(events(records, name, profile, topics or Topics())))


def concerning(
    entries: Iterable[Entry], name: str, topics: Topics, profile: Profile
) -> Iterator[Entry]:
    """The records about one connector, in the order given: as the worker reads their keys."""
    owners = _Owners(topics, profile)
    return (entry for entry in entries if owners.of(entry) == name)


class _Owners:
    """The connectors that records are about; each key is read once."""

    def __init__(self, topics: Topics, profile: Profile) -> None:
        self._topics = topics
        self._profile = profile
        self._known: dict[tuple[str, bytes | None], str | None] = {}

    def of(self, entry: Entry) -> str | None:
        """The connector that a record is about."""
        place = entry.topic, entry.key
        if place not in self._known:
            self._known[place] = owner(*place, self._topics, self._profile)
        return self._known[place]


class Search:
    """Finds the records about one connector in a log that is read step by step.

    The partitions come in any order, the records of each by their offsets.
    """

    def __init__(
        self, name: str, profile: Profile, topics: Topics | None = None, *, exactly_once: bool
    ) -> None:
        self._name = name
        self._worker = Fold(profile, topics=topics, exactly_once=exactly_once)
        self._owners = _Owners(self._worker.topics, profile)
        self._ordering = Ordering()

    def look_at(self, entry: Entry) -> None:
        """Look at the next record; one that the worker does not see has its rank all the same."""
        placed = self._ordering.rank(entry)
        unseen = entry.aborted and not self._worker.sees_aborted(entry.topic)
        if not unseen and self._owners.of(entry) == self._name:
            self._ordering.keep(placed)

    def found(self) -> Iterator[Entry]:
        """The records that were found, in the one order."""
        return self._ordering.entries()


def events(
    entries: Iterable[Entry], name: str, profile: Profile, topics: Topics
) -> Iterator[Event]:
    """What each record did. A connector's facts follow from its own records alone."""
    reading = Reading(name, profile, topics)
    for entry in entries:
        yield from reading.apply(entry)


class Reading:
    """A worker that reads the records of one connector, and tells of each what it did."""

    def __init__(self, name: str, profile: Profile, topics: Topics) -> None:
        self.topics = topics
        self._name = name
        self._fold = Fold(profile, topics=topics)
        self._before = self._fold.snapshot()
        self._offsets = _Offsets(profile)

    def apply(self, entry: Entry) -> Iterator[Event]:
        """What one more record did: nothing, or one thing, or several."""
        topics, before = self._fold.topics, self._before
        if entry.topic not in (topics.config, topics.status):
            yield from self._offsets.apply(entry)
            return
        outcome = self._fold.apply(entry)
        self._before = after = self._fold.snapshot()
        if outcome.kind is not Kind.ACCEPTED:
            yield Event(entry, None, _FATES[outcome.kind], note=redacted_text(outcome.reason))
        elif entry.topic == topics.config:
            yield from _spoken(entry, self._fold.profile)
        yield from _changes(entry, self._name, before, after)


_FATES = {
    Kind.IGNORED: "ignored",
    Kind.UNDECODABLE: "unreadable",
    Kind.LOSES_BATCH: "loses its batch",
    Kind.POISON: "stops a worker",
}
"""What came of a record that is not simply accepted."""


def _changes(entry: Entry, name: str, before: ClusterState, after: ClusterState) -> Iterator[Event]:
    was_there, is_there = (name in state.config.connectors for state in (before, after))
    if was_there != is_there:
        yield Event(entry, None, "connector", note="created" if is_there else "removed")
    for one in changed_by(entry, before, after, name):
        yield Event(entry, one.aspect, one.item, one.before, one.after)


class _Offsets:
    """The source offsets of a connector: the raw key decides, as it does for the worker."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._partitions: dict[bytes | None, Any] = {}
        self._known: dict[tuple[str, bytes | None], Any] = {}

    def apply(self, entry: Entry) -> Iterator[Event]:
        place = entry.topic, entry.key
        before, after = self._known.get(place), _decoded(entry.value, self._profile)
        self._known[place] = after
        if frozen(before) != frozen(after):
            partition = self._partition(entry.key)
            yield Event(entry, Aspect.SOURCE_OFFSET, partition, before, after)

    def _partition(self, key: bytes | None) -> Any:
        if key not in self._partitions:
            subject = decode_partition(key, self._profile)
            assert isinstance(subject, SourcePartition)  # else it would concern nobody
            self._partitions[key] = subject.partition
        return self._partitions[key]


def _decoded(value: bytes | None, profile: Profile) -> Any:
    found = decode_offset(value, profile)
    return f"undecodable: {found.reason}" if isinstance(found, Invalid) else found


def _spoken(entry: Entry, profile: Profile) -> Iterator[Event]:
    """What a record says that changes no fact, or not yet."""
    record = decode_config(entry.key, entry.value, profile)
    for kind, (what, words) in _SPOKEN.items():
        if isinstance(record, kind):
            yield Event(entry, None, what, note=words(record))


_SPOKEN: dict[type, tuple[str, Callable[[Any], str]]] = {
    TaskConfig: ("task config", lambda record: f"of task {record.task} waits for the commit"),
    TaskCount: ("fencing", lambda record: f"the producers of {record.tasks} tasks are fenced"),
    RestartRequest: (
        "restart",
        lambda record: (
            "requested"
            + (", tasks too" if record.include_tasks else "")
            + (", failed ones only" if record.only_failed else "")
        ),
    ),
}
