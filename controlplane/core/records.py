"""Every kind of record in the config, status, offsets and command topics.

The config topic has one partition and is compacted: the last record of a key replaces those before
it. Its records are of three sorts:

* **Requests of the user**: `ConnectorConfig` and `TargetState`. They are the source of truth.
* **Data derived from them**: `TaskConfig` and `TaskCommit`. A connector generates a map per task.
  The leader writes one `TaskConfig` for each and then the commit, which says that tasks 0..n-1 are
  complete. Until the commit, task configs are *deferred* and invisible. A commit that does not find
  all of 0..n-1 among the deferred ones leaves the connector *inconsistent*. Compaction keeps the
  last record of each key, so a log can lose a part of a set. A later commit heals that.
* **Coordination of workers**: `TaskCount` (fencing zombies), `SessionKey`, `RestartRequest`,
  `LoggerLevel`. The last two are events and never state: replaying a `RestartRequest` would
  restart connectors at every start of a worker.

The status topic holds reports of workers. The offsets topics hold the progress of source
connectors. Our command topic holds each command with its client and its end.

Names and fields are those of Kafka's `KafkaConfigBackingStore`, `KafkaStatusBackingStore` and
`KafkaOffsetBackingStore`. `codec` converts between bytes and records.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

JsonObject = Mapping[str, Any]
"""A JSON object: a source partition, an offset."""

Properties = Mapping[str, Any]
"""Config of a connector or task. Values may have any type: Kafka does not check them either."""


class Target(Enum):
    """Target state that the user sets for a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(Enum):
    """State that a worker reports of a connector or task. DESTROYED is read but never written."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TopicRecord(msgspec.Struct, frozen=True, gc=False):
    """Base of all records."""


# --- config topic ---------------------------------------------------------------------------


class ConnectorConfig(TopicRecord, frozen=True):
    """`connector-<name>`: the user's config; None removes the connector."""

    connector: str
    properties: Properties | None


class TargetState(TopicRecord, frozen=True):
    """`target-state-<name>`: None removes it; a connector with a config then counts as STARTED."""

    connector: str
    state: Target | None


class TaskConfig(TopicRecord, frozen=True):
    """`task-<name>-<n>`: config of task n, deferred until the next commit."""

    connector: str
    task: int
    properties: Properties


class TaskCommit(TopicRecord, frozen=True):
    """`commit-<name>`: the tasks 0..n-1 are complete. `tasks` is an int32 and may be negative."""

    connector: str
    tasks: int


class TaskCount(TopicRecord, frozen=True):
    """`tasks-fencing-<name>`: number of transactional producers to fence next time (KIP-618)."""

    connector: str
    tasks: int


class SessionKey(TopicRecord, frozen=True):
    """`session-key`: key that signs requests among workers (KIP-507). Time in ms since 1970."""

    key: bytes
    algorithm: str
    created_at_ms: int


class RestartRequest(TopicRecord, frozen=True):
    """`restart-connector-<name>`: event upon which workers restart instances (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool

    @property
    def impact(self) -> int:
        """Rank from 0 to 3: more for all instances than for failed ones, and more with tasks."""
        return 2 * (not self.only_failed) + self.include_tasks


class LoggerLevel(TopicRecord, frozen=True):
    """`logger-cluster-<namespace>`: event upon which every worker sets the level (KIP-976)."""

    namespace: str
    level: str


# --- status topic ---------------------------------------------------------------------------


class Status(TopicRecord, frozen=True):
    """Report of a worker on a connector or task. `generation` is that of the worker's group."""

    state: State
    trace: str | None
    worker_id: str | None
    generation: int
    version: str | None = None
    """Version of the plugin (KIP-891); None: not reported."""


class ConnectorStatus(TopicRecord, frozen=True):
    """`status-connector-<name>`: None removes it, and the statuses of all tasks with it."""

    connector: str
    status: Status | None


class TaskStatus(TopicRecord, frozen=True):
    """`status-task-<name>-<n>`: None removes it."""

    connector: str
    task: int
    status: Status | None


class Activity(TopicRecord, frozen=True):
    """Value of an active topic: the task that used it first, and when (ms since 1970)."""

    topic: str
    connector: str
    task: int
    discovered_at_ms: int


class ActiveTopic(TopicRecord, frozen=True):
    """`status-topic-<topic>:connector-<name>` (KIP-558): None removes it.

    `connector` and `topic` come from the key; a worker stores the record under these two. The names
    in `activity` come from the value, and may differ.
    """

    connector: str
    topic: str
    activity: Activity | None


# --- offsets topics -------------------------------------------------------------------------


class SourcePartition(TopicRecord, frozen=True):
    """Decoded key of an offset: `["<connector>",{...}]`."""

    connector: str
    partition: Mapping[str, Any]


# --- command topic --------------------------------------------------------------------------


class CommandAccepted(TopicRecord, frozen=True, tag="accepted", tag_field="type"):
    """Acceptance of a command, written before its first step or in one batch with it.

    `plan`: the decided `Plan` as JSON data; None: one atomic batch, which cannot be half done.
    """

    command_id: str
    at_ms: int
    principal: str
    command: dict[str, Any]
    plan: Any = None
    version: int = 1


class CommandFinished(TopicRecord, frozen=True, tag="finished", tag_field="type"):
    """End of a command, written after its last step or in one batch with it."""

    command_id: str
    at_ms: int
    outcome: dict[str, Any]
    version: int = 1


class CommandRefused(TopicRecord, frozen=True, tag="refused", tag_field="type"):
    """Refusal of a command, which wrote nothing."""

    command_id: str
    at_ms: int
    principal: str
    command: dict[str, Any]
    reason: str
    version: int = 1


CommandRecord = CommandAccepted | CommandFinished | CommandRefused


class CommandTrace(msgspec.Struct, frozen=True, gc=False):
    """Records of one command in the command topic."""

    accepted: CommandAccepted | None = None
    finished: CommandFinished | None = None
    refused: CommandRefused | None = None

    @property
    def unfinished(self) -> bool:
        """True if the command was accepted and has not finished, as after a crash."""
        return self.accepted is not None and self.finished is None


ConfigRecord = (
    ConnectorConfig
    | TargetState
    | TaskConfig
    | TaskCommit
    | TaskCount
    | SessionKey
    | RestartRequest
    | LoggerLevel
)
StatusRecord = ConnectorStatus | TaskStatus | ActiveTopic


class Invalid(TopicRecord, frozen=True):
    """Bytes that are no record, and their effect on a worker.

    - `thrown`: Java exception that the store throws; None: the record is logged and ignored.
    - `advances`: False if the worker's config offset stays, because the value is undecodable.
    - `about`: the key as text, for people.
    - `silent`: True if even the worker's log shows nothing (offset without partition, KAFKA-16392).
    """

    reason: str
    thrown: str | None = None
    advances: bool = True
    about: str = ""
    silent: bool = False
