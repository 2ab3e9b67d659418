"""What a control plane finds around itself in the laws of commands: time, Kafka, connector classes.

Time is a count: every look at the clock gives a later one. So each batch of a log has an instant of
its own, and what lies in several topics can be told in the order in which it was written.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from controlplane.controller import OutsideFailed
from controlplane.core.plan import (
    AlterGroup,
    AnyAction,
    DeleteGroup,
    Done,
    GroupOffsets,
    HookOutcome,
    Offsets,
)
from controlplane.core.plugins import Plugin, Plugins
from controlplane.plugins import kafkas_own

SOURCE, SINK = "lab.Source", "lab.Sink"

Groups = Mapping[str, Mapping[tuple[str, int], int]]
"""Consumer group → topic and partition → committed offset."""


class Clock:
    """Counts how often it was looked at, in milliseconds since 1970."""

    def __init__(self, now_ms: int = 1_795_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """A time that nobody was told before."""
        self.now_ms += 1
        return self.now_ms


class Trouble(NamedTuple):
    """Something that is to be done outside fails."""

    behind: int
    """So many things are done before."""
    done: bool
    """Whether it fails when all was done, and only nobody heard of it."""


class Acted(NamedTuple):
    """Something that was done outside, and when."""

    at_ms: int
    action: AnyAction


class Kafka:
    """The consumer groups of a cluster, and each state in which they ever were."""

    def __init__(self, clock: Clock, groups: Groups | None = None) -> None:
        self.acted: list[Acted] = []
        self.committed_ms: list[int] = []
        """When tasks of sinks have committed offsets."""
        self.trouble: Trouble | None = None
        """What happens to one of the next actions."""
        self._clock = clock
        self._states: list[tuple[int, Groups]] = [(-1, groups or {})]

    async def perform(self, action: AnyAction) -> None:
        """Set, remove or forget offsets; note the rest."""
        trouble = self._due()
        if trouble is not None and not trouble.done:
            raise OutsideFailed("Kafka was away")
        self.acted.append(Acted(self._clock(), action))
        match action:
            case AlterGroup():
                here = dict(self._groups.get(action.group, {}))
                here |= {(topic, partition): offset for topic, partition, offset in action.put}
                left = {place: here[place] for place in here.keys() - {*action.remove}}
                self._become({**self._groups, action.group: left})
            case DeleteGroup():
                rest = {name: one for name, one in self._groups.items() if name != action.group}
                self._become(rest)
        if trouble is not None:
            raise OutsideFailed("Kafka did not answer in time")

    async def group_offsets(self, group: str) -> GroupOffsets:
        """What has been committed; nothing of a group that is not there."""
        offsets = self._groups.get(group, {})
        return tuple((*place, offset) for place, offset in sorted(offsets.items()))

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """What the tasks of a sink do."""
        self.committed_ms.append(self._clock())
        here = {**self._groups.get(group, {}), (topic, partition): offset}
        self._become({**self._groups, group: here})

    def at(self, time_ms: int) -> Groups:
        """The groups as they were at an instant."""
        return next(groups for since_ms, groups in reversed(self._states) if since_ms <= time_ms)

    def _due(self) -> Trouble | None:
        """The trouble, if it has come to that."""
        due = self.trouble
        if due is not None and due.behind:
            self.trouble, due = due._replace(behind=due.behind - 1), None
        if due is not None:
            self.trouble = None
        return due

    @property
    def _groups(self) -> Groups:
        return self._states[-1][1]

    def _become(self, groups: Groups) -> None:
        self._states.append((self._clock(), groups))


class Hooks:
    """What connectors are asked about their offsets, counted."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _config: Mapping[str, Any], _offsets: Offsets) -> HookOutcome:
        """Any offsets are right."""
        self.calls += 1
        return Done(definite=True)


def plugins(hooks: Hooks) -> Plugins:
    """A worker that knows one source and one sink."""
    kinds = {SOURCE: "source", SINK: "sink"}
    listed = [Plugin(class_name=name, type=kind, hook=hooks) for name, kind in kinds.items()]
    return Plugins(listed, kafkas_own())


class Unheard:
    """Nobody listens to what a service tells of itself."""

    def info(self, event: str, **facts: Any) -> None:
        """All is well."""

    def warning(self, event: str, **facts: Any) -> None:
        """Something is not."""
