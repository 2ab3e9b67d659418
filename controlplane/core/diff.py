"""What differs between two states, as typed facts, each with the record that causes it.

The two may be the same log as two releases see it, the same worker at two points in time, or two
logs. The cause is the last record that has a say in the fact; for two releases that is the record
which they read differently.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from controlplane.core import views
from controlplane.core.entry import Position
from controlplane.core.records import Status
from controlplane.core.state import ClusterState


class Aspect(Enum):
    """What about a connector can differ."""

    CONFIG = "config"
    TARGET_STATE = "target state"
    TASKS = "tasks"
    TASK_CONFIG = "task config"
    INCONSISTENT = "inconsistent"
    STATUS = "status"
    TASK_STATUS = "task status"
    ACTIVE_TOPIC = "active topic"
    SOURCE_OFFSET = "source offset"


class Change(msgspec.Struct, frozen=True):
    """One fact that differs: `before` in the one state, `after` in the other; None: absent."""

    connector: str
    aspect: Aspect
    item: str
    """Which one, where a connector has several: config key, task id, topic, source partition."""
    before: Any
    after: Any
    cause: Position | None
    """The last record with a say in it; None where neither state knows (offsets, untraced)."""


class _Fact(NamedTuple):
    """A value and the raw keys of the records that have a say in it."""

    value: Any
    topic: str
    keys: tuple[bytes | None, ...]


_Place = tuple[str, Aspect, str]


def diff(before: ClusterState, after: ClusterState) -> list[Change]:
    """Every difference, by connector, aspect and item. Equal states have none."""
    old, new = dict(_facts(before)), dict(_facts(after))
    places = sorted(old.keys() | new.keys(), key=lambda place: (place[0], place[1].value, place[2]))
    changes = (_change(place, old, new, before, after) for place in places)
    return [change for change in changes if change is not None]


def _change(
    place: _Place,
    old: Mapping[_Place, _Fact],
    new: Mapping[_Place, _Fact],
    before: ClusterState,
    after: ClusterState,
) -> Change | None:
    was, is_ = old.get(place), new.get(place)
    if was is not None and is_ is not None and _same(was.value, is_.value):
        return None
    facts = [fact for fact in (was, is_) if fact is not None]
    cause = _cause(facts, (before, after))
    return Change(*place, was and was.value, is_ and is_.value, cause)


def _same(one: Any, other: Any) -> bool:
    """Equal, kinds of numbers included: Java tells 1 from 1.0 and from true."""
    return bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other)


def _cause(facts: list[_Fact], states: tuple[ClusterState, ...]) -> Position | None:
    places = [
        state.causes[fact.topic, key]
        for state in states
        for fact in facts
        for key in fact.keys
        if (fact.topic, key) in state.causes
    ]
    return max(places, key=lambda place: place.offset, default=None)


def _facts(state: ClusterState) -> Iterator[tuple[_Place, _Fact]]:
    config, status = state.config, state.status
    names = {*config.connectors, *config.targets, *config.task_counts, *config.inconsistent}
    names |= {*status.connectors, *status.tasks, *status.active_topics}
    names |= set(views.offset_owners(state))
    for name in sorted(names):
        for about in _ABOUT:
            yield from about(state, name)


def _key(prefix: str, name: str) -> bytes:
    return f"{prefix}{name}".encode("utf-8", "surrogatepass")


def _about_config(state: ClusterState, name: str) -> Iterator[tuple[_Place, _Fact]]:
    topic, config = state.topics.config, state.config.connectors.get(name)
    for key, value in (config or {}).items():
        yield (name, Aspect.CONFIG, key), _Fact(value, topic, (_key("connector-", name),))
    wanted = state.config.targets.get(name)
    if wanted is not None:
        keys = (_key("target-state-", name), _key("connector-", name))
        yield (name, Aspect.TARGET_STATE, ""), _Fact(wanted.value, topic, keys)


def _about_tasks(state: ClusterState, name: str) -> Iterator[tuple[_Place, _Fact]]:
    topic, config = state.topics.config, state.config
    keys = (_key("commit-", name), _key("connector-", name))
    if name in config.connectors:
        yield (name, Aspect.TASKS, ""), _Fact(len(config.task_ids(name)), topic, keys)
    if name in config.inconsistent:
        yield (name, Aspect.INCONSISTENT, ""), _Fact(value=True, topic=topic, keys=keys)
    for task, properties in views.task_configs(state, name).items():
        own = (_key("task-", f"{name}-{task}"), *keys)
        yield (name, Aspect.TASK_CONFIG, str(task)), _Fact(properties, topic, own)


def _about_status(state: ClusterState, name: str) -> Iterator[tuple[_Place, _Fact]]:
    topic, status = state.topics.status, state.status
    whole = _key("status-connector-", name)
    reported = status.connectors.get(name)
    if reported is not None:
        yield (name, Aspect.STATUS, ""), _Fact(_plain(reported), topic, (whole,))
    for task, report in status.tasks.get(name, {}).items():
        keys = (_key("status-task-", f"{name}-{task}"), whole)
        yield (name, Aspect.TASK_STATUS, str(task)), _Fact(_plain(report), topic, keys)
    for used in status.active_topics.get(name, {}):
        key = _key("status-topic-", f"{used}:connector-{name}")
        yield (name, Aspect.ACTIVE_TOPIC, used), _Fact(value=True, topic=topic, keys=(key,))


def _plain(status: Status) -> dict[str, Any]:
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    return shown | ({"trace": status.trace} if status.trace else {})


def _about_offsets(state: ClusterState, name: str) -> Iterator[tuple[_Place, _Fact]]:
    topic = views.offsets_topics(state, name)[0]
    for view in views.source_offsets(state, name):
        item = msgspec.json.encode(view.partition, order="sorted").decode()
        yield (name, Aspect.SOURCE_OFFSET, item), _Fact(view.offset, topic, (view.raw, view.key))


_About = Callable[[ClusterState, str], Iterator[tuple[_Place, _Fact]]]
_ABOUT: tuple[_About, ...] = (_about_config, _about_tasks, _about_status, _about_offsets)
