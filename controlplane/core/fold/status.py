"""Fold of the status topic. Kafka: `KafkaStatusBackingStore#read`."""

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.core.codec.status import decode_status
from controlplane.core.copy_on_write import CopyOnWrite, NestedCopyOnWrite
from controlplane.core.entry import Entry, Position
from controlplane.core.fold.record_fate import ACCEPTED, FateKind, RecordFate, fate
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    ConnectorStatus,
    Invalid,
    State,
    Status,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Aspect, ChangePositions, StatusState


class StatusRows(NamedTuple):
    """Rows of one connector in the tables of a `StatusState`."""

    connector: Status | None
    tasks: Mapping[int, Status]
    active_topics: Mapping[str, Activity]


class StatusFold:
    """Working state of the status topic: changed in place by `apply`, published by `publish`."""

    def __init__(self, profile: Profile, changed: ChangePositions | None = None) -> None:
        self.profile = profile
        self._changed: ChangePositions = changed or CopyOnWrite()
        self._entry = Entry("", 0, -1, -1, None, None)  # the entry that is being folded
        self._connectors: CopyOnWrite[str, Status] = CopyOnWrite()
        self._tasks: NestedCopyOnWrite[str, int, Status] = NestedCopyOnWrite()
        self._topics: NestedCopyOnWrite[str, str, Activity] = NestedCopyOnWrite()
        self.published: StatusState | None = None
        """Last published state; None: a record was folded since."""

    def publish(self) -> StatusState:
        """An immutable snapshot of the state; tables are copied at their next write."""
        self.published = StatusState(
            self._connectors.publish(), self._tasks.publish(), self._topics.publish()
        )
        return self.published

    def adopt(self, state: StatusState) -> None:
        """Replace the state by one that another fold has published."""
        self.published = None
        self._connectors.take(dict(state.connectors))
        self._tasks.take({name: dict(tasks) for name, tasks in state.tasks.items()})
        self._topics.take({name: dict(topics) for name, topics in state.active_topics.items()})

    def of(self, name: str) -> StatusRows:
        """Current rows of one connector. The next record may change their contents."""
        return StatusRows(
            self._connectors.items.get(name),
            self._tasks.items.get(name, {}),
            self._topics.items.get(name, {}),
        )

    def apply(self, entry: Entry) -> RecordFate:
        """Fold one record; the last of a key wins, except a stale UNASSIGNED (`_stale`).

        A tombstone that removes nothing is not noted as a change.
        """
        self.published = None
        self._entry = entry
        record = decode_status(entry.key, entry.value, self.profile)
        match record:
            case Invalid():
                outcome = fate(record)
                if outcome.thrown is not None and self.profile.tolerates_malformed:
                    return RecordFate(FateKind.IGNORED, outcome.reason)
                return outcome
            case ConnectorStatus(name, status):
                self._connector(name, status)
            case TaskStatus(name, task, status):
                self._task(name, task, status)
            case ActiveTopic(name, topic, activity):
                self._activity(name, topic, activity)
        return ACCEPTED

    def _note_change(self, name: str, aspect: Aspect, item: object = "") -> None:
        entry = self._entry
        position = Position(entry.topic, entry.partition, entry.offset)
        self._changed.writable()[name, aspect, str(item)] = position

    def _connector(self, name: str, status: Status | None) -> None:
        """Fold a connector's status; a tombstone also removes the statuses of its tasks."""
        if status is not None:
            self._note_change(name, Aspect.STATUS)
            self._connectors.writable()[name] = status
            return
        if self._connectors.drop(name) is not None:
            self._note_change(name, Aspect.STATUS)
        # Removes all tasks read so far. Their records may be in other partitions. Then the order
        # between partitions decides which tasks those are.
        for task in self._tasks.drop(name) or {}:
            self._note_change(name, Aspect.TASK_STATUS, task)

    def _task(self, name: str, task: int, status: Status | None) -> None:
        if status is None:
            if self._tasks.discard(name, task):
                self._note_change(name, Aspect.TASK_STATUS, task)
        elif not self._stale(self._tasks.items.get(name, {}).get(task), status):
            self._note_change(name, Aspect.TASK_STATUS, task)
            self._tasks.put(name, task, status)

    def _stale(self, present: Status | None, status: Status) -> bool:
        """True for a late UNASSIGNED by the worker that lost a task, while another runs it.

        Such a record must not replace the running worker's status (KAFKA-12525).
        """
        return (
            self.profile.stale_unassigned_ignored
            and present is not None
            and status.state is State.UNASSIGNED
            and present.state is State.RUNNING
            and present.generation >= status.generation
        )

    def _activity(self, name: str, topic: str, activity: Activity | None) -> None:
        if activity is not None:
            self._note_change(name, Aspect.ACTIVE_TOPIC, topic)
            self._topics.put(name, topic, activity)
        elif self._topics.discard(name, topic):
            self._note_change(name, Aspect.ACTIVE_TOPIC, topic)
