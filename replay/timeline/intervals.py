"""Facts about connectors, each with the record that began it and the one that ended it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.diff import Aspect, same
from controlplane.core.entry import Position
from controlplane.core.evolve.config import ConfigRows
from controlplane.core.evolve.status import StatusRows


class Moment(NamedTuple):
    """A record as a point in time."""

    time_ms: int
    """That of the one order: the greatest timestamp of its partition so far. It never falls."""
    position: Position


class Interval(msgspec.Struct, frozen=True):
    """A fact, from the record that made it to the one that ended it."""

    connector: str
    aspect: Aspect
    item: str
    """Which one, where a connector has several: task, topic, source partition (as JSON)."""
    value: Any
    since: Moment
    until: Moment | None
    """The record with which it holds no longer; None: it holds at the end of what was read."""

    @property
    def place(self) -> tuple[str, str, str, Moment]:
        """By which intervals are sorted: what it is about, and since when."""
        return self.connector, self.aspect.value, self.item, self.since


class Seen(msgspec.Struct, frozen=True):
    """An interval, and the releases that see it so."""

    profiles: tuple[str, ...]
    interval: Interval


def alike(found: Sequence[tuple[tuple[str, ...], Sequence[Interval]]]) -> Iterator[Seen]:
    """Intervals of several groups of releases, each with all the releases that see it."""
    if len(found) == 1:
        ((names, intervals),) = found
        yield from (Seen(names, one) for one in intervals)
        return
    places: dict[tuple[Any, ...], list[tuple[Interval, list[str]]]] = {}
    for names, intervals in found:
        for one in intervals:
            there = places.setdefault((*one.place, one.until), [])
            releases = next((some for other, some in there if holds(other.value, one.value)), None)
            if releases is None:
                there.append((one, list(names)))
            else:
                releases.extend(names)
    for there in places.values():
        yield from (Seen(tuple(names), one) for one, names in there)


def holds(was: Any, now: Any) -> bool:
    """Whether a fact is what it was, as Java compares."""
    return was is now or same(was, now)


Fact = tuple[Aspect, str]
"""What about a connector, and which one."""

Facts = Mapping[Fact, Any]


def of_config(rows: ConfigRows) -> Facts:
    """What the config topic says of a connector; tasks beyond the committed count are hidden."""
    facts: dict[Fact, Any] = {}
    if rows.connectors is not None:
        facts[Aspect.CONFIG, ""] = rows.connectors
    if rows.targets is not None:
        facts[Aspect.TARGET_STATE, ""] = rows.targets.value
    if rows.inconsistent:
        facts[Aspect.INCONSISTENT, ""] = True
    count = max(0, rows.task_counts or 0)
    if rows.task_counts is not None and not rows.inconsistent:
        facts[Aspect.TASKS, ""] = count
    for task, properties in (rows.tasks or {}).items():
        if task < count:
            facts[Aspect.TASK_CONFIG, str(task)] = properties
    return facts


def of_status(rows: StatusRows) -> Facts:
    """What the status topic says of a connector."""
    facts: dict[Fact, Any] = {}
    if rows.connector is not None:
        facts[Aspect.STATUS, ""] = rows.connector
    for task, status in rows.tasks.items():
        facts[Aspect.TASK_STATUS, str(task)] = status
    for topic in rows.active_topics:
        facts[Aspect.ACTIVE_TOPIC, topic] = True
    return facts
