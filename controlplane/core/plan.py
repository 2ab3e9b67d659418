"""Results of `decide`: a plan, a question, or a refusal. All of them are data.

A plan is a sequence of named steps. Each step is one atomic batch of records or one outside action.
A step's `read_back` names topics. Before the next step begins, these must have been read up to the
last record that the plan has written. A leader may die in the gap after any step. Such a gap is a
*crash point* with the step's name; scenarios crash a worker there (`crash w1 after=tasks`).
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec

from controlplane.core.records import Properties, Status

# --- steps --------------------------------------------------------------------------------------


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
    """Set and remove offsets of a sink's consumer group; `remove`: topics and partitions."""

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
    clients: Properties | msgspec.UnsetType = msgspec.UNSET
    """Client settings that select the producers' cluster (`WriteOffsets`). Unset: `admin` selects
    the cluster."""


class RestartInstances(Action, frozen=True, tag="restart-instances"):
    """Restart instances on the workers that own them: tasks by id; None: the connector itself.

    The action writes no record.
    """

    connector: str
    instances: tuple[int | None, ...]


class WriteOffsets(Action, frozen=True, tag="write-offsets"):
    """Write offsets of a source to a topic on the cluster of its producer (KIP-618).

    The topic is created if it is missing.
    """

    connector: str
    topic: str
    records: tuple[Draft, ...]
    clients: Properties
    """`producer.override.*`, `consumer.override.*` and `admin.override.*` of the connector's
    config, which select the cluster."""
    transactional_id: str = ""
    """Transactional id of the write; its use fences a leftover task. Empty: no transaction."""


AnyAction = AlterGroup | DeleteGroup | FenceProducers | RestartInstances | WriteOffsets


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One atomic batch of records, or one outside action.

    `undo` takes the step back if it fails half-way, or if a later step fails. None: no undo is
    necessary. Either a repeated command completes the step, or the step has no effect before the
    plan's commit point.
    """

    name: str
    records: tuple[Draft, ...] = ()
    action: AnyAction | None = None
    read_back: tuple[str, ...] = msgspec.field(default=(), name="barrier")
    """Topics to read before the next step begins, up to the last record that the plan has written.

    The command topic stores the field as `barrier`, so that logs of earlier versions can be
    recovered.
    """
    undo: "Step | None" = None
    best_effort: bool = False
    """True: the plan continues and succeeds if this step fails."""
    absent: str = ""
    """Connector that must not exist when the step begins; empty: no such condition. If it exists,
    the command fails without undoing steps: the offsets written so far may belong to it."""
    doing: str = ""
    """Description of the step, if the client must learn which step failed (KIP-995)."""


# --- refusals and outcomes ----------------------------------------------------------------------


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
    """The worker fails: a hook throws, or a class is missing in a release that calls this a
    failure."""


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """Refusal of a command, which writes nothing. `text`: Connect's message; None: it has none."""

    reason: Reason
    text: str | None
    detail: str | msgspec.UnsetType = msgspec.UNSET
    """Cause that a worker logs but leaves out of its answer; unset: there is none."""

    @property
    def sentence(self) -> str:
        """Message for people: Connect's, or ours if a worker has none, with the cause."""
        text = self.text or _SENTENCES[self.reason]
        return f"{text}: {self.detail}" if self.detail else text


_SENTENCES: Mapping[Reason, str] = {
    Reason.NO_SUCH_CONNECTOR: "There is no such connector",
    Reason.NO_SUCH_TASK: "There is no such task",
    Reason.NO_SUCH_LOGGER_LEVEL: "There is no such logger level: use DEBUG, INFO, WARN or ERROR",
    Reason.NO_STATUS: "No status of the connector is known yet: try again once it has started",
    Reason.ALREADY_EXISTS: "A connector of this name exists already",
    Reason.INVALID: "The command is invalid",
    Reason.NOT_STOPPED: "The connector must be stopped first",
    Reason.FORBIDDEN: "The worker's settings do not allow it",
    Reason.CONFLICT: "Another change of the same object is in progress: try again",
    Reason.NOT_OFFERED: "This release of Kafka has no such command: use another profile",
    Reason.FAILED: "The worker failed and gave no reason: read its log",
}


class ConnectorAfterCommand(msgspec.Struct, frozen=True, gc=False):
    """A connector after a command: the fields of `GET /connectors/{c}`."""

    config: Properties
    tasks: int
    """Number of tasks."""
    type: str


class LeftStatus(msgspec.Struct, frozen=True, gc=False):
    """Status of a connector when its restart was requested; `tasks`: ids and statuses."""

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
    """Refusal to answer with, in a release that writes the records and then refuses."""
    release: str | None = None
    """Release that answers. `decide.with_complete_outcome` sets it and the two fields below when
    the command is carried out. The answer then depends on this outcome alone. None: the outcome is
    not complete. Earlier versions stored no complete outcome."""
    connector: ConnectorAfterCommand | None = None
    """Connector in the answer; None: the answer shows none."""
    status: LeftStatus | None = None
    """Status in the answer; None: the answer shows none."""


class Plan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Steps in order. A plan without steps is done at once.

    The command has taken effect once the step named `commit_point` is done. Recovery completes the
    steps after it.
    """

    steps: tuple[Step, ...]
    outcome: Outcome = Outcome()
    commit_point: str | None = None
    assumed: tuple[str, ...] = ()
    """Assumptions that `decide` did not verify, one clause each."""


# --- questions ----------------------------------------------------------------------------------


PlannedOffset = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A partition and the offset to set; None removes the offset."""

Offsets = tuple[PlannedOffset, ...]
"""Planned offsets in order.

A sink's partition has the keys `kafka_topic` and `kafka_partition`, its offset `kafka_offset`.
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


class AskRemoteOffsets(msgspec.Struct, frozen=True):
    """Question: the offsets in a topic on the cluster of a source's producer (KIP-618).

    Decide again with the answer. `servers`: brokers of that cluster. `clients`: as in
    `WriteOffsets`.
    """

    connector: str
    topic: str
    servers: str
    clients: Properties

    @property
    def refusal(self) -> "Rejected":
        """Refusal by a control plane that cannot read or write on that cluster."""
        text = (
            f"The offsets of connector {self.connector} lie on another Kafka cluster, "
            f"{self.servers}: use its control plane, or remove "
            "producer.override.bootstrap.servers"
        )
        return Rejected(Reason.FAILED, text)


Question = AskHook | AskGroup | AskRemoteOffsets


class HookSuccess(msgspec.Struct, frozen=True):
    """The hook returned. `definite` is its result: True if the connector will use the offsets."""

    definite: bool

    def excerpted(self, _excerpt: Callable[[str], str]) -> "HookSuccess":
        """Return itself; see `HookFailure`."""
        return self


class HookFailure(msgspec.Struct, frozen=True):
    """The hook threw. `text` is the message in the worker's answer; None: it has none."""

    text: str | None
    detail: str | msgspec.UnsetType = msgspec.UNSET
    """Cause that is only logged; unset: the text has it."""

    def excerpted(self, excerpt: Callable[[str], str]) -> "HookFailure":
        """Return the failure with excerpts of its texts: a hook may throw a long message."""
        text = None if self.text is None else excerpt(self.text)
        detail = self.detail if isinstance(self.detail, msgspec.UnsetType) else excerpt(self.detail)
        return HookFailure(text, detail)


HookOutcome = HookSuccess | HookFailure

Decision = Plan | Question | Rejected
"""Result of `decide`."""
