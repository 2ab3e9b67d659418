"""Every fact that may lie in the config, status, offsets and command topics.

The config topic has one partition and is compacted: the last record of a key stands for all before
it. Its records come in three sorts, and knowing which is which is most of knowing Connect:

* **what the user wants**: `ConnectorConfig` and `TargetState`. They are the truth.
* **what follows from it**: `TaskConfig` and `TaskCommit`. A connector derives a map per task; the
  leader writes one `TaskConfig` each and then the commit, "this set of n is complete". Until the
  commit arrives task configs are *deferred*: invisible. A commit that does not find all of
  0..n-1 among the deferred ones leaves the connector *inconsistent*. Because compaction keeps
  single keys and not groups, a log can lose the early half of a set; a later commit heals it.
* **what was asked of the workers, or among them**: `TaskCount` (fencing zombies), `SessionKey`,
  `RestartRequest`, `LoggerLevel`. The last two are events and never state: replaying them would
  restart connectors once more at every start of a worker.

The status topic holds what workers report, the offsets topics how far source connectors have come,
and the command topic (ours) who asked for what and how it ended.

Names and fields are those of Kafka's `KafkaConfigBackingStore`, `KafkaStatusBackingStore` and
`KafkaOffsetBackingStore`. `codec` turns bytes into these and back.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

Properties = Mapping[str, Any]
"""A connector's or task's config. Kafka does not check the values' types, so neither does this."""


class Target(Enum):
    """What the user wants of a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(Enum):
    """What a worker reports of a connector or task. DESTROYED is read but never written."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class Fact(msgspec.Struct, frozen=True, gc=False):
    """Base of all records."""


# --- config topic ---------------------------------------------------------------------------


class ConnectorConfig(Fact, frozen=True):
    """`connector-<name>`: the user's config; None removes the connector."""

    connector: str
    properties: Properties | None


class TargetState(Fact, frozen=True):
    """`target-state-<name>`: None removes it, which means STARTED while there is a config."""

    connector: str
    state: Target | None


class TaskConfig(Fact, frozen=True):
    """`task-<name>-<n>`: config of task n, deferred until the next commit."""

    connector: str
    task: int
    properties: Properties


class TaskCommit(Fact, frozen=True):
    """`commit-<name>`: the tasks 0..n-1 are complete. `tasks` is an int32 and may be negative."""

    connector: str
    tasks: int


class TaskCount(Fact, frozen=True):
    """`tasks-fencing-<name>`: this many transactional producers may have to be fenced (KIP-618)."""

    connector: str
    tasks: int


class SessionKey(Fact, frozen=True):
    """`session-key`: signs requests among workers (KIP-507). Time in ms since 1970."""

    key: bytes
    algorithm: str
    created_at_ms: int


class RestartRequest(Fact, frozen=True):
    """`restart-connector-<name>`: an event (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


class LoggerLevel(Fact, frozen=True):
    """`logger-cluster-<namespace>`: an event (KIP-976)."""

    namespace: str
    level: str


# --- status topic ---------------------------------------------------------------------------


class Status(Fact, frozen=True):
    """What a worker reports of a connector or a task."""

    state: State
    trace: str | None
    worker_id: str | None
    generation: int
    version: str | None = None
    """Version of the plugin (KIP-891); None where the release does not tell."""


class ConnectorStatus(Fact, frozen=True):
    """`status-connector-<name>`: None removes it, and the statuses of all tasks with it."""

    connector: str
    status: Status | None


class TaskStatus(Fact, frozen=True):
    """`status-task-<name>-<n>`: None removes it."""

    connector: str
    task: int
    status: Status | None


class Activity(Fact, frozen=True):
    """The value of an active topic: which task met it first, when (ms since 1970)."""

    topic: str
    connector: str
    task: int
    discovered_at_ms: int


class ActiveTopic(Fact, frozen=True):
    """`status-topic-<topic>:connector-<name>` (KIP-558): None removes it.

    State is filed under the *key's* names; `activity` holds the value's, which need not agree.
    """

    connector: str
    topic: str
    activity: Activity | None


# --- offsets topics -------------------------------------------------------------------------


class SourcePartition(Fact, frozen=True):
    """What the key of an offset says: `["<connector>",{...}]`."""

    connector: str
    partition: Mapping[str, Any]


# --- command topic --------------------------------------------------------------------------


class CommandAccepted(Fact, frozen=True, tag="accepted", tag_field="type"):
    """A command begins: written before the first step of its plan. `plan` is data, as decided."""

    command_id: str
    at_ms: int
    principal: str
    command: dict[str, Any]
    plan: Any = None
    version: int = 1


class CommandFinished(Fact, frozen=True, tag="finished", tag_field="type"):
    """A command ended: written after the last step."""

    command_id: str
    at_ms: int
    outcome: dict[str, Any]
    version: int = 1


class CommandRefused(Fact, frozen=True, tag="refused", tag_field="type"):
    """A command was refused and wrote nothing."""

    command_id: str
    at_ms: int
    principal: str
    command: dict[str, Any]
    reason: str
    version: int = 1


CommandRecord = CommandAccepted | CommandFinished | CommandRefused
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


class Invalid(Fact, frozen=True):
    """Bytes that are no record, and what a worker does about them.

    `thrown` names the Java exception that leaves the store (None: the record is logged and
    ignored). `advances` is False where the worker's config offset stays behind, because the value
    was never decoded. `about` is what the key could be read as, for people. `silent` is True where
    not even the log of the worker tells (an offset without a partition, KAFKA-16392).
    """

    reason: str
    thrown: str | None = None
    advances: bool = True
    about: str = ""
    silent: bool = False
