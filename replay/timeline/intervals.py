"""Intervals: facts about connectors, each with its first record and the record that ended it."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Position
from controlplane.core.fold.config import ConfigRows
from controlplane.core.fold.status import StatusRows
from controlplane.core.releases.profiles import Profile
from controlplane.core.views.diff import Aspect, same


class Moment(NamedTuple):
    """A record as a point in time."""

    time_ms: int
    """Time in the one order: the partition's greatest timestamp so far. It never decreases."""
    position: Position


class MomentColumns:
    """Moments of one topic's records in columns, which are cheaper to send between processes."""

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
    """A fact, from its first record to the record that ended it."""

    connector: str
    aspect: Aspect
    item: str
    """Task, topic or source partition (as JSON); empty for facts that a connector has once."""
    value: Any
    since: Moment
    until: Moment | None
    """Record that ended the fact; None if it holds at the end."""

    @property
    def place(self) -> tuple[str, str, str, Moment]:
        """Sort key: connector, aspect and item of the fact, then its first record."""
        return self.connector, self.aspect.value, self.item, self.since


class SharedInterval(msgspec.Struct, frozen=True):
    """An interval, and the releases that agree on it."""

    profiles: tuple[str, ...]
    interval: Interval


def shared_intervals(
    groups: Sequence[tuple[list[Profile], Sequence[Interval]]], all_profiles: Sequence[Profile]
) -> Iterator[SharedInterval]:
    """Merge the intervals of groups of releases; each comes with all releases that have it."""
    if len(groups) == 1:
        ((profiles, intervals),) = groups
        releases = names(profiles, all_profiles)
        yield from (SharedInterval(releases, interval) for interval in intervals)
        return
    places: dict[tuple[Any, ...], list[tuple[Interval, list[Profile]]]] = {}
    for profiles, intervals in groups:
        for interval in intervals:
            alternatives = places.setdefault((*interval.place, interval.until), [])
            sharing = next(
                (sharing for other, sharing in alternatives if holds(other.value, interval.value)),
                None,
            )
            if sharing is None:
                alternatives.append((interval, list(profiles)))
            else:
                sharing.extend(profiles)
    for alternatives in places.values():
        yield from (
            SharedInterval(names(sharing, all_profiles), interval)
            for interval, sharing in alternatives
        )


def names(profiles: Collection[Profile], all_profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Names of releases, in the order of the query."""
    releases = {profile.release for profile in profiles}
    return tuple(profile.release for profile in all_profiles if profile.release in releases)


def holds(was: Any, now: Any) -> bool:
    """True if two values are equal in Java's sense."""
    return was is now or same(was, now)


FactKey = tuple[Aspect, str]
"""Aspect and item of a fact."""

FactValues = Mapping[FactKey, Any]


def of_config(rows: ConfigRows) -> FactValues:
    """Facts of the config topic about a connector; tasks beyond the committed count are hidden."""
    facts: dict[FactKey, Any] = {}
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


def of_status(rows: StatusRows) -> FactValues:
    """Facts of the status topic about a connector."""
    facts: dict[FactKey, Any] = {}
    if rows.connector is not None:
        facts[Aspect.STATUS, ""] = rows.connector
    for task, status in rows.tasks.items():
        facts[Aspect.TASK_STATUS, str(task)] = status
    for topic in rows.active_topics:
        facts[Aspect.ACTIVE_TOPIC, topic] = True
    return facts


def status_fact(rows: StatusRows, fact: FactKey) -> Any:
    """One of the facts of `of_status`; None: it does not hold."""
    aspect, item = fact
    match aspect:
        case Aspect.TASK_STATUS:
            return rows.tasks.get(int(item))
        case Aspect.ACTIVE_TOPIC:
            return True if item in rows.active_topics else None
    return rows.connector
