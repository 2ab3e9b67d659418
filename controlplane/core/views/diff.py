"""Differences between two states, as typed facts with the record that causes each.

The states may be of two logs, of one log in two releases, or of one worker at two times. The cause
is the last record that changed the fact in either state. For two releases that is the record that
they read differently.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.codec.offsets import frozen
from controlplane.core.codec.status import decode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.java import json_codec
from controlplane.core.records import ActiveTopic, Status, TaskStatus
from controlplane.core.state import Aspect, ClusterState
from controlplane.core.topics.source_partitions import OffsetsByConnector, narrowed

__all__ = [
    "Aspect",
    "Change",
    "OffsetFacts",
    "changed_by",
    "diff",
    "differences",
    "is_known",
    "offset_changes",
    "offset_facts",
    "plain_status",
    "same",
]


class Change(msgspec.Struct, frozen=True):
    """One differing fact: its value `before` and `after`; None: absent."""

    connector: str
    aspect: Aspect
    item: str
    """Config key, task id, topic or source partition; empty for facts that a connector has once."""
    before: Any
    after: Any
    cause: Position | None
    """Record that changed the fact last; None: unknown. Offsets have causes only if traced."""


class _FactPlace(NamedTuple):
    """Key of a fact within a state."""

    connector: str
    aspect: Aspect
    item: str = ""


class _ComparedFact(NamedTuple):
    """Value of a fact, and the lookup keys of its cause."""

    value: Any
    changed: _FactPlace
    """Key in `ClusterState.changed`."""
    keys: tuple[tuple[str, bytes | None], ...] = ()
    """For offsets: (topic, raw key) of the records that may be the cause."""


_Facts = Iterator[tuple[_FactPlace, _ComparedFact]]

OffsetFacts = Mapping[_FactPlace, _ComparedFact]
"""Facts about the source offsets of one connector."""


def diff(before: ClusterState, after: ClusterState, connector: str | None = None) -> list[Change]:
    """Differences by connector, aspect and item; none for equal states.

    `connector` limits them to one connector, which is fast even with many offsets.
    """
    if connector is not None:
        return _differing((before, after), connector, _FACT_READERS)
    return list(differences(before, after))


def differences(before: ClusterState, after: ClusterState) -> Iterator[Change]:
    """The differences of `diff`, one connector at a time."""
    old, new = OffsetsByConnector(before), OffsetsByConnector(after)
    names = {*_named(before), *old.names, *_named(after), *new.names}
    for name in sorted(names):
        yield from _differing((old.state_of(name), new.state_of(name)), name, _FACT_READERS)


def connector_names(state: ClusterState) -> list[str]:
    """Names of all connectors that a state has any fact about, sorted."""
    return sorted(_named(state).union(views.offset_owners(state)))


def _named(state: ClusterState) -> set[str]:
    """Names of connectors with facts other than offsets."""
    config, status = state.config, state.status
    names = {*config.connectors, *config.targets, *config.task_counts, *config.inconsistent}
    return names | {*status.connectors, *status.tasks, *status.active_topics}


def is_known(state: ClusterState, name: str) -> bool:
    """True if a state has any fact about a connector, even only a leftover offset."""
    nothing = ClusterState(state.profile)
    return any(True for read in _FACT_READERS for _ in read(state, name, nothing))


def changed_by(
    entry: Entry, before: ClusterState, after: ClusterState, connector: str
) -> list[Change]:
    """Differences that one record made to its connector: the `diff` of the states around it.

    Reads only facts that the record can change. So the cost does not depend on the size of the
    connector. If the log spells a source partition in several ways, the record's spelling is used.
    """
    topics = after.topics
    if entry.topic == topics.config:
        readers: list[_ReadFacts] = [_about_config, _about_target, _about_tasks]
        if views.offsets_topics(before, connector) != views.offsets_topics(after, connector):
            readers.append(_about_offsets)
    elif entry.topic == topics.status:
        readers = _status_readers(entry, after)
    else:
        readers = [_about_offsets]
        before, after = (narrowed(state, connector, entry.key) for state in (before, after))
    return _differing((before, after), connector, readers)


def _status_readers(entry: Entry, state: ClusterState) -> list["_ReadFacts"]:
    """Readers of the facts that a status record can change."""
    match decode_status(entry.key, None, state.profile):
        case TaskStatus(_, task, _):
            return [partial(_about_task, task=task)]
        case ActiveTopic(_, topic, _):
            return [partial(_about_active_topic, topic=topic)]
    return [_about_connector_status, _about_task_statuses]


def _differing(
    states: tuple[ClusterState, ClusterState], name: str, readers: Iterable["_ReadFacts"]
) -> list[Change]:
    """Differences in the facts that some readers return for a connector."""
    old, new = (
        dict(chain.from_iterable(read(state, name, other) for read in readers))
        for state, other in (states, states[::-1])
    )
    return _changes(old, new, states)


def offset_facts(state: ClusterState, connector: str) -> OffsetFacts:
    """Facts about a connector's source offsets, for several calls of `offset_changes`."""
    return dict(_about_offsets(state, connector, state))


def offset_changes(
    old: OffsetFacts, new: OffsetFacts, states: tuple[ClusterState, ClusterState]
) -> list[Change]:
    """Differences of `diff` in the source offsets of one connector.

    `states` are the states of the facts, with `causes` for the keys of this connector.
    """
    return _changes(old, new, states)


def _changes(
    old: Mapping[_FactPlace, _ComparedFact],
    new: Mapping[_FactPlace, _ComparedFact],
    states: tuple[ClusterState, ClusterState],
) -> list[Change]:
    """Differences in the facts of one connector, by aspect and item."""
    # Two stable sorts: comparing texts takes a quarter of the time of tuples, and the sort blocks
    # all other threads.
    places = sorted(old.keys() | new.keys(), key=lambda place: place.item)
    places.sort(key=lambda place: place.aspect.value)
    changes = (_change(place, old.get(place), new.get(place), states) for place in places)
    return [change for change in changes if change is not None]


def _change(
    place: _FactPlace,
    old_fact: _ComparedFact | None,
    new_fact: _ComparedFact | None,
    states: tuple[ClusterState, ClusterState],
) -> Change | None:
    """Difference in one fact; None: both states agree.

    `old_fact` or `new_fact` None: the state lacks the fact.
    """
    # A connector without a committed task set has no tasks.
    absent = 0 if place.aspect is Aspect.TASKS else None
    values = [fact.value if fact is not None else absent for fact in (old_fact, new_fact)]
    if same(*values):
        return None
    facts = [fact for fact in (old_fact, new_fact) if fact is not None]
    before, after = values
    added = None if len(facts) > 1 else old_fact is None
    return Change(*place, before, after, _cause(facts, *states, added=added))


def same(left: Any, right: Any) -> bool:
    """True if two values are equal in Java, where 1, 1.0 and true differ."""
    return left is right or bool(frozen(left) == frozen(right))


def _cause(
    facts: list[_ComparedFact], before: ClusterState, after: ClusterState, *, added: bool | None
) -> Position | None:
    """Last record that changed a fact.

    `added`: True if only `after` has the fact, False if only `before`, None if both. Candidates are
    the last records that changed the fact in each state. If they are in two partitions, their log
    offsets do not show which one is later. Two rules do:

    1. A record that only one state has read comes after all records that both have read.
    2. States of two releases may have read the same records, but only one has the fact. Then the
       other release ignored the record that wrote the fact; for example, 3.4 ignores a STOPPED
       status. This record is one candidate, and it is the later one. The state without the fact
       gives the other candidate: a tombstone, which removed an earlier value of the fact. Both
       releases obey tombstones: if the tombstone were later, neither state would have the fact.
    """
    old, new = _records(facts, before), _records(facts, after)
    unread = _unread_records(old, after) or _unread_records(new, before)
    if unread:
        return max(unread, key=_offset_of)
    if len({place[:2] for place in (*old, *new)}) > 1 and added is not None:
        return max(new if added else old, key=_offset_of, default=None)
    return max((*old, *new), key=_offset_of, default=None)


def _records(facts: list[_ComparedFact], state: ClusterState) -> list[Position]:
    """Last records that changed the facts in a state."""
    places = [state.changed.get(fact.changed) for fact in facts]
    places += [state.causes.get(key) for fact in facts for key in fact.keys]
    return [place for place in places if place is not None]


def _unread_records(places: list[Position], state: ClusterState) -> list[Position]:
    """Records that a state has not read."""
    return [place for place in places if place.offset >= state.ends.get(place[:2], 0)]


def _offset_of(place: Position) -> int:
    return place.offset


_ReadFacts = Callable[[ClusterState, str, ClusterState], _Facts]
"""Reads facts about a connector from a state; may skip those that the other state shares.

Two states of one fold share every row that no record between them has replaced.
"""


def _about_config(state: ClusterState, name: str, other: ClusterState) -> _Facts:
    config = state.config.connectors.get(name, {})
    if config is other.config.connectors.get(name):
        return
    config_key = _FactPlace(name, Aspect.CONFIG)
    for key, value in config.items():
        yield _FactPlace(name, Aspect.CONFIG, key), _ComparedFact(value, config_key)


def _about_target(state: ClusterState, name: str, _: ClusterState) -> _Facts:
    target = state.config.targets.get(name)
    if target is not None:
        place = _FactPlace(name, Aspect.TARGET_STATE)
        yield place, _ComparedFact(target.value, place)


def _about_tasks(state: ClusterState, name: str, other: ClusterState) -> _Facts:
    config, place = state.config, _FactPlace(name, Aspect.TASKS)
    if config.task_ids(name):
        yield place, _ComparedFact(len(config.task_ids(name)), place)
    if name in config.inconsistent:
        yield _FactPlace(name, Aspect.INCONSISTENT), _ComparedFact(value=True, changed=place)
    count, tasks = config.task_counts.get(name, 0), config.tasks.get(name, {})
    if tasks is other.config.tasks.get(name) and count == other.config.task_counts.get(name, 0):
        return
    # Readers do not see tasks beyond the count. The loop runs over the count or over the configs,
    # whichever is shorter.
    listed = range(count) if 0 <= count < len(tasks) else tasks
    for task in listed:
        if task < count and task in tasks:
            yield _FactPlace(name, Aspect.TASK_CONFIG, str(task)), _ComparedFact(tasks[task], place)


def _about_connector_status(state: ClusterState, name: str, _: ClusterState) -> _Facts:
    reported = state.status.connectors.get(name)
    if reported is not None:
        place = _FactPlace(name, Aspect.STATUS)
        yield place, _ComparedFact(plain_status(reported), place)


def _about_task_statuses(state: ClusterState, name: str, other: ClusterState) -> _Facts:
    tasks = state.status.tasks.get(name, {})
    if tasks is not other.status.tasks.get(name):
        for task in tasks:
            yield from _about_task(state, name, other, task=task)


def _about_task(state: ClusterState, name: str, _: ClusterState, *, task: int) -> _Facts:
    report = state.status.tasks.get(name, {}).get(task)
    if report is not None:
        place = _FactPlace(name, Aspect.TASK_STATUS, str(task))
        yield place, _ComparedFact(plain_status(report), place)


def _about_active_topics(state: ClusterState, name: str, other: ClusterState) -> _Facts:
    topics = state.status.active_topics.get(name, {})
    if topics is not other.status.active_topics.get(name):
        for topic in topics:
            yield from _about_active_topic(state, name, other, topic=topic)


def _about_active_topic(state: ClusterState, name: str, _: ClusterState, *, topic: str) -> _Facts:
    if topic in state.status.active_topics.get(name, {}):
        place = _FactPlace(name, Aspect.ACTIVE_TOPIC, topic)
        yield place, _ComparedFact(value=True, changed=place)


def plain_status(status: Status) -> dict[str, Any]:
    """Compared fields of a status: `state`, `worker_id`, and `trace` if there is one."""
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    return shown | ({"trace": status.trace} if status.trace else {})


def _about_offsets(state: ClusterState, name: str, _: ClusterState) -> _Facts:
    topic = views.offsets_topics(state, name)[0]
    # Two partitions may have one text, and the last one counts. So the order must not depend on the
    # way in which the state was loaded.
    for view in sorted(views.source_offsets(state, name), key=attrgetter("raw")):
        item = json_codec.encode(dict(sorted(view.partition.items()))).decode("utf-8", "replace")
        place = _FactPlace(name, Aspect.SOURCE_OFFSET, item)
        yield place, _ComparedFact(view.offset, place, ((topic, view.raw), (topic, view.key)))


_FACT_READERS: tuple[_ReadFacts, ...] = (
    _about_config,
    _about_target,
    _about_tasks,
    _about_connector_status,
    _about_task_statuses,
    _about_active_topics,
    _about_offsets,
)
