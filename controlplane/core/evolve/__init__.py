"""The one place where state changes: one entry → change of state, per profile; folding repeats it.

`Fold` is what a worker of one release knows while it reads its topics. It changes in place and
publishes immutable snapshots (`ClusterState`). The same function serves live, at boot, in scenarios
and in replay. Three parts, one per topic, none of which looks at another: `config`, `status`,
`offsets`; `bulk` is the fast way through many records, with the same result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from controlplane.core.entry import Entry, Position
from controlplane.core.evolve.commands import CommandFold
from controlplane.core.evolve.config import ConfigFold
from controlplane.core.evolve.offsets import OffsetFold
from controlplane.core.evolve.outcome import ACCEPTED, UNSEEN, Call, Kind, Outcome
from controlplane.core.evolve.part import CommandState, Part
from controlplane.core.evolve.status import StatusFold
from controlplane.core.profiles import Profile
from controlplane.core.shared import CopyOnWrite
from controlplane.core.state import (
    Changes,
    ClusterState,
    ConfigState,
    OffsetState,
    StatusState,
    Topics,
)

__all__ = ["ACCEPTED", "Call", "Fold", "Kind", "Outcome", "Part", "fold"]

UNREADABLE_KEPT = 1_000
"""Unreadable records of a topic that a state remembers, with the reason; beyond that they are only
counted."""


class Fold:
    """What one worker knows while it reads: `apply` entries, then `snapshot()`.

    `exactly_once` says whether the worker runs with exactly-once support *enabled*, which makes it
    blind for records of aborted transactions (KIP-618). `live` says that start-up is over: from
    then on outcomes carry the calls by which a worker learns that it must act. With `trace`, the
    position of the last record of each offset is kept too.

    Entries come in the order in which they are to be folded (`order.in_order`); within a partition
    that is the order of their log offsets.
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
        self._changed: Changes = CopyOnWrite()
        self.config = ConfigFold(profile, self._changed)
        self.config.live = live
        self.status = StatusFold(profile, self._changed)
        self.commands = CommandFold()
        self.offsets: dict[str, OffsetFold] = {self.topics.offsets: OffsetFold(profile)}
        self._unreadable_counts: Counter[str] = Counter()
        self._ends: dict[tuple[str, int], int] = {}
        self._causes: CopyOnWrite[tuple[str, bytes | None], Position] = CopyOnWrite()
        self._unreadable: CopyOnWrite[Position, str] = CopyOnWrite()
        self._parts: dict[str, ConfigFold | StatusFold | CommandFold] = {
            self.topics.config: self.config,
            self.topics.status: self.status,
            self.topics.commands: self.commands,
        }

    @property
    def live(self) -> bool:
        """Whether start-up is over."""
        return self.config.live

    @live.setter
    def live(self, live: bool) -> None:
        """End start-up, or begin it again."""
        self.config.live = live

    @property
    def unreadable_count(self) -> int:
        """How many records were no use."""
        return self._unreadable_counts.total()

    def apply(self, entry: Entry) -> Outcome:
        """Fold one entry and say what came of it."""
        self.advance(entry.topic, entry.partition, entry.offset + 1)
        part = self._parts.get(entry.topic) or self.offsets_of(entry.topic)
        if entry.aborted and not self.sees_aborted(entry.topic):
            return UNSEEN
        outcome = part.apply(entry)
        if self.trace or isinstance(part, ConfigFold | StatusFold):
            self._causes.writable()[entry.topic, entry.key] = entry.position
        if outcome.kind is not Kind.ACCEPTED:
            self._note(entry.position, outcome)
        return outcome

    def apply_all(self, entries: Iterable[Entry]) -> None:
        """Fold entries one after the other."""
        for entry in entries:
            self.apply(entry)

    def snapshot(self) -> ClusterState:
        """The state now, for good. Cheap: nothing is copied until the next write."""
        return ClusterState(
            self.profile,
            self.topics,
            self.exactly_once,
            self.config.publish(),
            self.status.publish(),
            MappingProxyType({topic: part.publish() for topic, part in self.offsets.items()}),
            self.commands.publish(),
            MappingProxyType(dict(self._ends)),
            self._causes.publish(),
            self._changed.publish(),
            self._unreadable.publish(),
            MappingProxyType(dict(self._unreadable_counts)),
        )

    def part(self, topic: str) -> Part:
        """What is known of one topic, for good: topics know nothing of each other."""
        fold = self._parts.get(topic) or self.offsets_of(topic)
        published = fold.publish()
        return Part(
            CommandState(published) if isinstance(published, Mapping) else published,
            {fact: at for fact, at in self._changed.items.items() if at.topic == topic},
            {key: at for key, at in self._causes.items.items() if at.topic == topic},
            {at: why for at, why in self._unreadable.items.items() if at.topic == topic},
            self._unreadable_counts[topic],
        )

    def adopt(self, topic: str, part: Part, ends: Sequence[int]) -> None:
        """Know of a topic what another fold knew of it when it had read up to these ends.

        The other one must read the topic as this one does (`freezing.kind_of`); this one must know
        nothing of the topic yet.
        """
        match part.state:
            case ConfigState():
                self.config.adopt(part.state)
            case StatusState():
                self.status.adopt(part.state)
            case OffsetState():
                self.offsets_of(topic).adopt(part.state)
            case CommandState():
                self.commands.adopt(part.state.traces)
        self._changed.writable().update(part.changed)
        self._causes.writable().update(part.causes)
        self._unreadable.writable().update(part.unreadable)
        self._unreadable_counts += Counter({topic: part.unreadable_count})
        for partition, end in enumerate(ends):
            self.advance(topic, partition, end)

    def advance(self, topic: str, partition: int, end: int) -> None:
        """Note that everything before `end` has been read."""
        self._ends[topic, partition] = end

    def offsets_of(self, topic: str) -> OffsetFold:
        """The fold of an offsets topic; a topic that is none of the four is one of a connector."""
        if topic not in self.offsets:
            self.offsets[topic] = OffsetFold(self.profile)
        return self.offsets[topic]

    def sees_aborted(self, topic: str) -> bool:
        """Readers of a connector's own offsets topic are always `read_committed`."""
        known = topic in self._parts or topic == self.topics.offsets
        return known and not self.exactly_once

    def _note(self, position: Position, outcome: Outcome) -> None:
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
    """What a worker of this release knows after reading these entries, in this order."""
    worker = Fold(profile, topics=topics, exactly_once=exactly_once, trace=trace)
    worker.apply_all(entries)
    return worker.snapshot()
