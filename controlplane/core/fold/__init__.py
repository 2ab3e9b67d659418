"""The fold: the only place where state changes, one entry at a time, per release profile.

A `Fold` is the state of one worker while it reads its topics. It changes in place and publishes
immutable snapshots (`ClusterState`). Live service, start-up, scenarios and replay all use it. It
has one part per topic (`config`, `status`, `offsets`, `commands`), and no part reads another.
`bulk` loads a whole log faster, with the same result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from controlplane.core.copy_on_write import CopyOnWrite
from controlplane.core.entry import Entry, Position, TopicPartition
from controlplane.core.fold.commands import CommandFold
from controlplane.core.fold.config import ConfigFold
from controlplane.core.fold.offsets import OffsetFold
from controlplane.core.fold.record_fate import ACCEPTED, UNSEEN, FateKind, ListenerCall, RecordFate
from controlplane.core.fold.status import StatusFold
from controlplane.core.fold.topic_state import CommandState, TopicSnapshot
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import (
    ChangePositions,
    ClusterState,
    ConfigState,
    OffsetState,
    StatusState,
    Topics,
)

__all__ = ["ACCEPTED", "FateKind", "Fold", "ListenerCall", "RecordFate", "TopicSnapshot", "fold"]

UNREADABLE_KEPT = 1_000
"""Unreadable records per topic that a state lists with their reason; more are only counted."""


class Fold:
    """State of one worker while it reads: `apply` entries, then `snapshot()`.

    - `exactly_once`: the worker runs with exactly-once support, so it does not see aborted configs
      and offsets (`Topics.sees_aborted`).
    - `live`: start-up is over. From then on, the `RecordFate` of each record lists the calls by
      which Kafka's worker learns of the change (`ListenerCall`).
    - `trace`: the fold also keeps the position of each key's last record in the offsets topics and
      the command topic.

    Apply entries in fold order (`order.in_order`); within a partition that is the order of offsets.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
        live: bool = False,
        trace: bool = False,
    ) -> None:
        self.profile = profile
        self.topics = topics or Topics()
        self.exactly_once = exactly_once
        self.trace = trace
        self._changed: ChangePositions = CopyOnWrite()
        self.config = ConfigFold(profile, self._changed)
        self.config.live = live
        self.status = StatusFold(profile, self._changed)
        self.commands = CommandFold()
        self.offsets: dict[str, OffsetFold] = {self.topics.offsets: OffsetFold(profile)}
        self._unreadable_counts: Counter[str] = Counter()
        self._ends: dict[TopicPartition, int] = {}
        self._causes: CopyOnWrite[tuple[str, bytes | None], Position] = CopyOnWrite()
        self._unreadable: CopyOnWrite[Position, str] = CopyOnWrite()
        self._parts: dict[str, ConfigFold | StatusFold | CommandFold] = {
            self.topics.config: self.config,
            self.topics.status: self.status,
            self.topics.commands: self.commands,
        }

    @property
    def live(self) -> bool:
        """True once start-up is over: from then on, each `RecordFate` lists listener calls."""
        return self.config.live

    @live.setter
    def live(self, live: bool) -> None:
        """End start-up, or return to it."""
        self.config.live = live

    @property
    def unreadable_count(self) -> int:
        """Number of records that could not be used."""
        return self._unreadable_counts.total()

    def apply(self, entry: Entry) -> RecordFate:
        """Fold one entry and return its fate; `UNSEEN`: the worker does not see the record."""
        # An aborted record counts as read, even if the worker does not see it.
        self.advance(entry.topic, entry.partition, entry.offset + 1)
        part = self._parts.get(entry.topic) or self.offsets_of(entry.topic)
        if entry.aborted and not self.sees_aborted(entry.topic):
            return UNSEEN
        outcome = part.apply(entry)
        position = Position(entry.topic, entry.partition, entry.offset)
        if self.trace or isinstance(part, ConfigFold | StatusFold):
            self._causes.writable()[entry.topic, entry.key] = position
        if outcome.kind is not FateKind.ACCEPTED:
            self._note_unreadable(position, outcome)
        return outcome

    def apply_all(
        self, entries: Iterable[Entry], ends: Mapping[TopicPartition, int] = MappingProxyType({})
    ) -> None:
        """Fold entries one after the other, and note that everything before `ends` was read."""
        for entry in entries:
            self.apply(entry)
        self._ends.update(ends)

    def snapshot(self) -> ClusterState:
        """An immutable snapshot of the state. Cheap: tables are copied at their next write.

        A part without new records returns the state that it published last.
        """
        return ClusterState(
            self.profile,
            self.topics,
            self.exactly_once,
            self.config.published or self.config.publish(),
            self.status.published or self.status.publish(),
            MappingProxyType(
                {topic: part.published or part.publish() for topic, part in self.offsets.items()}
            ),
            self.commands.publish(),
            MappingProxyType(dict(self._ends)),
            self._causes.publish(),
            self._changed.publish(),
            self._unreadable.publish(),
            MappingProxyType(dict(self._unreadable_counts)),
        )

    def topic_snapshot(self, topic: str) -> TopicSnapshot:
        """An immutable snapshot of one topic; no topic depends on another."""
        topic_fold = self._parts.get(topic) or self.offsets_of(topic)
        published = topic_fold.publish()
        return TopicSnapshot(
            CommandState(published) if isinstance(published, Mapping) else published,
            {
                change: position
                for change, position in self._changed.items.items()
                if position.topic == topic
            },
            {
                key: position
                for key, position in self._causes.items.items()
                if position.topic == topic
            },
            {
                position: reason
                for position, reason in self._unreadable.items.items()
                if position.topic == topic
            },
            self._unreadable_counts[topic],
        )

    def adopt(self, topic: str, snapshot: TopicSnapshot, ends: Sequence[int]) -> None:
        """Take over another fold's snapshot of a topic, read up to `ends` (by partition).

        Both folds must read the topic alike (`snapshot_codec.kind_of`). This fold must not know the
        topic yet.
        """
        match snapshot.state:
            case ConfigState():
                self.config.adopt(snapshot.state)
            case StatusState():
                self.status.adopt(snapshot.state)
            case OffsetState():
                self.offsets_of(topic).adopt(snapshot.state)
            case CommandState():
                self.commands.adopt(snapshot.state.traces)
        self._changed.writable().update(snapshot.changed)
        self._causes.writable().update(snapshot.causes)
        self._unreadable.writable().update(snapshot.unreadable)
        self._unreadable_counts += Counter({topic: snapshot.unreadable_count})
        for partition, end in enumerate(ends):
            self.advance(topic, partition, end)

    def advance(self, topic: str, partition: int, end: int) -> None:
        """Note that everything before `end` has been read."""
        self._ends[topic, partition] = end

    def offsets_of(self, topic: str) -> OffsetFold:
        """Fold of an offsets topic, created at first use.

        Every topic but those in `topics` holds the offsets of a connector.
        """
        if topic not in self.offsets:
            self.offsets[topic] = OffsetFold(self.profile)
        return self.offsets[topic]

    def sees_aborted(self, topic: str) -> bool:
        """True if the worker sees aborted records of a topic."""
        return self.topics.sees_aborted(topic, exactly_once=self.exactly_once)

    def _note_unreadable(self, position: Position, outcome: RecordFate) -> None:
        if self._unreadable_counts[position.topic] < UNREADABLE_KEPT:
            self._unreadable.writable()[position] = outcome.reason
        self._unreadable_counts[position.topic] += 1


def fold(
    entries: Iterable[Entry],
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
    trace: bool = False,
) -> ClusterState:
    """State of a worker of this release after reading these entries in this order."""
    worker = Fold(profile, topics=topics, exactly_once=exactly_once, trace=trace)
    worker.apply_all(entries)
    return worker.snapshot()
