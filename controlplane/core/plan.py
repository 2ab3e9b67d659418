"""What `decide` answers: a plan, a question, or a refusal. All of them are data.

A plan is a sequence of named steps. Each step is one atomic batch of records or one outside action.
The topics of `read_back` must have been read up to what the step wrote before the next step begins.
The gap behind every step is a crash point that bears the step's name.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from controlplane.core.records import Properties, Status

# --- what a step does ---------------------------------------------------------------------------


class Draft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A record to be written: bytes that have no place yet. A value of None is a tombstone.

    `partition` is None where Kafka's partitioner chooses it by the key.
    """

    topic: str
    key: bytes
    value: bytes | None
    partition: int | None = None


class Action(msgspec.Struct, frozen=True, tag_field="action"):
    """Base of what is done outside of the logs. Every one may be repeated safely."""


GroupOffsets = tuple[tuple[str, int, int], ...]
"""Topic, partition, offset of a consumer group."""


class AlterGroup(Action, frozen=True, tag="alter-group"):
    """Set and remove offsets of a sink's consumer group."""

    connector: str
    group: str
    put: GroupOffsets
    remove: tuple[tuple[str, int], ...] = ()


class DeleteGroup(Action, frozen=True, tag="delete-group"):
    """Delete a sink's consumer group; one that is not there is success."""

    connector: str
    group: str


class FenceProducers(Action, frozen=True, tag="fence-producers"):
    """Make producers with these transactional ids unable to write (KIP-618)."""

    connector: str
    transactional_ids: tuple[str, ...]


class RestartInstances(Action, frozen=True, tag="restart-instances"):
    """Restart a connector (None) or tasks on the workers that own them. Nothing is written."""

    connector: str
    instances: tuple[int | None, ...]


AnyAction = AlterGroup | DeleteGroup | FenceProducers | RestartInstances


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One atomic batch of records, or one outside action.

    `undo` takes the step back where it fails half-way, or a later one cannot be done; None where
    nothing has to be (the step repeats safely, or shows no effect before the plan's commit point).
    """

    name: str
    records: tuple[Draft, ...] = ()
    action: AnyAction | None = None
    read_back: tuple[str, ...] = msgspec.field(default=(), name="barrier")
    """Topics to be read to what has been written before the plan goes on.

    The command topic stores it as `barrier`, so that logs of earlier versions can be recovered."""
    undo: "Step | None" = None
    best_effort: bool = False
    """Whether the plan goes on, and succeeds, if this step fails."""
    absent: str = ""
    """A connector that must not be there by then. If it is, the command fails, and nothing is taken
    back: what was done may be somebody else's by now."""
    doing: str = ""
    """What it does, where who asked has to be told at which step a command failed (KIP-995)."""


# --- how it ends --------------------------------------------------------------------------------


class Reason(Enum):
    """Why a command is refused. What that means on the wire is told in `rest.errors`."""

    NO_SUCH_CONNECTOR = "no such connector"
    NO_SUCH_TASK = "no such task"
    NO_SUCH_LOGGER_LEVEL = "no such logger level"
    NO_STATUS = "no status"
    """Nothing is reported of the connector yet, and the answer would have to tell it."""
    ALREADY_EXISTS = "already exists"
    INVALID = "invalid"
    """The request cannot be fulfilled as it is: a config with errors, offsets that are none."""
    NOT_STOPPED = "not stopped"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"
    """Somebody else is changing the same; the asker may try again."""
    NOT_OFFERED = "not offered"
    """The release has no such command."""
    FAILED = "failed"
    """The worker fails at it: a hook throws, a class is missing where that is the worker's word."""


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """The command writes nothing. `text` is Connect's wording; None where a worker has none."""

    reason: Reason
    text: str | None

    @property
    def sentence(self) -> str:
        """What people are told: Connect's wording, or ours where a worker has none."""
        return self.text or _SENTENCES[self.reason]


_SENTENCES: Mapping[Reason, str] = {
    Reason.NO_SUCH_CONNECTOR: "There is no such connector",
    Reason.NO_SUCH_TASK: "There is no such task",
    Reason.NO_SUCH_LOGGER_LEVEL: "There is no such logger level: use DEBUG, INFO, WARN or ERROR",
    Reason.NO_STATUS: "Nothing is reported of the connector yet: try again when it has started",
    Reason.ALREADY_EXISTS: "There is such a connector already",
    Reason.INVALID: "The command cannot be fulfilled as it is",
    Reason.NOT_STOPPED: "The connector must be stopped first",
    Reason.FORBIDDEN: "The worker's settings do not allow it",
    Reason.CONFLICT: "Somebody else is changing the same just now: try again",
    Reason.NOT_OFFERED: "This release of Kafka has no such command: use another profile",
    Reason.FAILED: "The worker fails at it, and does not say why",
}


class LeftConnector(msgspec.Struct, frozen=True, gc=False):
    """A connector as a command has left it: the fields of `GET /connectors/{c}`."""

    config: Properties
    tasks: int
    """Number of tasks."""
    type: str


class LeftStatus(msgspec.Struct, frozen=True, gc=False):
    """The reported status of a connector when a restart was requested."""

    type: str
    connector: Status
    tasks: tuple[tuple[int, Status], ...]


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the asker is told when all steps are done."""

    created: bool = False
    """The connector was not there before."""
    message: str | None = None
    facts: Mapping[str, Any] = {}
    """What else the answer shows, e.g. `initial_offsets_response`."""
    refusal: Rejected | None = None
    """What the asker is told instead, where a release writes first and refuses then."""
    release: str | None = None
    """The release that answers. Set once the command is carried out (`decide.answers`), together
    with the two fields below; the answer then depends on nothing else. None: a plan's outcome, or
    one that an earlier version of this program stored."""
    connector: LeftConnector | None = None
    """The connector that the answer shows; None: the answer shows none, or there is none."""
    status: LeftStatus | None = None
    """The status that the answer shows."""


class Plan(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Steps in order. `commit_point` names the step with which the command has happened.

    A plan without steps is done at once.
    """

    steps: tuple[Step, ...]
    outcome: Outcome = Outcome()
    commit_point: str | None = None
    assumed: tuple[str, ...] = ()
    """What is taken for granted of the world, where nobody can tell or was asked: a clause each."""


# --- what must be asked first -------------------------------------------------------------------


Offset = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
Offsets = tuple[Offset, ...]
"""Partitions, each with the offset that it is to have; None takes its offset away.

Those of a sink have the keys `kafka_topic`, `kafka_partition` and `kafka_offset`.
"""


class AskHook(msgspec.Struct, frozen=True):
    """Call the connector's `alterOffsets` with this config and these offsets, in order (KIP-875).

    Decide again with `HookOutcome`s in the context, one for each question so far.
    """

    connector: str
    config: Mapping[str, Any]
    offsets: Offsets

    @property
    def connector_class(self) -> Any:
        """Whose hook it is, as the config names it."""
        return self.config.get("connector.class")


class AskGroup(msgspec.Struct, frozen=True):
    """Which offsets has a sink's consumer group committed? Decide again with them."""

    connector: str
    group: str


Question = AskHook | AskGroup


class Done(msgspec.Struct, frozen=True):
    """The hook returned: True if the offsets are surely where the connector looks for them."""

    definite: bool


class Thrown(msgspec.Struct, frozen=True):
    """The hook threw. `text` is what a worker answers then."""

    text: str | None


HookOutcome = Done | Thrown
