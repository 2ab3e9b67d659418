"""Readings of one log by workers of several releases: records, states, hazards, offset changes.

Most releases read most of a log alike. So each part is computed once for all releases that agree on
every behaviour that it depends on (`SharedResults`). A further release costs time only for the
parts that no other release reads in the same way.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import msgspec

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import fold
from controlplane.core.java import json_codec
from controlplane.core.order import in_order
from controlplane.core.releases.profile_groups import SharedResults
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import Change
from controlplane.core.views.hazards import Hazard, hazards_of_each
from replay.compat.offset_readings import OffsetReadings
from replay.compat.release_change import ReleaseChange

UNREADABLE = object()
"""Stands for a value that is no JSON."""


class EvidenceRecord(NamedTuple):
    """Record of the config or the status topic."""

    rank: int
    """Sequence number in the one order."""
    entry: Entry
    record: Any
    """Record as the newer release decodes it."""
    content: Any
    """JSON of the value: None for a tombstone, `UNREADABLE` if it is no JSON."""

    @property
    def position(self) -> Position:
        """Topic, partition and offset of the record."""
        return self.entry.position

    def text(self, field: str) -> str | None:
        """String field of the value; None if absent or of another type."""
        value = self.content.get(field) if isinstance(self.content, dict) else None
        return value if isinstance(value, str) else None


class TopicRecords(NamedTuple):
    """Records of the config or the status topic, as one release reads them."""

    records: Sequence[EvidenceRecord]
    by_kind: Mapping[tuple[type, str], Sequence[EvidenceRecord]]
    """Records by type (`TargetState`, …) and connector."""


class LogReadings:
    """A log, read by all releases of some release changes."""

    def __init__(
        self,
        entries: Iterable[Entry],
        rolls: Sequence[ReleaseChange],
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> None:
        self.entries: Sequence[Entry] = in_order(entries)
        self.rolls = rolls
        self.topics = topics or Topics()
        self.exactly_once = exactly_once
        """True if workers run with exactly-once support, where their release has it."""
        self._states: dict[Profile, ClusterState] = {}
        self._config = SharedResults(partial(self._folded, self.topics.config))
        self._status = SharedResults(partial(self._folded, self.topics.status))
        self._committed = SharedResults(
            partial(self._folded, self.topics.config, exactly_once=True)
        )
        self.config_records = SharedResults(partial(self._topic_records, self.topics.config))
        self.status_records = SharedResults(partial(self._topic_records, self.topics.status))

    @cached_property
    def _profiles(self) -> Sequence[Profile]:
        """Releases of the changes, each once."""
        return list(
            dict.fromkeys(profile for roll in self.rolls for profile in (roll.start, roll.goal))
        )

    @cached_property
    def _by_topic(self) -> Mapping[str, Sequence[Entry]]:
        by_topic: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            by_topic[entry.topic].append(entry)
        return dict(by_topic)

    def entries_of(self, topic: str) -> Sequence[Entry]:
        """Entries of a topic, in order."""
        return self._by_topic.get(topic, ())

    @cached_property
    def _ends(self) -> Mapping[tuple[str, int], int]:
        return {(entry.topic, entry.partition): entry.offset + 1 for entry in self.entries}

    # --- states -----------------------------------------------------------------------------

    def state(self, profile: Profile) -> ClusterState:
        """State of a worker of a release, without source offsets and commands."""
        if profile not in self._states:
            config, status = self._config.of(profile), self._status.of(profile)
            self._states[profile] = msgspec.structs.replace(
                config,
                profile=profile,
                status=status.status,
                ends=self._ends,
                changed={**config.changed, **status.changed},
            )
        return self._states[profile]

    def committed(self, profile: Profile) -> ClusterState:
        """Config state without records of aborted transactions, as with exactly-once support.

        For releases without such support (KIP-618) all records count.
        """
        return msgspec.structs.replace(self._committed.of(profile), profile=profile)

    def _folded(
        self, topic: str, profile: Profile, *, exactly_once: bool | None = None
    ) -> ClusterState:
        """State of one topic, with the profile `KIP`, because several releases share the state."""
        support = self.exactly_once if exactly_once is None else exactly_once
        state = fold(
            self.entries_of(topic),
            profile,
            topics=self.topics,
            exactly_once=support and profile.exactly_once_support,
        )
        return msgspec.structs.replace(state, profile=Profile.of(KIP))

    # --- hazards ----------------------------------------------------------------------------

    def hazards(self, profile: Profile) -> Sequence[Hazard]:
        """Hazards for a worker of a release of the changes."""
        return self._hazards[profile]

    @cached_property
    def _hazards(self) -> Mapping[Profile, Sequence[Hazard]]:
        hazards: dict[Profile, Sequence[Hazard]] = {}
        for support in (False, True):
            readers = [
                profile
                for profile in self._profiles
                if (self.exactly_once and profile.exactly_once_support) is support
            ]
            if readers:
                hazards |= hazards_of_each(
                    self.entries, readers, topics=self.topics, exactly_once=support
                )
        return hazards

    # --- source offsets -----------------------------------------------------------------------

    @cached_property
    def offsets(self) -> OffsetReadings:
        """Records of the offsets topics."""
        other_topics = self.topics.config, self.topics.status, self.topics.commands
        entries = {
            topic: entries for topic, entries in self._by_topic.items() if topic not in other_topics
        }
        return OffsetReadings(entries, self.topics, exactly_once=self.exactly_once)

    def offset_changes(self) -> list[list[Change]]:
        """Differences in source offsets between start and goal of each release change."""
        return self.offsets.changes(
            [(self.state(roll.start), self.state(roll.goal)) for roll in self.rolls]
        )

    # --- records ----------------------------------------------------------------------------

    def _topic_records(self, topic: str, profile: Profile) -> TopicRecords:
        """Records of the config or the status topic, without aborted ones that workers skip."""
        records = list(self._visible(topic, profile))
        by_kind: dict[tuple[type, str], list[EvidenceRecord]] = defaultdict(list)
        for record in records:
            name = getattr(record.record, "connector", None)
            if name is not None:
                by_kind[type(record.record), name].append(record)
        return TopicRecords(records, dict(by_kind))

    def _visible(self, topic: str, profile: Profile) -> Iterator[EvidenceRecord]:
        support = self.exactly_once and profile.exactly_once_support
        aborted = self.topics.sees_aborted(topic, exactly_once=support)
        decode = decode_config if topic == self.topics.config else decode_status
        for rank, entry in enumerate(self.entries):
            if entry.topic == topic and (aborted or not entry.aborted):
                record = decode(entry.key, entry.value, profile)
                yield EvidenceRecord(rank, entry, record, _content(entry.value, profile))


def _content(value: bytes | None, profile: Profile) -> Any:
    if value is None:
        return None
    try:
        return json_codec.decode(value, profile)
    except (json_codec.Undecodable, json_codec.StackOverflow):
        return UNREADABLE
