"""What differs between two states, as typed facts, each with the record that causes it.

The two may be the same log as two releases see it, the same worker at two points in time, or two
logs. The cause is the last record that changed the fact in either of them: for two releases, the
record that they read differently.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from controlplane.core import javajson, views
from controlplane.core.codec.offsets import frozen
from controlplane.core.entry import Position
from controlplane.core.records import Status
from controlplane.core.source_partitions import apart
from controlplane.core.state import Aspect, ClusterState

__all__ = ["Aspect", "Change", "diff", "plain_status", "same"]


class Change(msgspec.Struct, frozen=True):
    """One fact that differs: `before` in the one state, `after` in the other; None: absent."""

    connector: str
    aspect: Aspect
    item: str
    """Which one, where a connector has several: config key, task id, topic, source partition."""
    before: Any
    after: Any
    cause: Position | None
    """The record that changed it last; None where neither state knows (offsets, untraced)."""


class _Place(NamedTuple):
    connector: str
    aspect: Aspect
    item: str = ""


class _Fact(NamedTuple):
    """A value, and where to look for its cause."""

    value: Any
    changed: _Place
    keys: tuple[tuple[str, bytes | None], ...] = ()
    """For offsets: (topic, raw key) of the records that have a say."""


_Facts = Iterator[tuple[_Place, _Fact]]


def diff(before: ClusterState, after: ClusterState, connector: str | None = None) -> list[Change]:
    """Every difference, by connector, aspect and item. Equal states have none.

    `connector` asks for its differences alone, which is quick where there are many offsets.
    """
    old, new = dict(_facts(before, connector)), dict(_facts(after, connector))
    states = before, after
    places = sorted(old.keys() | new.keys(), key=lambda place: (place[0], place[1].value, place[2]))
    changes = (_change(place, old.get(place), new.get(place), states) for place in places)
    return [change for change in changes if change is not None]


def _change(
    place: _Place, was: _Fact | None, now: _Fact | None, states: tuple[ClusterState, ...]
) -> Change | None:
    absent = 0 if place.aspect is Aspect.TASKS else None
    values = [fact.value if fact is not None else absent for fact in (was, now)]
    if same(*values):
        return None
    facts = [fact for fact in (was, now) if fact is not None]
    before, after = values
    return Change(*place, before, after, _cause(facts, states))


def same(one: Any, other: Any) -> bool:
    """Equal, kinds of numbers included: Java tells 1 from 1.0 and from true."""
    return bool(frozen(one) == frozen(other))


def _cause(facts: list[_Fact], states: tuple[ClusterState, ...]) -> Position | None:
    places = [state.changed.get(fact.changed) for state in states for fact in facts]
    places += [state.causes.get(key) for state in states for fact in facts for key in fact.keys]
    known = [place for place in places if place is not None]
    return max(known, key=lambda place: place.offset, default=None)


def _facts(state: ClusterState, connector: str | None) -> _Facts:
    if connector is not None:
        yield from _facts_about(state, connector)
        return
    known_of = apart(state)
    for name in _names(state):
        yield from _facts_about(known_of(name), name)


def _facts_about(state: ClusterState, name: str) -> _Facts:
    for about in _ABOUT:
        yield from about(state, name)


def _names(state: ClusterState) -> list[str]:
    config, status = state.config, state.status
    names = {*config.connectors, *config.targets, *config.task_counts, *config.inconsistent}
    names |= {*status.connectors, *status.tasks, *status.active_topics}
    names |= set(views.offset_owners(state))
    return sorted(names)


def _about_config(state: ClusterState, name: str) -> _Facts:
    whole = _Place(name, Aspect.CONFIG)
    for key, value in state.config.connectors.get(name, {}).items():
        yield _Place(name, Aspect.CONFIG, key), _Fact(value, whole)
    wanted = state.config.targets.get(name)
    if wanted is not None:
        place = _Place(name, Aspect.TARGET_STATE)
        yield place, _Fact(wanted.value, place)


def _about_tasks(state: ClusterState, name: str) -> _Facts:
    config, place = state.config, _Place(name, Aspect.TASKS)
    if config.task_ids(name):
        yield place, _Fact(len(config.task_ids(name)), place)
    if name in config.inconsistent:
        yield _Place(name, Aspect.INCONSISTENT), _Fact(value=True, changed=place)
    count = config.task_counts.get(name, 0)
    for task, properties in config.tasks.get(name, {}).items():
        if task >= count:
            continue
        yield _Place(name, Aspect.TASK_CONFIG, str(task)), _Fact(properties, place)


def _about_status(state: ClusterState, name: str) -> _Facts:
    status, place = state.status, _Place(name, Aspect.STATUS)
    reported = status.connectors.get(name)
    if reported is not None:
        yield place, _Fact(plain_status(reported), place)
    for task, report in status.tasks.get(name, {}).items():
        place = _Place(name, Aspect.TASK_STATUS, str(task))
        yield place, _Fact(plain_status(report), place)
    for topic in status.active_topics.get(name, {}):
        place = _Place(name, Aspect.ACTIVE_TOPIC, topic)
        yield place, _Fact(value=True, changed=place)


def plain_status(status: Status) -> dict[str, Any]:
    """What of a status is a fact that people compare."""
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    return shown | ({"trace": status.trace} if status.trace else {})


def _about_offsets(state: ClusterState, name: str) -> _Facts:
    topic = views.offsets_topics(state, name)[0]
    for view in views.source_offsets(state, name):
        item = javajson.encode(dict(sorted(view.partition.items()))).decode("utf-8", "replace")
        place = _Place(name, Aspect.SOURCE_OFFSET, item)
        yield place, _Fact(view.offset, place, ((topic, view.raw), (topic, view.key)))


_ABOUT: tuple[Callable[[ClusterState, str], _Facts], ...] = (
    _about_config,
    _about_tasks,
    _about_status,
    _about_offsets,
)
