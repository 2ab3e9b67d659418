"""Fold of the config topic. Kafka: `KafkaConfigBackingStore.ConsumeCallback`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from controlplane.core.codec.config import NULL_POINTER, decode_config
from controlplane.core.copy_on_write import CopyOnWrite, NestedCopyOnWrite
from controlplane.core.entry import Entry, Position
from controlplane.core.fold.record_fate import ACCEPTED, FateKind, ListenerCall, RecordFate, fate
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
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Aspect, ChangePositions, ConfigState

TaskConfigs = dict[int, Properties]


class ConfigRows(NamedTuple):
    """Rows of one connector, a field per table of a `ConfigState`; None: that table has none."""

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

    def __init__(self, profile: Profile, changed: ChangePositions | None = None) -> None:
        self.profile = profile
        self._changed: ChangePositions = changed or CopyOnWrite()
        self._entry = Entry("", 0, -1, -1, None, None)  # the entry that is being folded
        self.live = False
        """True once start-up has finished: from then on the fold reports listener calls."""
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
        self.published: ConfigState | None = None
        """Last published state; None: a record was folded since."""
        self._by_type: dict[type, Callable[[Any], RecordFate]] = {
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
        """An immutable snapshot of the state; tables are copied at their next write."""
        self.published = ConfigState(
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
        return self.published

    def adopt(self, state: ConfigState) -> None:
        """Replace the state by one that another fold has published."""
        self.published = None
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

    def apply(self, entry: Entry) -> RecordFate:
        """Decode and fold one record."""
        return self.take(entry, decode_config(entry.key, entry.value, self.profile))

    def take(self, entry: Entry, record: ConfigRecord | Invalid) -> RecordFate:
        """Fold one decoded record."""
        self.published = None
        self._entry = entry
        if not isinstance(record, Invalid) or record.advances:
            self._offset = entry.offset + 1
        outcome = self._by_type[type(record)](record)
        if outcome.thrown is not None and self.profile.tolerates_malformed:
            return RecordFate(FateKind.IGNORED, outcome.reason)
        return outcome

    @property
    def offset(self) -> int:
        """One past the offset of the last record whose value could be decoded; -1: none yet."""
        return self._offset

    @property
    def session_key(self) -> SessionKey | None:
        """Key that signs requests among workers; None: none yet."""
        return self._session_key

    def of(self, name: str) -> ConfigRows:
        """Current rows of one connector. The next record may change their contents."""
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

    def _note_change(self, aspect: Aspect, name: str) -> None:
        entry = self._entry
        position = Position(entry.topic, entry.partition, entry.offset)
        self._changed.writable()[name, aspect, ""] = position

    def _announce(self, call: ListenerCall) -> RecordFate:
        return RecordFate(FateKind.ACCEPTED, calls=(call,)) if self.live else ACCEPTED

    def _invalid(self, record: Invalid) -> RecordFate:
        """Fate of bytes that are no record.

        Some releases discard a commit without a connector config before they check its value. In
        these releases it never throws.
        """
        name = record.about.removeprefix("commit-")
        if record.advances and name != record.about and self._orphan(name):
            return self._discard(name)
        return fate(record)

    def _connector(self, record: ConnectorConfig) -> RecordFate:
        """Fold a connector config. An existing target state stays."""
        name = record.connector
        self._note_change(Aspect.CONFIG, name)
        if record.properties is None:
            self._connectors.drop(name)
            self._forget_tasks(name)
            return self._announce(ListenerCall("connector removed", name))
        self._connectors.writable()[name] = record.properties
        if self.profile.target_states and name not in self._targets.items:
            self._targets.writable()[name] = Target.STARTED
            self._note_change(Aspect.TARGET_STATE, name)
        return self._announce(ListenerCall("connector config", name))

    def _forget_tasks(self, name: str) -> None:
        """Remove the rows of a connector's tasks. Target state, fencing and generation stay."""
        if self.profile.removal_drops_tasks:
            if name in self._task_counts.items or name in self._tasks.items:
                self._note_change(Aspect.TASKS, name)
            self._task_counts.drop(name)
            self._tasks.drop(name)
        if self.profile.removal_drops_deferred:
            self._deferred.drop(name)
        if self.profile.commit_needs_config:
            self._applied.drop(name)

    def _target(self, record: TargetState) -> RecordFate:
        """Fold a target state; the profile decides whether the listener gets it."""
        name, configured = record.connector, record.connector in self._connectors.items
        self._note_change(Aspect.TARGET_STATE, name)
        if record.state is None:
            # As in Kafka, the listener gets no call, so a running worker changes nothing.
            self._targets.drop(name)
            if configured:
                self._targets.writable()[name] = Target.STARTED
            return ACCEPTED
        changed = self._targets.items.get(name) is not record.state
        self._targets.writable()[name] = record.state
        if not self.live:
            return ACCEPTED
        is_news = changed or self.profile.announces_unchanged_target
        is_known = configured or self.profile.announces_target_of_unknown
        if not (is_news and is_known):
            return ACCEPTED
        return self._announce(ListenerCall("target state", name))

    def _task(self, record: TaskConfig) -> RecordFate:
        self._deferred.put(record.connector, record.task, record.properties)
        return ACCEPTED

    def _count(self, record: TaskCount) -> RecordFate:
        self._fenced_counts.writable()[record.connector] = record.tasks
        self._pending_fencing.drop(record.connector)
        return ACCEPTED

    def _key(self, record: SessionKey) -> RecordFate:
        self._session_key = record
        return self._announce(ListenerCall("session key", record))

    def _restart(self, record: RestartRequest) -> RecordFate:
        return self._announce(ListenerCall("restart", record.connector, record))

    def _logger(self, record: LoggerLevel) -> RecordFate:
        return self._announce(ListenerCall("logger level", record.namespace, record.level))

    def _orphan(self, name: str) -> bool:
        """True if commits of this name are discarded, because it has no connector config."""
        return self.profile.commit_needs_config and name not in self._connectors.items

    def _discard(self, name: str) -> RecordFate:
        """Discard a commit for a removed connector, and its leftover tasks (KAFKA-16838)."""
        self._forget_tasks(name)
        self._note_change(Aspect.TASKS, name)
        return ACCEPTED

    def _commit(self, record: TaskCommit) -> RecordFate:
        """Fold a task commit. The count is applied even if the commit is inconsistent."""
        name, count = record.connector, record.tasks
        if self._orphan(name):
            return self._discard(name)
        deferred = self._deferred.items.get(name)
        # A set with more tasks than the count is complete, too; all of its tasks are applied.
        complete = _holds_all(deferred or {}, count)
        self._note_change(Aspect.TASKS, name)
        if not deferred and self.profile.commit_needs_deferred:
            return RecordFate(FateKind.POISON, "commit with nothing deferred", NULL_POINTER)
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
        return self._announce(
            ListenerCall("task configs", self._announced(deferred, name, complete=complete))
        )

    def _apply_tasks(self, name: str, deferred: TaskConfigs | None) -> None:
        """Apply the deferred task configs of a complete commit.

        `deferred` None: none came, or a removal of the connector dropped them.
        """
        # As in Kafka, an empty map of deferred tasks begins a generation; a missing map does not.
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
        self, deferred: TaskConfigs | None, name: str, *, complete: bool
    ) -> frozenset[tuple[str, int]]:
        """Task ids for the listener; empty if the commit is incomplete or `deferred` is None."""
        if not complete or deferred is None:
            return frozenset()
        if self.profile.announces_all_task_ids:
            tasks = self._tasks.items.items()
            return frozenset((owner, id_) for owner, ids in tasks for id_ in ids)
        return frozenset((name, id_) for id_ in deferred)


def _holds_all(deferred: TaskConfigs, count: int) -> bool:
    """True if ids 0..count-1 are all present; a negative count needs none.

    Comparing the lengths first bounds the work: a foreign writer may commit two billion tasks.
    """
    return count <= len(deferred) and all(id_ in deferred for id_ in range(count))
