"""History of a connector: the records that concern it, and the effect of each.

A connector's facts follow from its own records alone, so no other record is folded.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition, frozen
from controlplane.core.entry import Batch, Entry, batch_of, by_partition
from controlplane.core.fold import FateKind, Fold
from controlplane.core.order import EntrySorter
from controlplane.core.records import (
    Invalid,
    RestartRequest,
    SourcePartition,
    TaskConfig,
    TaskCount,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Aspect, ClusterState, Topics
from controlplane.core.text.redaction import redacted_text
from controlplane.core.text.value_text import change, item, json_value
from controlplane.core.topics.key_owners import key_filter, owner
from controlplane.core.views.diff import changed_by


class HistoryEvent(NamedTuple):
    """One effect of a record on a connector.

    `before`, `after` and `entry` hold the data of the log. `what`, `values` and `words` are for
    people: computed on access, and without secrets.
    """

    entry: Entry
    aspect: Aspect | None
    """Aspect that changed; None: no fact changed, but the event is worth showing."""
    item: Any
    """Item of the aspect (config key, task id, topic, source partition), or a description."""
    before: Any = None
    after: Any = None
    note: str = ""

    @property
    def what(self) -> str:
        """Changed fact as text: `target state`, `config tasks.max`, `task status 0`."""
        if self.aspect is None:
            return str(self.item)
        return f"{self.aspect.value} {item(self.aspect, self.item)}".strip()

    @property
    def values(self) -> tuple[Any, Any]:
        """Before and after as JSON without secrets; None: absent."""
        if self.aspect is None:
            return self.before, self.after
        was, now = (
            json_value(self.aspect, self.item, value) for value in (self.before, self.after)
        )
        return was, now

    @property
    def words(self) -> str:
        """The change in words: `PAUSED → STOPPED`."""
        if self.aspect is None:
            return self.note
        return change(self.aspect, self.item, self.before, self.after)


class History(NamedTuple):
    """Records and events of one connector."""

    records: list[Entry]
    """Records that concern it, in the one order (`core.order`)."""
    events: list[HistoryEvent]
    """Effects of the records; some records have none."""


def history(
    entries: Iterable[Entry],
    name: str,
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> History:
    """History of a connector, as a worker of this release reads these records.

    `entries` may come in any order of partitions, but by offset within each.
    """
    search = HistorySearch(name, profile, topics, exactly_once=exactly_once)
    for group in by_partition(entries).values():
        search.look_at(batch_of(group))
    records = list(search.matches())
    return History(records, list(events(records, name, profile, topics or Topics())))


class _KeyOwners:
    """Owners of records by key; each key is parsed once."""

    def __init__(self, topics: Topics, profile: Profile) -> None:
        self._topics = topics
        self._profile = profile
        self._owners: dict[tuple[str, bytes | None], str | None] = {}

    def of(self, topic: str, key: bytes | None) -> str | None:
        """The connector that a record concerns; None: no connector."""
        place = topic, key
        if place not in self._owners:
            self._owners[place] = owner(topic, key, self._topics, self._profile)
        return self._owners[place]


class HistorySearch:
    """Finds the records about one connector while a log is read step by step.

    Partitions come in any order, the records of each by offset.
    """

    def __init__(
        self, name: str, profile: Profile, topics: Topics | None = None, *, exactly_once: bool
    ) -> None:
        self._name = name
        self._worker = Fold(profile, topics=topics, exactly_once=exactly_once)
        self._may_concern = key_filter(name)
        self._owners = _KeyOwners(self._worker.topics, profile)
        self._ordering = EntrySorter()

    def look_at(self, batch: Batch) -> None:
        """Examine the next records of a partition.

        Only matching entries are made from the columns: most records are about other connectors.
        Records that the worker does not see count for the order, too.
        """
        unseen = () if self._worker.sees_aborted(batch.topic) else batch.aborted
        matching = (
            index
            for index, key in enumerate(batch.keys)
            if self._may_concern(key)
            and self._owners.of(batch.topic, key) == self._name
            and index not in unseen
        )
        self._ordering.keep_from(batch, matching)

    def matches(self) -> Iterator[Entry]:
        """The matching records so far, in the one order (`core.order`)."""
        return self._ordering.entries()


def events(
    entries: Iterable[Entry], name: str, profile: Profile, topics: Topics
) -> Iterator[HistoryEvent]:
    """Effects of each record. `entries` are the connector's own, in the order of `core.order`."""
    reading = HistoryFold(name, profile, topics)
    for entry in entries:
        yield from reading.apply(entry)


class HistoryFold:
    """Fold of one connector's records that reports the effect of each."""

    def __init__(self, name: str, profile: Profile, topics: Topics) -> None:
        self.topics = topics
        self._name = name
        self._fold = Fold(profile, topics=topics)
        self._before = self._fold.snapshot()
        self._offsets = _OffsetHistory(profile)

    def apply(self, entry: Entry) -> Iterator[HistoryEvent]:
        """Fold one more record and yield its effects."""
        topics, before = self._fold.topics, self._before
        if entry.topic not in (topics.config, topics.status):
            yield from self._offsets.apply(entry)
            return
        fate = self._fold.apply(entry)
        self._before = after = self._fold.snapshot()
        if fate.kind is not FateKind.ACCEPTED:
            yield HistoryEvent(entry, None, _FATE_WORDS[fate.kind], note=redacted_text(fate.reason))
        elif entry.topic == topics.config:
            yield from _announcement_events(entry, self._fold.profile)
        yield from _changes(entry, self._name, before, after)


_FATE_WORDS = {
    FateKind.IGNORED: "ignored",
    FateKind.UNDECODABLE: "unreadable",
    FateKind.LOSES_BATCH: "loses its batch",
    FateKind.POISON: "stops a worker",
}
"""Words for a record that is not simply accepted."""


def _changes(
    entry: Entry, name: str, before: ClusterState, after: ClusterState
) -> Iterator[HistoryEvent]:
    was_there, is_there = (name in state.config.connectors for state in (before, after))
    if was_there != is_there:
        yield HistoryEvent(entry, None, "connector", note="created" if is_there else "removed")
    for fact in changed_by(entry, before, after, name):
        yield HistoryEvent(entry, fact.aspect, fact.item, fact.before, fact.after)


class _OffsetHistory:
    """Source offsets of a connector by topic and raw key, as the worker stores them."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._partitions: dict[bytes | None, Any] = {}
        self._values: dict[tuple[str, bytes | None], Any] = {}

    def apply(self, entry: Entry) -> Iterator[HistoryEvent]:
        place = entry.topic, entry.key
        before, after = self._values.get(place), _decoded(entry.value, self._profile)
        self._values[place] = after
        if frozen(before) != frozen(after):
            partition = self._partition(entry.key)
            yield HistoryEvent(entry, Aspect.SOURCE_OFFSET, partition, before, after)

    def _partition(self, key: bytes | None) -> Any:
        if key not in self._partitions:
            subject = decode_partition(key, self._profile)
            # A record without a readable key has no owner, and does not come here.
            assert isinstance(subject, SourcePartition)
            self._partitions[key] = subject.partition
        return self._partitions[key]


def _decoded(value: bytes | None, profile: Profile) -> Any:
    offset = decode_offset(value, profile)
    return f"undecodable: {offset.reason}" if isinstance(offset, Invalid) else offset


def _announcement_events(entry: Entry, profile: Profile) -> Iterator[HistoryEvent]:
    """Event of a record that changes no fact, or changes it only later."""
    record = decode_config(entry.key, entry.value, profile)
    for kind, (description, words) in _ANNOUNCEMENTS.items():
        if isinstance(record, kind):
            yield HistoryEvent(entry, None, description, note=words(record))


_ANNOUNCEMENTS: dict[type, tuple[str, Callable[[Any], str]]] = {
    TaskConfig: ("task config", lambda record: f"of task {record.task} waits for the commit"),
    TaskCount: (
        "fencing",
        lambda record: f"older producers are fenced; {record.tasks} to fence the next time",
    ),
    RestartRequest: (
        "restart",
        lambda record: (
            "requested"
            + (", tasks too" if record.include_tasks else "")
            + (", failed ones only" if record.only_failed else "")
        ),
    ),
}
