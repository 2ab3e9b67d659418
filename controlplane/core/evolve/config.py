"""The fold of the config topic. Kafka: `KafkaConfigBackingStore.ConsumeCallback`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from controlplane.core.codec.config import NULL_POINTER, decode_config
from controlplane.core.entry import Entry
from controlplane.core.evolve.outcome import ACCEPTED, Call, Kind, Outcome, fate
from controlplane.core.profiles import Profile
from controlplane.core.records import (
    ConfigRecord,
    ConnectorConfig,
    Invalid,
    LoggerLevel,
    Properties,
    RestartRequest,
    SessionKey,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskCount,
)
from controlplane.core.shared import CopyOnWrite, NestedCopyOnWrite
from controlplane.core.state import Aspect, Changes, ConfigState

Tasks = dict[int, Properties]


class ConfigRows(NamedTuple):
    """The rows of one connector in the tables of a `ConfigState`, named as those; None: none."""

    connectors: Properties | None = None
    targets: Target | None = None
    task_counts: int | None = None
    tasks: Mapping[int, Properties] | None = None
    deferred: Mapping[int, Properties] | None = None
    inconsistent: bool | None = None
    fenced_counts: int | None = None
    generations: int | None = None
    pending_fencing: bool | None = None
    applied: Properties | None = None


class ConfigFold:
    """Working state of the config topic: changed in place by `apply`, published by `publish`."""

    def __init__(self, profile: Profile, changed: Changes | None = None) -> None:
        self.profile = profile
        self._changed: Changes = changed or CopyOnWrite()
        self._entry = Entry("", 0, -1, -1, None, None)
        self.live = False
        """Past start-up: the listener is told. Before that, everything read is merely state."""
        self._offset = -1
        self._connectors: CopyOnWrite[str, Properties] = CopyOnWrite()
        self._targets: CopyOnWrite[str, Target] = CopyOnWrite()
        self._task_counts: CopyOnWrite[str, int] = CopyOnWrite()
        self._tasks: CopyOnWrite[str, Mapping[int, Properties]] = CopyOnWrite()
        self._deferred: NestedCopyOnWrite[str, int, Properties] = NestedCopyOnWrite()
        self._inconsistent: CopyOnWrite[str, bool] = CopyOnWrite()
        self._fenced_counts: CopyOnWrite[str, int] = CopyOnWrite()
        self._generations: CopyOnWrite[str, int] = CopyOnWrite()
        self._pending_fencing: CopyOnWrite[str, bool] = CopyOnWrite()
        self._applied: CopyOnWrite[str, Properties | None] = CopyOnWrite()
        self._session_key: SessionKey | None = None
        self._by_type: dict[type, Callable[[Any], Outcome]] = {
            Invalid: self._invalid,
            ConnectorConfig: self._connector,
            TargetState: self._target,
            TaskConfig: self._task,
            TaskCommit: self._commit,
            TaskCount: self._count,
            SessionKey: self._key,
            RestartRequest: self._restart,
            LoggerLevel: self._logger,
        }

    def publish(self) -> ConfigState:
        """The state now, for good."""
        return ConfigState(
            self._offset,
            self._connectors.publish(),
            self._targets.publish(),
            self._task_counts.publish(),
            self._tasks.publish(),
            self._deferred.publish(),
            self._inconsistent.publish(),
            self._fenced_counts.publish(),
            self._generations.publish(),
            self._pending_fencing.publish(),
            self._applied.publish(),
            self._session_key,
        )

    def adopt(self, state: ConfigState) -> None:
        """Have what another fold has published."""
        self._offset, self._session_key = state.offset, state.session_key
        self._connectors.take(dict(state.connectors))
        self._targets.take(dict(state.targets))
        self._task_counts.take(dict(state.task_counts))
        self._tasks.take(dict(state.tasks))
        self._deferred.take({name: dict(tasks) for name, tasks in state.deferred.items()})
        self._inconsistent.take(dict(state.inconsistent))
        self._fenced_counts.take(dict(state.fenced_counts))
        self._generations.take(dict(state.generations))
        self._pending_fencing.take(dict(state.pending_fencing))
        self._applied.take(dict(state.applied))

    def apply(self, entry: Entry) -> Outcome:
        """Fold one record."""
        return self.take(entry, decode_config(entry.key, entry.value, self.profile))

    def take(self, entry: Entry, record: ConfigRecord | Invalid) -> Outcome:
        """Fold one record that is decoded already."""
        self._entry = entry
        if not isinstance(record, Invalid) or record.advances:
            self._offset = entry.offset + 1
        outcome = self._by_type[type(record)](record)
        if outcome.thrown is not None and self.profile.tolerates_malformed:
            return Outcome(Kind.IGNORED, outcome.reason)
        return outcome

    @property
    def offset(self) -> int:
        """As in `ConfigState`."""
        return self._offset

    @property
    def session_key(self) -> SessionKey | None:
        """As in `ConfigState`."""
        return self._session_key

    def of(self, name: str) -> ConfigRows:
        """What is known of one connector now. The next record may change what it holds."""
        return ConfigRows(
            self._connectors.items.get(name),
            self._targets.items.get(name),
            self._task_counts.items.get(name),
            self._tasks.items.get(name),
            self._deferred.items.get(name),
            self._inconsistent.items.get(name),
            self._fenced_counts.items.get(name),
            self._generations.items.get(name),
            self._pending_fencing.items.get(name),
            self._applied.items.get(name),
        )

    def _changes(self, aspect: Aspect, name: str) -> None:
        self._changed.writable()[name, aspect, ""] = self._entry.position

    def _told(self, call: Call) -> Outcome:
        return Outcome(Kind.ACCEPTED, calls=(call,)) if self.live else ACCEPTED

    def _invalid(self, record: Invalid) -> Outcome:
        """A commit without a connector config is discarded before its value is looked at."""
        name = record.about.removeprefix("commit-")
        if record.advances and name != record.about and self._orphan(name):
            return self._discard(name)
        return fate(record)

    def _connector(self, record: ConnectorConfig) -> Outcome:
        name = record.connector
        self._changes(Aspect.CONFIG, name)
        if record.properties is None:
            self._connectors.drop(name)
            self._forget_tasks(name)
            return self._told(Call("connector removed", name))
        self._connectors.writable()[name] = record.properties
        if self.profile.target_states and name not in self._targets.items:
            self._targets.writable()[name] = Target.STARTED
            self._changes(Aspect.TARGET_STATE, name)
        return self._told(Call("connector config", name))

    def _forget_tasks(self, name: str) -> None:
        """What goes with a connector. Its target state, fencing and generation never do."""
        if self.profile.removal_drops_tasks:
            if name in self._task_counts.items or name in self._tasks.items:
                self._changes(Aspect.TASKS, name)
            self._task_counts.drop(name)
            self._tasks.drop(name)
        if self.profile.removal_drops_deferred:
            self._deferred.drop(name)
        if self.profile.commit_needs_config:
            self._applied.drop(name)

    def _target(self, record: TargetState) -> Outcome:
        name, configured = record.connector, record.connector in self._connectors.items
        self._changes(Aspect.TARGET_STATE, name)
        if record.state is None:
            # Nobody is told: a running worker goes on as before, whatever its state says now.
            self._targets.drop(name)
            if configured:
                self._targets.writable()[name] = Target.STARTED
            return ACCEPTED
        changed = self._targets.items.get(name) is not record.state
        self._targets.writable()[name] = record.state
        if not self.live:
            return ACCEPTED
        news = changed or self.profile.announces_unchanged_target
        known = configured or self.profile.announces_target_of_unknown
        return self._told(Call("target state", name)) if news and known else ACCEPTED

    def _task(self, record: TaskConfig) -> Outcome:
        self._deferred.put(record.connector, record.task, record.properties)
        return ACCEPTED

    def _count(self, record: TaskCount) -> Outcome:
        self._fenced_counts.writable()[record.connector] = record.tasks
        self._pending_fencing.drop(record.connector)
        return ACCEPTED

    def _key(self, record: SessionKey) -> Outcome:
        self._session_key = record
        return self._told(Call("session key", record))

    def _restart(self, record: RestartRequest) -> Outcome:
        return self._told(Call("restart", record.connector, record))

    def _logger(self, record: LoggerLevel) -> Outcome:
        return self._told(Call("logger level", record.namespace, record.level))

    def _orphan(self, name: str) -> bool:
        return self.profile.commit_needs_config and name not in self._connectors.items

    def _discard(self, name: str) -> Outcome:
        """KAFKA-16838: a commit of a connector that is gone takes leftovers of it along."""
        self._forget_tasks(name)
        self._changes(Aspect.TASKS, name)
        return ACCEPTED

    def _commit(self, record: TaskCommit) -> Outcome:
        name, count = record.connector, record.tasks
        if self._orphan(name):
            return self._discard(name)
        deferred = self._deferred.items.get(name)
        self._changes(Aspect.TASKS, name)
        if not deferred and self.profile.commit_needs_deferred:
            return Outcome(Kind.POISON, "commit with nothing deferred", NULL_POINTER)
        # Longer sets than the count are complete too, and are applied and kept whole.
        complete = _holds_all(deferred or {}, count)
        if complete:
            self._apply_tasks(name, deferred)
        else:
            self._inconsistent.writable()[name] = True
        if deferred:
            self._deferred.writable()[name] = {}
        self._task_counts.writable()[name] = count
        if self.profile.fencing:
            self._pending_fencing.writable()[name] = True
        if not self.live:
            return ACCEPTED
        return self._told(Call("task configs", self._announced(deferred, name, complete=complete)))

    def _apply_tasks(self, name: str, deferred: Tasks | None) -> None:
        if deferred is not None:
            if deferred:
                self._tasks.writable()[name] = {**self._tasks.items.get(name, {}), **deferred}
            if self.profile.fencing:
                generations = self._generations.writable()
                generations[name] = generations.get(name, -1) + 1
        self._inconsistent.drop(name)
        if self.profile.commit_needs_config:
            self._applied.writable()[name] = self._connectors.items.get(name)

    def _announced(
        self, deferred: Tasks | None, name: str, *, complete: bool
    ) -> frozenset[tuple[str, int]]:
        """The task ids that the listener is told; none where nothing was deferred."""
        if not complete or deferred is None:
            return frozenset()
        if self.profile.announces_all_task_ids:
            known = self._tasks.items.items()
            return frozenset((owner, id_) for owner, ids in known for id_ in ids)
        return frozenset((name, id_) for id_ in deferred)


def _holds_all(deferred: Tasks, count: int) -> bool:
    """Whether ids 0..count-1 are all there; negative counts ask for nothing."""
    return count <= len(deferred) and all(id_ in deferred for id_ in range(count))
