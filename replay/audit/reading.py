"""The one pass over a cluster's log: every record decoded once, with what was known before it.

What is kept grows with keys, never with records: the folded config topic, and the last record of
each key. Records of the command topic are not kept, as their keys never come back.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from controlplane.core.codec.commands import decode_command
from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.evolve import Fold
from controlplane.core.profiles import Profile
from controlplane.core.records import SourcePartition
from controlplane.core.state import ConfigState, Topics
from replay.audit.trail.trail import Trail


class Cluster(NamedTuple):
    """The log of one cluster, and who reads it."""

    name: str
    entries: Iterable[Entry]
    """In the one order (`core.order`); they are gone through once."""
    profile: Profile
    topics: Topics = Topics()
    exactly_once: bool = False
    """Whether its workers run with exactly-once support: they do not see aborted transactions."""
    trail: Trail = Trail()
    """Who asked for what, as others have written it down."""


class Previous(NamedTuple):
    """A record that another one with the same key follows."""

    entry: Entry
    offset: Any
    """As in `Told`."""


class Told(NamedTuple):
    """One record, and what a worker knew around it."""

    entry: Entry
    time_ms: int
    """The running maximum of the timestamps of its partition: never less than that of the record
    before it. -1: unknown."""
    record: Any
    """What it says: a record of `core.records`, `Invalid`, or None (a command's tombstone)."""
    about: str | None
    """Which connector it is about; None: none."""
    offset: Any
    """The offset that a record of an offsets topic holds (see `decode_offset`), None elsewhere."""
    previous: "Previous | None"
    """The record with the same topic and raw key before it."""
    before: ConfigState
    """What the config topic said before this record …"""
    config: ConfigState
    """… and what it says now."""

    @property
    def position(self) -> Position:
        """Where it lies."""
        return self.entry.position

    @property
    def connector(self) -> str:
        """The connector of a record that is about one."""
        assert self.about is not None
        return self.about

    @property
    def kept(self) -> "Told":
        """The same to be remembered: without the states, which would live as long as it."""
        return self._replace(before=_NOTHING, config=_NOTHING)


_NOTHING = ConfigState()


def read(cluster: Cluster) -> Iterator[Told]:
    """The records of a cluster that its workers see, one by one."""
    topics = cluster.topics
    fold = Fold(cluster.profile, topics=topics, exactly_once=cluster.exactly_once)
    decoder = _Decoder(cluster)
    latest: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, bytes | None], Previous] = {}
    known = fold.config.publish()
    for entry in cluster.entries:
        place = entry.topic, entry.partition
        latest[place] = time_ms = max(entry.timestamp, latest.get(place, -1))
        if entry.aborted and not fold.sees_aborted(entry.topic):
            continue
        record, before = decoder.record(entry), known
        if entry.topic == topics.config:
            fold.config.apply(entry)
            known = fold.config.publish()
        about = getattr(record, "connector", None)
        offset = decoder.offset(entry) if isinstance(record, SourcePartition) else None
        same = entry.topic, entry.key
        yield Told(entry, time_ms, record, about, offset, last.get(same), before, known)
        if entry.topic != topics.commands:
            last[same] = Previous(entry, offset)


class _Decoder:
    """What a record says, by its topic. Of an offset that is its key, which comes back again."""

    def __init__(self, cluster: Cluster) -> None:
        self._profile = cluster.profile
        self._topics = cluster.topics
        self._partitions: dict[bytes | None, Any] = {}

    def record(self, entry: Entry) -> Any:
        """A record as a worker of the release reads it."""
        if entry.topic == self._topics.config:
            return decode_config(entry.key, entry.value, self._profile)
        if entry.topic == self._topics.status:
            return decode_status(entry.key, entry.value, self._profile)
        if entry.topic == self._topics.commands:
            return decode_command(entry.key, entry.value)
        if entry.key not in self._partitions:
            self._partitions[entry.key] = decode_partition(entry.key, self._profile)
        return self._partitions[entry.key]

    def offset(self, entry: Entry) -> Any:
        """The value of a record of an offsets topic."""
        return decode_offset(entry.value, self._profile)
