"""Source offsets of one log, as workers of several releases read and compare them.

A log may have millions of offsets. They are folded and compared once for all releases that read
them alike (`SharedResults`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

import msgspec

from controlplane.core.codec.canonical_offsets import are_canonical_keys, are_canonical_values
from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import load_entries
from controlplane.core.records import Invalid
from controlplane.core.releases.profile_groups import SharedResults
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, ConfigState, OffsetState, Topics
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC, OffsetsByConnector
from controlplane.core.views.diff import Change, OffsetFacts, offset_changes, offset_facts

LastOffsets = Mapping[tuple[str, str], Mapping[bytes | None, Entry]]
"""Last record of each key, by offsets topic and connector."""

LastByKey = Mapping[tuple[str, bytes | None], Entry]
"""Last record of each key, by offsets topic and key."""


class OffsetReadings:
    """Records of the offsets topics, read by any release."""

    def __init__(
        self, entries: Mapping[str, Sequence[Entry]], topics: Topics, *, exactly_once: bool
    ) -> None:
        self._entries = entries
        """Records of each offsets topic, in order."""
        self._topics = topics
        self._exactly_once = exactly_once
        self._folded = SharedResults(self._fold)
        self._distinct: list[Mapping[str, OffsetState]] = []
        """Results of the fold, each once: releases with equal results share the object."""
        self._divided: dict[int, SharedResults[OffsetsByConnector]] = {}
        """Offsets of each distinct result, divided by connector; the key is the result's `id`."""
        self._last_by_key: dict[bool, LastByKey] = {}
        self._last = SharedResults(self._decode_last)

    def changes(self, states: Sequence[tuple[ClusterState, ClusterState]]) -> list[list[Change]]:
        """Differences in source offsets for each pair of states; the states need no offsets.

        Each connector is compared in all pairs before the next one. So the facts of all connectors
        are never held at once.
        """
        changes: list[list[Change]] = [[] for _ in states]
        profiles = dict.fromkeys(state.profile for state in chain.from_iterable(states))
        names = {name for profile in profiles for name in self.divided(profile).of(profile).names}
        for name in sorted(names):
            comparison = _OffsetComparison(self, name)
            for pair_changes, (before, after) in zip(changes, states, strict=True):
                pair_changes.extend(comparison.changes(before, after))
        return changes

    def last(self, profile: Profile) -> LastOffsets:
        """Last record of each key, with keys as a release decodes them.

        Records of aborted transactions are included in the worker's topic only: dedicated topics
        are always read without them (`Fold.sees_aborted`).
        """
        return self._last.of(profile)

    def last_by_key(self, *, exactly_once: bool) -> LastByKey:
        """For each topic and key, the last record that a worker sees."""
        if exactly_once not in self._last_by_key:
            self._last_by_key[exactly_once] = {
                (topic, entry.key): entry
                for topic, entries in self._entries.items()
                for sees_aborted in [self._topics.sees_aborted(topic, exactly_once=exactly_once)]
                for entry in entries
                if sees_aborted or not entry.aborted
            }
        return self._last_by_key[exactly_once]

    def causes(
        self, keys: Iterable[tuple[str, bytes | None]], profile: Profile
    ) -> dict[tuple[str, bytes | None], Position]:
        """For each of some keys, the position of the last record that a worker sees.

        `offset_changes` expects these positions in `ClusterState.causes`. A fold stores them there
        only if it traces offsets (`trace`). The folds here do not.
        """
        last = self.last_by_key(exactly_once=self._exactly_once and profile.exactly_once_support)
        return {key: last[key].position for key in keys if key in last}

    def divided(self, profile: Profile) -> SharedResults[OffsetsByConnector]:
        """Offsets divided by connector; releases with equal offsets share the object."""
        offsets = self._folded.of(profile)
        if id(offsets) not in self._divided:
            self._divided[id(offsets)] = SharedResults(partial(self._divide, offsets))
        return self._divided[id(offsets)]

    def _fold(self, profile: Profile) -> Mapping[str, OffsetState]:
        support = self._exactly_once and profile.exactly_once_support
        worker = Fold(profile, topics=self._topics, exactly_once=support)
        load_entries(worker, chain.from_iterable(self._entries.values()))
        state = worker.snapshot()
        for offsets in self._distinct:
            if offsets == state.offsets:
                return offsets
        self._distinct.append(state.offsets)
        return state.offsets

    def _divide(self, offsets: Mapping[str, OffsetState], profile: Profile) -> OffsetsByConnector:
        return OffsetsByConnector(ClusterState(profile, self._topics, offsets=offsets))

    def _decode_last(self, profile: Profile) -> LastOffsets:
        last_entries: dict[tuple[str, str], dict[bytes | None, Entry]] = defaultdict(dict)
        for (topic, key), entry in self.last_by_key(exactly_once=False).items():
            subject = decode_partition(key, profile)
            if not isinstance(subject, Invalid):
                last_entries[topic, subject.connector][key] = entry
        return dict(last_entries)


class _OffsetComparison:
    """Comparison of the source offsets of one connector between releases."""

    def __init__(self, readings: OffsetReadings, name: str) -> None:
        self._readings, self._name = readings, name
        self._facts: dict[tuple[str | None, int], SharedResults[OffsetFacts]] = {}
        """Facts about the offsets. Key: the offsets topic in the connector's config, and the `id`
        of the result of `OffsetReadings.divided`."""
        self._changes: dict[tuple[int, int, bool, bool], list[Change]] = {}
        """Changes between two states. Key: the `id` of the facts of each state, and whether each
        state was read with exactly-once support. The support decides which records are causes."""
        self._canonical: dict[int, bool] = {}
        """Results of `_compute_canonical`. Key: the `id` of the divided offsets."""

    def changes(self, before: ClusterState, after: ClusterState) -> list[Change]:
        """Differences between two states; nothing is compared if both share one object of facts."""
        if self._is_read_alike(before, after):
            return []
        old, new = self._facts_of(before), self._facts_of(after)
        if old is new:
            return []
        key = id(old), id(new), before.exactly_once, after.exactly_once
        if key not in self._changes:
            keys = [key for fact in chain(old.values(), new.values()) for key in fact.keys]
            traced = [
                msgspec.structs.replace(state, causes=self._readings.causes(keys, state.profile))
                for state in (before, after)
            ]
            self._changes[key] = offset_changes(old, new, (traced[0], traced[1]))
        return self._changes[key]

    def _is_read_alike(self, before: ClusterState, after: ClusterState) -> bool:
        """True if both states have the same offsets, which every release reads alike.

        Few connectors have other offsets, and the check takes a tenth of the time of the facts.
        """
        if self._own_topic(before) is not None or self._own_topic(after) is not None:
            return False
        old, new = (
            self._readings.divided(state.profile).of(state.profile) for state in (before, after)
        )
        if old is not new:
            return False
        if id(old) not in self._canonical:
            self._canonical[id(old)] = self._compute_canonical(old)
        return self._canonical[id(old)]

    def _compute_canonical(self, offsets: OffsetsByConnector) -> bool:
        """True if all keys and values in the worker's topic are canonical (`canonical_offsets`)."""
        state = offsets.state_of(self._name)
        values = state.offsets[state.topics.offsets].values
        keys = [key for key in values if key is not None]
        present = [value for value in values.values() if value is not None]
        return are_canonical_keys(keys) and are_canonical_values(present)

    def _own_topic(self, state: ClusterState) -> str | None:
        configured = state.config.connectors.get(self._name, {}).get(OFFSETS_TOPIC)
        return configured if isinstance(configured, str) else None

    def _facts_of(self, state: ClusterState) -> OffsetFacts:
        own, divided = self._own_topic(state), self._readings.divided(state.profile)
        key = own, id(divided)
        if key not in self._facts:
            self._facts[key] = SharedResults(partial(self._compute, own, divided))
        return self._facts[key].of(state.profile)

    def _compute(
        self, own: str | None, divided: SharedResults[OffsetsByConnector], profile: Profile
    ) -> OffsetFacts:
        connectors = {} if own is None else {self._name: {OFFSETS_TOPIC: own}}
        state = msgspec.structs.replace(
            divided.of(profile).state_of(self._name),
            profile=profile,
            config=ConfigState(connectors=connectors),
        )
        return offset_facts(state, self._name)
