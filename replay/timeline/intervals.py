"""Facts about connectors, each with the record that began it and the one that ended it."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.diff import Aspect, same
from controlplane.core.entry import Position
from controlplane.core.evolve.config import ConfigRows
from controlplane.core.evolve.status import StatusRows
from controlplane.core.profiles import Profile


class Moment(NamedTuple):
    """A record as a point in time."""

    time_ms: int
    """That of the one order: the greatest timestamp of its partition so far. It never falls."""
    position: Position


class Moments:
    """Moments of records of one topic, in columns: so many of them go sooner to a process."""

    def __init__(self, topic: str, moments: Iterable[Moment]) -> None:
        self._topic = topic
        self._times_ms, self._partitions, self._offsets = array("q"), array("q"), array("q")
        for time_ms, (_, partition, offset) in moments:
            self._times_ms.append(time_ms)
            self._partitions.append(partition)
            self._offsets.append(offset)

    def __iter__(self) -> Iterator[Moment]:
        columns = zip(self._times_ms, self._partitions, self._offsets, strict=True)
        for time_ms, partition, offset in columns:
            yield Moment(time_ms, Position(self._topic, partition, offset))


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


def alike(
    found: Sequence[tuple[list[Profile], Sequence[Interval]]], asked: Sequence[Profile]
) -> Iterator[Seen]:
    """Intervals of several groups of releases, each with all the releases that see it."""
    if len(found) == 1:
        ((profiles, intervals),) = found
        releases = names(profiles, asked)
        yield from (Seen(releases, one) for one in intervals)
        return
    places: dict[tuple[Any, ...], list[tuple[Interval, list[Profile]]]] = {}
    for profiles, intervals in found:
        for one in intervals:
            there = places.setdefault((*one.place, one.until), [])
            seers = next((some for other, some in there if holds(other.value, one.value)), None)
            if seers is None:
                there.append((one, list(profiles)))
            else:
                seers.extend(profiles)
    for there in places.values():
        yield from (Seen(names(seers, asked), one) for one, seers in there)


def names(profiles: Collection[Profile], asked: Sequence[Profile]) -> tuple[str, ...]:
    """The releases of some profiles, in the order in which they were asked."""
    releases = {profile.release for profile in profiles}
    return tuple(one.release for one in asked if one.release in releases)


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
