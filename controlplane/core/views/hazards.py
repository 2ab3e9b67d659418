"""Hazards: records at which a worker of a release fails, or members of a group disagree.

A view shows the state of a worker that has read its topics. Hazards show whether a worker gets that
far, what it loses on the way, and what depends on chance.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from itertools import chain, groupby

import msgspec

from controlplane.core import views
from controlplane.core.codec.canonical_offsets import keys_to_decode
from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_partition, encode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.fold import FateKind, Fold, RecordFate
from controlplane.core.fold.offsets import OffsetFold, throwing_keys
from controlplane.core.fold.status import StatusFold
from controlplane.core.moments import position_text
from controlplane.core.order import in_order
from controlplane.core.records import ConnectorStatus, Invalid, TaskStatus
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import KIP, PROFILES, RELEASES, Profile, first_alike
from controlplane.core.state import Aspect, Topics


class Danger(Enum):
    """Kinds of hazards, the worst first."""

    STOPS_WORKER = "stops a worker"
    """The worker exits at each start; a running worker is blocked or loses a batch."""
    LOSES_BATCH = "loses the rest of a batch"
    """The lost records depend on where the poll batch ends, so members differ."""
    READ_FAILS = "makes reads fail"
    """Reads of the connector's tasks fail: for a request, and by the leader in a rebalance."""
    OFFSETS_DISAGREE = "keeps members from agreeing"
    """Members have different config offsets: they rebalance until all can decode a later record."""
    PARTITION_ORDER = "depends on the order between partitions"
    """Two workers that read the same log may permanently have different states."""
    OFFSET_UNREACHABLE = "cannot be reached by its key"
    """A worker looks up another key instead. Reads show that key's value, or null. A reset writes
    its tombstone under that key, so the offset stays."""


class Hazard(msgspec.Struct, frozen=True):
    """One hazard: the record that causes it, and its effect."""

    danger: Danger
    position: Position
    reason: str
    connector: str | None = None
    """Connector concerned; None: every connector. A connector may have the empty name."""


def hazards(
    entries: Iterable[Entry],
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> list[Hazard]:
    """Hazards of a log for a worker of this release, the worst first, then by position.

    `exactly_once`: the worker does not see aborted configs and offsets.
    """
    ((_, listed),) = hazards_of_each(entries, [profile], topics=topics, exactly_once=exactly_once)
    return listed


def hazards_of_each(
    entries: Iterable[Entry],
    profiles: Sequence[Profile],
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
) -> list[tuple[Profile, list[Hazard]]]:
    """Hazards for workers of several releases, in the order of `profiles`.

    Releases that read the log alike share the work.
    """
    log = _ordered_log(_by_topic(in_order(entries)), topics or Topics(), exactly_once)
    by_finder = [of_each(profiles, partial(_found_hazards, find, log)) for find in _FINDERS]
    by_profile = (sorted(chain(*parts), key=worst_first) for parts in zip(*by_finder, strict=True))
    return list(zip(profiles, by_profile, strict=True))


def _found_hazards(find: "_FindHazards", log: "_OrderedLog", profile: Profile) -> list[Hazard]:
    return list(find(log, profile))


def worst_first(hazard: Hazard) -> tuple[int, Position, str]:
    """Sort key of hazards: danger, position, reason."""
    return _RANKS[hazard.danger], hazard.position, hazard.reason


_RANKS = {danger: rank for rank, danger in enumerate(Danger)}


class _OrderedLog(msgspec.Struct, frozen=True):
    """Entries of a log in order, by topic, and settings that all its readers share."""

    entries: Mapping[str, Sequence[Entry]]
    topics: Topics
    exactly_once: bool
    config_ends: Mapping[bool, Sequence[int]]
    """Config offset per profile of `PROFILES`, without and with exactly-once support."""

    @property
    def config(self) -> Sequence[Entry]:
        """Records of the config topic, even those that the worker does not see."""
        return self.entries.get(self.topics.config, ())

    def visible(self, topic: str) -> Iterator[Entry]:
        """Records of a topic that the worker sees."""
        entries = self.entries.get(topic, ())
        if self.topics.sees_aborted(topic, exactly_once=self.exactly_once):
            return iter(entries)
        return (entry for entry in entries if not entry.aborted)

    def offsets(self) -> Iterator[Entry]:
        """Records of all offsets topics that the worker sees."""
        return chain.from_iterable(map(self.visible, self.offsets_topics))

    @property
    def offsets_topics(self) -> list[str]:
        """Names of all offsets topics."""
        others = self.topics.config, self.topics.status, self.topics.commands
        return [topic for topic in self.entries if topic not in others]


def _ordered_log(
    entries: Mapping[str, Sequence[Entry]], topics: Topics, exactly_once: bool
) -> _OrderedLog:
    """The log, with the config offset of every release computed once."""
    config_entries = entries.get(topics.config, ())
    # A foreign record may be large: it is decoded once for all releases that read it alike.
    ends = {
        support: list(
            of_each(PROFILES, partial(_config_offset, config_entries, exactly_once=support))
        )
        for support in (False, True)
    }
    return _OrderedLog(entries, topics, exactly_once, ends)


def _by_topic(entries: Iterable[Entry]) -> Mapping[str, Sequence[Entry]]:
    topics: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        topics[entry.topic].append(entry)
    return topics


# --- records that throw ---------------------------------------------------------------------


def _config_exceptions(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Records of the config topic that throw, and task counts that make reads throw."""
    fold = Fold(profile, topics=log.topics, exactly_once=log.exactly_once)
    for entry in log.config:
        yield from _hazards_of_fate(entry, fold.apply(entry), profile)
    state = fold.snapshot()
    for name in views.connectors(state):
        try:
            views.task_ids(state, name)
        except views.ReadFailed as error:
            place = state.changed[name, Aspect.TASKS, ""]
            yield Hazard(Danger.READ_FAILS, place, f"impossible task count: {error}", name)


def _status_exceptions(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Records of the status topic that throw."""
    fold = StatusFold(profile)
    for entry in log.visible(log.topics.status):
        yield from _hazards_of_fate(entry, fold.apply(entry), profile)


def _offset_exceptions(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Records of the offsets topics that throw. Only the key decides that."""
    throwing = throwing_keys({entry.key for entry in log.offsets()}, profile)
    fold = OffsetFold(profile)
    for entry in log.offsets() if throwing else ():
        if entry.key in throwing:
            yield from _hazards_of_fate(entry, fold.apply(entry), profile)


def _hazards_of_fate(entry: Entry, fate: RecordFate, profile: Profile) -> Iterator[Hazard]:
    if fate.kind is FateKind.POISON:
        yield Hazard(Danger.STOPS_WORKER, entry.position, _poison_reason(fate, profile))
    elif fate.kind is FateKind.LOSES_BATCH:
        reason = f"{fate.reason}: the rest of the poll batch is never read"
        yield Hazard(Danger.LOSES_BATCH, entry.position, reason)


def _poison_reason(fate: RecordFate, profile: Profile) -> str:
    survives = profile.log_thread_survives
    running = "loses the rest of its batch" if survives else "reads no more records"
    thrown = fate.thrown
    return f"{fate.reason} ({thrown}): a worker exits at start, a running one {running}"


# --- members that disagree ------------------------------------------------------------------


def _offsets_disagree(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Records at the end of the config topic that only some members can read."""
    tail = log.config
    own_end = _config_offset(tail, profile, exactly_once=log.exactly_once)
    reported: set[tuple[str, int]] = set()
    for exactly_once in (False, True):
        releases_by_end: dict[int, list[str]] = defaultdict(list)
        for other, other_end in zip(PROFILES, log.config_ends[exactly_once], strict=True):
            if exactly_once and not other.exactly_once_support:
                continue
            if other_end != own_end and (other.release, other_end) not in reported:
                releases_by_end[other_end].append(other.release)
        reported |= {
            (release, end) for end, releases in releases_by_end.items() for release in releases
        }
        for other_end, releases in sorted(releases_by_end.items()):
            yield _disagreement(
                tail, own_end, other_end, _member_releases(releases, exactly_once=exactly_once)
            )


def _member_releases(releases: list[str], *, exactly_once: bool) -> str:
    """Ranges of all releases with the behaviours of these profiles: `0.9.0.0 to 2.2.1, 2.3.0`."""
    ordered = (*RELEASES, KIP)
    spans = []
    for is_named, run in groupby(ordered, lambda name: _behaviours_of(name) in releases):
        if is_named:
            first, *others = run
            spans.append(f"{first} to {others[-1]}" if others else first)
    return ", ".join(spans) + (" with exactly-once support" if exactly_once else "")


@cache
def _behaviours_of(release: str) -> str:
    """Release of the profile in `PROFILES` that behaves like the given release."""
    return first_alike(Profile.of(release)).release


def _disagreement(tail: Sequence[Entry], own_end: int, other_end: int, members: str) -> Hazard:
    last = max(own_end, other_end) - 1
    position = next((entry.position for entry in tail if entry.offset == last), tail[-1].position)
    reason = (
        f"config offset {own_end} on this worker, {other_end} on members of {members}: "
        "rebalances continue until every member can decode a later record"
    )
    return Hazard(Danger.OFFSETS_DISAGREE, position, reason)


def _config_offset(tail: Sequence[Entry], profile: Profile, *, exactly_once: bool) -> int:
    """Final config offset of a worker: one past the last record that it can decode; -1: none."""
    for entry in reversed(tail):
        if entry.aborted and exactly_once:
            continue
        record = decode_config(entry.key, entry.value, profile)
        if not isinstance(record, Invalid) or record.advances:
            return entry.offset + 1
    return -1


# --- the order between partitions -----------------------------------------------------------


class TaskRivals(msgspec.Struct, frozen=True):
    """Status of a task, and a tombstone of its connector in another partition.

    A worker shows the task only if it reads the status after the tombstone.
    """

    connector: str
    task: int
    status: Position
    tombstone: Position


def task_rivals(entries: Iterable[Entry], profile: Profile) -> Iterator[TaskRivals]:
    """Task statuses whose fate depends on the order between partitions.

    See edge 20 of docs/releases.md. `entries` are the records of the status topic that the worker
    sees, in the one order (`core.order`).
    """
    # The last tombstone of a connector in each partition, in the order of reading.
    removed: dict[str, dict[int, Position]] = defaultdict(dict)
    tasks: dict[tuple[str, int], Position] = {}
    for entry in entries:
        match decode_status(entry.key, entry.value, profile):
            case ConnectorStatus(name, None):
                removed[name].pop(entry.partition, None)
                removed[name][entry.partition] = entry.position
            case TaskStatus(name, task, None):
                tasks.pop((name, task), None)
            case TaskStatus(name, task, _):
                tasks[name, task] = entry.position
    for (name, task), position in tasks.items():
        own = removed[name].get(position.partition)
        if own is not None and own.offset > position.offset:
            continue  # every worker reads this tombstone after the status
        latest = reversed(removed[name].values())
        rival = next((read for read in latest if read.partition != position.partition), None)
        if rival is not None:
            yield TaskRivals(name, task, position, rival)


def _status_order(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Task statuses whose fate depends on a connector's tombstone in another partition."""
    for rivals in task_rivals(log.visible(log.topics.status), profile):
        where = position_text(rivals.tombstone, log.topics)
        reason = (
            f"task {rivals.task} is shown only if a worker reads its status after the tombstone at "
            f"{where}"
        )
        yield Hazard(Danger.PARTITION_ORDER, rivals.status, reason, rivals.connector)


def key_rivals(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    """Last records of each key that lies in several partitions of a topic, one per partition.

    `entries` must be in the one order (`core.order`). Each yielded sequence keeps that order, so
    its last record counts. Causes are another partitioner than Kafka's, or partitions that were
    added.
    """
    last: dict[tuple[str, bytes | None], Entry] = {}
    # Few keys lie in several partitions, and a dict per key would take much memory.
    rivals: dict[tuple[str, bytes | None], dict[int, Entry]] = {}
    for entry in entries:
        key = entry.topic, entry.key
        earlier = last.get(key, entry)
        last[key] = entry
        if earlier.partition != entry.partition:
            rivals.setdefault(key, {earlier.partition: earlier})
        if key in rivals:
            rivals[key].pop(entry.partition, None)  # so that the newest record comes last
            rivals[key][entry.partition] = entry
    for key in last if rivals else ():
        if key in rivals:
            yield [*rivals[key].values()]


def _offset_order(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Offset keys in several partitions with different values."""
    for rivals in key_rivals(log.offsets()):
        if len({rival.value for rival in rivals}) > 1:
            entry = rivals[-1]
            parts = ", ".join(map(str, sorted(rival.partition for rival in rivals)))
            reason = f"its key lies in partitions {parts}, with different values"
            yield Hazard(Danger.PARTITION_ORDER, entry.position, reason, _owner(entry, profile))


def _config_partitions(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Hazard of a config topic with records outside partition 0."""
    misplaced = [entry for entry in log.visible(log.topics.config) if entry.partition]
    if misplaced:
        refused = profile.config_partition_required
        danger = Danger.STOPS_WORKER if refused else Danger.PARTITION_ORDER
        effect = "a worker refuses to start on it" if refused else "nothing defines their order"
        reason = f"the config topic has more than one partition: {effect}"
        yield Hazard(danger, misplaced[0].position, reason)


# --- keys ------------------------------------------------------------------------------------


def _unreachable_offsets(log: _OrderedLog, profile: Profile) -> Iterator[Hazard]:
    """Offsets whose key a worker serialises to other bytes than the log has."""
    if not profile.offset_partitions or profile.offsets_by_log_key:
        return
    for topic in log.offsets_topics:
        last = {entry.key: entry for entry in log.visible(topic)}
        for key in keys_to_decode([key for key in last if key is not None]):
            entry, subject = last[key], decode_partition(key, profile)
            if entry.value is None or isinstance(subject, Invalid):
                continue
            looked_up = encode_partition(subject.connector, subject.partition)
            if looked_up != key:
                text = looked_up.decode("utf-8", "replace")
                reason = f"reads and resets of this offset use another key: {text}"
                yield Hazard(Danger.OFFSET_UNREACHABLE, entry.position, reason, subject.connector)


def _owner(entry: Entry, profile: Profile) -> str | None:
    subject = decode_partition(entry.key, profile)
    return None if isinstance(subject, Invalid) else subject.connector


_FindHazards = Callable[[_OrderedLog, Profile], Iterator[Hazard]]

_FINDERS: tuple[_FindHazards, ...] = (
    _config_exceptions,
    _status_exceptions,
    _offset_exceptions,
    _offsets_disagree,
    _status_order,
    _offset_order,
    _config_partitions,
    _unreachable_offsets,
)
