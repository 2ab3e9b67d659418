"""Results of `decide`: a plan, a question, or a refusal. All of them are data.

A plan is a sequence of named steps. Each step is one atomic batch of records or one outside action.
Before the next step begins, the topics in `read_back` must have been read up to what the step
wrote. The gap after every step is a crash point with the step's name.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from controlplane.core.records import Properties, Status

# --- what a step does ---------------------------------------------------------------------------


class Draft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A record to be written, without a position. A value of None is a tombstone.

    `partition` None: Kafka's partitioner chooses it by the key.
    """

    topic: str
    key: bytes
    value: bytes | None
    partition: int | None = None


class Action(msgspec.Struct, frozen=True, tag_field="action"):
    """Base of outside actions. Every action can be repeated safely."""


GroupOffsets = tuple[tuple[str, int, int], ...]
"""Topic, partition and offset of each committed offset of a consumer group."""


AdminOverrides = Properties | msgspec.UnsetType
"""`admin.override.*` of a connector's config without the prefix; unset if it has none.

They may select another cluster for its consumer group, and for fencing its producers.
"""


class AlterGroup(Action, frozen=True, tag="alter-group"):
    """Set and remove offsets of a sink's consumer group."""

    connector: str
    group: str
    put: GroupOffsets
    remove: tuple[tuple[str, int], ...] = ()
    admin: AdminOverrides = msgspec.UNSET


class DeleteGroup(Action, frozen=True, tag="delete-group"):
    """Delete a sink's consumer group; a missing group counts as success."""

    connector: str
    group: str
    admin: AdminOverrides = msgspec.UNSET


class FenceProducers(Action, frozen=True, tag="fence-producers"):
    """Fence producers with these transactional ids, so that they cannot write (KIP-618)."""

    connector: str
    transactional_ids: tuple[str, ...]
    admin: AdminOverrides = msgspec.UNSET


class RestartInstances(Action, frozen=True, tag="restart-instances"):
    """Restart a connector (None) or tasks on the workers that own them. Writes nothing."""

    connector: str
    instances: tuple[int | None, ...]


AnyAction = AlterGroup | DeleteGroup | FenceProducers | RestartInstances


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One atomic batch of records, or one outside action.

    `undo` takes the step back if it fails half-way or a later step fails. None: nothing to take
    back, as the step can be repeated, or has no effect before the plan's commit point.
    """

    name: str
    records: tuple[Draft, ...] = ()
    action: AnyAction | None = None
    read_back: tuple[str, ...] = msgspec.field(default=(), name="barrier")
    """Topics to read up to what has been written, before the plan continues.

    The command topic stores it as `barrier`, so that logs of earlier versions can be recovered.
    """
    undo: "Step | None" = None
    best_effort: bool = False
    """True: the plan continues and succeeds if this step fails."""
    absent: str = ""
    """Connector that must not exist when the step begins. If it does, the command fails, and
    nothing is taken back: the offsets written so far may belong to the other connector."""
    doing: str = ""
    """Description of the step, if the client must learn which step failed (KIP-995)."""


# --- how it ends --------------------------------------------------------------------------------


class Reason(Enum):
    """Reason of a refusal. `rest.errors` maps it to a status code."""

    NO_SUCH_CONNECTOR = "no such connector"
    NO_SUCH_TASK = "no such task"
    NO_SUCH_LOGGER_LEVEL = "no such logger level"
    NO_STATUS = "no status"
    """The connector has no reported status yet, and the answer would have to show it."""
    ALREADY_EXISTS = "already exists"
    INVALID = "invalid"
    """The request is invalid: a config with errors, malformed offsets."""
    NOT_STOPPED = "not stopped"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"
    """Another change of the same object is in progress; the client may try again."""
    NOT_OFFERED = "not offered"
    """The release lacks this command."""
    FAILED = "failed"
    """The worker fails at it: a hook throws, or a class is missing in a release that says so."""


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Refusal of a command, which writes nothing. `text`: Connect's message; None: it has none."""

    reason: Reason
    text: str | None
    detail: str | msgspec.UnsetType = msgspec.UNSET
    """Cause that a worker logs, and that its answer lacks; unset: there is none."""

    @property
    def sentence(self) -> str:
        """Message for people: Connect's, or ours if a worker has none, with the cause."""
        text = self.text or _SENTENCES[self.reason]
        return f"{text}: {self.detail}" if self.detail else text


_SENTENCES: Mapping[Reason, str] = {
    Reason.NO_SUCH_CONNECTOR: "There is no such connector",
    Reason.NO_SUCH_TASK: "There is no such task",
    Reason.NO_SUCH_LOGGER_LEVEL: "There is no such logger level: use DEBUG, INFO, WARN or ERROR",
    Reason.NO_STATUS: "Nothing is reported of the connector yet: try again when it has started",
    Reason.ALREADY_EXISTS: "There is such a connector already",
    Reason.INVALID: "The command cannot be fulfilled as it is",
    Reason.NOT_STOPPED: "The connector must be stopped first",
    Reason.FORBIDDEN: "The worker's settings do not allow it",
    Reason.CONFLICT: "Another change of the same object is in progress: try again",
    Reason.NOT_OFFERED: "This release of Kafka has no such command: use another profile",
    Reason.FAILED: "The worker fails at it, and does not say why",
}


class ConnectorAfterCommand(msgspec.Struct, frozen=True, gc=False):
    """A connector after a command: the fields of `GET /connectors/{c}`."""

    config: Properties
    tasks: int
    """Number of tasks."""
    type: str


class LeftStatus(msgspec.Struct, frozen=True, gc=False):
    """Reported status of a connector when a restart was requested."""

    type: str
    connector: Status
    tasks: tuple[tuple[int, Status], ...]


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Answer to the client once all steps are done."""

    created: bool = False
    """True if the command created the connector."""
    message: str | None = None
    facts: Mapping[str, Any] = {}
    """Further fields of the answer, e.g. `initial_offsets_response`."""
    refusal: Rejected | None = None
    """Refusal to answer with, in a release that writes first and refuses then."""
    release: str | None = None
    """Release that answers. Set together with the two fields below when the command is carried out
    (`decide.with_complete_outcome`); the answer then depends on nothing else. None: a plan's
    outcome, or one stored by an earlier version of this program."""
    connector: ConnectorAfterCommand | None = None
    """Connector in the answer; None: the answer shows none."""
    status: LeftStatus | None = None
    """Status in the answer; None: the answer shows none."""


class Plan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Steps in order. With the step `commit_point` the command has taken effect.

    A plan without steps is done at once.
    """

    steps: tuple[Step, ...]
    outcome: Outcome = Outcome()
    commit_point: str | None = None
    assumed: tuple[str, ...] = ()
    """Assumptions that were not verified, as clauses."""


# --- what must be asked first -------------------------------------------------------------------


PlannedOffset = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
Offsets = tuple[PlannedOffset, ...]
"""Partitions, each with the offset to set; None removes its offset.

A sink's offsets have the keys `kafka_topic`, `kafka_partition` and `kafka_offset`.
"""


class AskHook(msgspec.Struct, frozen=True):
    """Question to a connector's `alterOffsets`, with its config and offsets in order (KIP-875).

    Decide again with the `HookOutcome`s in the context, one for each question so far.
    """

    connector: str
    config: Mapping[str, Any]
    offsets: Offsets

    @property
    def connector_class(self) -> Any:
        """Class of the hook, as the config names it."""
        return self.config.get("connector.class")


class AskGroup(msgspec.Struct, frozen=True):
    """Question: the committed offsets of a sink's consumer group. Decide again with the answer."""

    connector: str
    group: str
    admin: AdminOverrides = msgspec.UNSET


Question = AskHook | AskGroup


class HookSuccess(msgspec.Struct, frozen=True):
    """The hook returned. `definite` is its answer: true if the connector will use the offsets."""

    definite: bool


class HookFailure(msgspec.Struct, frozen=True):
    """The hook threw. `text` is the worker's answer."""

    text: str | None


HookOutcome = HookSuccess | HookFailure

Decision = Plan | Question | Rejected
"""Result of `decide`."""
