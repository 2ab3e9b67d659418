"""Decoded records of a cluster's log, each with the state before it, in one pass.

Memory grows with the number of keys, not of records. It holds the folded config topic, and the last
record of each key. Records of the command topic are not kept: each command has a key of its own.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from controlplane.core.codec.command_log import decode_command
from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_offset, decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import Fold, TopicSnapshot
from controlplane.core.records import SourcePartition
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ConfigState, Topics
from replay.audit.trail.request_trail import RequestTrail
from replay.doubts import MayBeOlder, never_older


class ClusterLog(NamedTuple):
    """Log of one cluster, and the worker that reads it."""

    name: str
    entries: Iterable[Entry]
    """Entries in the total order of all partitions (`core.order`), consumed once."""
    profile: Profile
    topics: Topics = Topics()
    exactly_once: bool = False
    """True if workers run with exactly-once support and skip aborted configs and offsets."""
    trail: RequestTrail = RequestTrail()
    """Requests of audit streams."""
    may_be_older: MayBeOlder = never_older
    """True for positions before which records may be missing (see `MayBeOlder`)."""


class PreviousRecord(NamedTuple):
    """Previous record with the same topic and key."""

    entry: Entry
    offset: Any
    """Decoded offset, as in `DecodedRecord`."""


class DecodedRecord(NamedTuple):
    """Decoded record, with the state of a worker around it."""

    entry: Entry
    time_ms: int
    """Running maximum of the partition's timestamps; it never decreases. -1 if unknown."""
    record: Any
    """Decoded record: a type of `core.records`, `Invalid`, or None (a command's tombstone)."""
    about: str | None
    """Connector of the record; None without one."""
    offset: Any
    """Decoded value of a source offset (see `decode_offset`); None for other records."""
    previous: "PreviousRecord | None"
    """Previous record with the same topic and raw key."""
    before: ConfigState
    """Config state before the record."""
    config: ConfigState
    """Config state after the record."""

    @property
    def position(self) -> Position:
        """Topic, partition and offset of the record."""
        return self.entry.position

    @property
    def connector(self) -> str:
        """Connector of a record that is known to have one."""
        assert self.about is not None
        return self.about

    @property
    def without_states(self) -> "DecodedRecord":
        """Copy without the states, so that storing the record does not keep them alive."""
        entry, time_ms, record, about, offset, previous, _, _ = self  # faster than `_replace`
        return DecodedRecord(entry, time_ms, record, about, offset, previous, _NOTHING, _NOTHING)


_NOTHING = ConfigState()


class LogReader:
    """Decodes records in the one order (`core.order`), and keeps what later records need."""

    def __init__(self, profile: Profile, topics: Topics, *, exactly_once: bool) -> None:
        self.latest_ms: dict[tuple[str, int], int] = {}
        """Greatest timestamp of each partition so far."""
        self.last: dict[tuple[str, bytes | None], PreviousRecord] = {}
        """Last record of each key."""
        self._topics = topics
        self._fold = Fold(profile, topics=topics, exactly_once=exactly_once)
        self._decoder = _Decoder(profile, topics)
        self._config = self._fold.config.publish()

    def decode(self, entry: Entry) -> DecodedRecord | None:
        """Decode the next record; None if the cluster's workers do not see it."""
        topics, place = self._topics, (entry.topic, entry.partition)
        self.latest_ms[place] = time_ms = max(entry.timestamp, self.latest_ms.get(place, -1))
        if entry.aborted and not self._fold.sees_aborted(entry.topic):
            return None
        record, before = self._decoder.record(entry), self._config
        if entry.topic == topics.config:
            self._fold.config.apply(entry)
            self._config = self._fold.config.publish()
        about = getattr(record, "connector", None)
        offset = self._decoder.offset(entry) if isinstance(record, SourcePartition) else None
        same = entry.topic, entry.key
        decoded = DecodedRecord(
            entry, time_ms, record, about, offset, self.last.get(same), before, self._config
        )
        if entry.topic != topics.commands:
            self.last[same] = PreviousRecord(entry, offset)
        return decoded

    @property
    def config(self) -> TopicSnapshot:
        """Folded config topic, for a snapshot."""
        return self._fold.topic_snapshot(self._topics.config)

    def adopt(self, config: TopicSnapshot) -> None:
        """Begin with a folded config topic."""
        self._fold.adopt(self._topics.config, config, ())
        self._config = self._fold.config.publish()


class _Decoder:
    """Decodes records by topic. Keys of offsets are cached, because they repeat."""

    def __init__(self, profile: Profile, topics: Topics) -> None:
        self._profile = profile
        self._topics = topics
        self._partitions: dict[bytes | None, Any] = {}

    def record(self, entry: Entry) -> Any:
        """Decode a record as a worker of the release does."""
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
        """Decode the value of a source offset."""
        return decode_offset(entry.value, self._profile)
