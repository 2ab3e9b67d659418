"""Surroundings of a control plane in the laws of commands: time, Kafka, connector classes.

Time is a counter: every reading of the clock returns a later time. So each batch of a log has its
own time, which orders records across topics.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from msgspec import UNSET

from controlplane.controller import ExternalActionFailed
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    DeleteGroup,
    GroupOffsets,
    HookOutcome,
    HookSuccess,
    Offsets,
)
from controlplane.core.plugins import Plugin, Plugins
from controlplane.plugins import kafkas_own

SOURCE, SINK = "lab.Source", "lab.Sink"

Groups = Mapping[str, Mapping[tuple[str, int], int]]
"""Consumer group → topic and partition → committed offset."""


class LawClock:
    """Clock that advances a millisecond with each reading; its times count from 1970."""

    def __init__(self, now_ms: int = 1_795_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """Advance the time by a millisecond and return it."""
        self.now_ms += 1
        return self.now_ms


class Extent(Enum):
    """Part of a failing action that is done. Kafka has no transactions for groups."""

    NOTHING = auto()
    PART = auto()
    """Only the first offset of several is changed."""
    ALL = auto()
    """Done, although an error was reported."""


class Trouble(NamedTuple):
    """Failure of an outside action."""

    behind: int
    """Number of actions that succeed before."""
    done: Extent


class Acted(NamedTuple):
    """An outside action, and its time."""

    at_ms: int
    action: AnyAction


class Kafka:
    """The consumer groups of a cluster, and each of their former states."""

    def __init__(self, clock: LawClock, groups: Groups | None = None) -> None:
        self.acted: list[Acted] = []
        self.committed_ms: list[int] = []
        """Times at which tasks of sinks committed offsets."""
        self.trouble: Trouble | None = None
        """Failure of one of the next actions; None if all succeed."""
        self._clock = clock
        self._states: list[tuple[int, Groups]] = [(-1, groups or {})]

    async def perform(self, action: AnyAction) -> None:
        """Change or delete consumer groups, and add any action to `acted`."""
        trouble = self._due()
        if trouble is not None and trouble.done is Extent.NOTHING:
            raise ExternalActionFailed("Kafka was away")
        self.acted.append(Acted(self._clock(), action))
        for groups in self._becoming(action):
            self._states.append((self._clock(), groups))
            if trouble is not None and trouble.done is Extent.PART:
                break
        if trouble is not None:
            raise ExternalActionFailed("Kafka did not answer in time")

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets; empty for a missing group."""
        del admin
        offsets = self._groups.get(group, {})
        return tuple((*place, offset) for place, offset in sorted(offsets.items()))

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit offsets as tasks of a sink do."""
        self.committed_ms.append(self._clock())
        offsets = {**self._groups.get(group, {}), (topic, partition): offset}
        self._states.append((self._clock(), {**self._groups, group: offsets}))

    def at(self, time_ms: int) -> Groups:
        """The groups as they were at an instant."""
        return self.between(time_ms, time_ms)[0]

    def between(self, first_ms: int, last_ms: int) -> list[Groups]:
        """All states of the groups from one instant to another."""
        already = [since_ms <= first_ms for since_ms, _ in self._states].count(True)
        until = [since_ms <= last_ms for since_ms, _ in self._states].count(True)
        return [groups for _, groups in self._states[already - 1 : until]]

    def _due(self) -> Trouble | None:
        """The trouble, if the next action meets it."""
        due = self.trouble
        if due is not None and due.behind:
            self.trouble, due = due._replace(behind=due.behind - 1), None
        if due is not None:
            self.trouble = None
        return due

    @property
    def _groups(self) -> Groups:
        return self._states[-1][1]

    def _becoming(self, action: AnyAction) -> Iterator[Groups]:
        """The states during an action: the offsets of a group change one by one."""
        groups = self._groups
        match action:
            case AlterGroup():
                offsets = dict(groups.get(action.group, {}))
                for topic, partition, offset in action.put:
                    offsets[topic, partition] = offset
                    yield {**groups, action.group: dict(offsets)}
                for place in action.remove:
                    offsets.pop(place, None)
                    yield {**groups, action.group: dict(offsets)}
            case DeleteGroup():
                yield {name: offsets for name, offsets in groups.items() if name != action.group}


class Hooks:
    """Hook of connectors that accepts any offsets and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _config: Mapping[str, Any], _offsets: Offsets) -> HookOutcome:
        """Accept any offsets, and count the call."""
        self.calls += 1
        return HookSuccess(definite=True)


KINDS = {SOURCE: "source", SINK: "sink"}


def plugins(hooks: Hooks, kinds: Mapping[str, str] = KINDS) -> Plugins:
    """Catalogue of a worker with one source and one sink, or with other classes."""
    listed = [Plugin(class_name=name, type=kind, hook=hooks) for name, kind in kinds.items()]
    return Plugins(listed, kafkas_own())


class Unheard:
    """Logger that ignores all events."""

    def info(self, event: str, **facts: Any) -> None:
        """Ignore an event of the service."""

    def warning(self, event: str, **facts: Any) -> None:
        """Ignore a warning of the service."""
