"""Decides alter and reset of the offsets of a stopped connector (KIP-875).

Sources and sinks store offsets in different places. The order of work is the same: check, call the
connector's `alterOffsets` hook, write. The hook may know offsets outside of Kafka. A worker fences
the tasks of an exactly-once source before it calls the hook. The control plane asks all questions
first, so a refusal changes nothing. Kafka: `Worker#modifyConnectorOffsets`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from controlplane.core.commands import AlterOffsets, ConnectorCommand, OffsetChange, ResetOffsets
from controlplane.core.context import Context
from controlplane.core.decide.connectors import not_found
from controlplane.core.decide.sink_offsets import SinkOffsets
from controlplane.core.decide.source_offsets import SourceOffsets, missing_remote
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    AskRemoteOffsets,
    Decision,
    FenceProducers,
    HookFailure,
    HookOutcome,
    HookSuccess,
    Offsets,
    Outcome,
    Plan,
    Reason,
    Rejected,
    Step,
)
from controlplane.core.records import Properties, Target
from controlplane.core.state import ClusterState
from controlplane.core.text.override_refusal import override_refusal
from controlplane.core.validation import ValidationFailure
from controlplane.core.validation.connector_lookup import find_connector
from controlplane.core.validation.override_policy import (
    SINK_OFFSET_CLIENTS,
    source_offset_clients,
)
from controlplane.core.validation.subject import ValidationSubject


class ConnectorOffsets(Protocol):
    """Offsets of one connector, and the steps that change them in its kind of store."""

    kind: str
    """`source` or `sink`."""

    def __init__(
        self, state: ClusterState, name: str, config: Properties, context: Context
    ) -> None: ...

    def requested(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """The requested offsets in normal form, or a refusal of their format."""
        ...

    def removals(self) -> Offsets | AskGroup | Rejected:
        """Every stored partition, paired with None.

        Returns a question if the caller must read the partitions first, or a refusal.
        """
        ...

    def fence(self) -> tuple[Step, ...]:
        """Steps that fence tasks before anything is written; sinks have none."""
        ...

    def wipe(self, stored: Offsets) -> tuple[Step, ...]:
        """Steps that remove all stored offsets."""
        ...

    def write(self, requested: Offsets) -> tuple[Step, ...]:
        """Steps that set and remove the given offsets."""
        ...

    def wipe_before_creation(self, stored: Offsets) -> tuple[Step, ...]:
        """Steps that remove all stored offsets. A failed removal is completed, not reverted."""
        ...

    def write_after_wipe(self, requested: Offsets) -> tuple[Step, ...]:
        """Steps that set offsets where none are stored. The undo of each removes its offsets."""
        ...


def alter(state: ClusterState, command: AlterOffsets, context: Context) -> Decision:
    """Set or remove some offsets of a stopped connector; the others stay."""
    if not context.profile.alters_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    if not command.offsets:
        return Rejected(Reason.INVALID, NOTHING_GIVEN)
    store = _store_of_stopped(state, command, context)
    if isinstance(store, Rejected | AskRemoteOffsets):
        return store
    requested = requested_of(store, command.connector, command.offsets)
    if isinstance(requested, Rejected):
        return requested
    hook_result = hook_answer(context, 0, _question(state, command, requested))
    if not isinstance(hook_result, HookSuccess):
        return hook_result
    return _plan(
        (*store.fence(), *store.write(requested)), _outcome(hook_result, "altered"), "write"
    )


def reset(state: ClusterState, command: ResetOffsets, context: Context) -> Decision:
    """Remove every offset of a stopped connector; succeeds if there is none."""
    if not context.profile.alters_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    store = _store_of_stopped(state, command, context)
    if isinstance(store, Rejected | AskRemoteOffsets):
        return store
    stored = store.removals()
    if isinstance(stored, Rejected | AskGroup):
        return stored
    hook_result = hook_answer(context, 0, _question(state, command, stored))
    if not isinstance(hook_result, HookSuccess):
        return hook_result
    return _plan((*store.fence(), *store.wipe(stored)), _outcome(hook_result, "reset"), "wipe")


NOTHING_GIVEN = "Partitions / offsets need to be provided for an alter offsets request"


def store_of(
    state: ClusterState, name: str, config: Properties, context: Context
) -> ConnectorOffsets | AskRemoteOffsets | Rejected:
    """Store of the offsets of a connector with this config, or the refusal.

    Refused: an invalid class, a class of unknown type, overrides that the policy forbids. Returns a
    question if the caller must read the offsets of another cluster first.
    """
    plugin = find_connector(ValidationSubject.of(config, context))
    if isinstance(plugin, ValidationFailure):
        return Rejected(Reason.FAILED, plugin.text)
    kind = _STORES.get(plugin.type)
    if kind is None:
        text = (
            f"The offsets of connector {name} depend on its type: list class {plugin.class_name} "
            "as source or sink in the plugin catalogue"
        )
        return Rejected(Reason.FAILED, text)
    store = kind(state, name, config, context)
    forbidden = _forbidden_overrides(store, state, config, context)
    if forbidden is not None:
        return Rejected(Reason.FAILED, forbidden)
    question = missing_remote(state, name, config, context) if kind is SourceOffsets else None
    return question or store


def reading_failure(state: ClusterState, name: str, context: Context) -> str | None:
    """Kafka's message if a worker cannot read the offsets of a connector; None: it can.

    A worker first creates an instance of the connector's class, and the Kafka clients that read
    the offsets (`Worker#connectorOffsets`). So reading fails if the class is invalid. It also
    fails if the worker's policy forbids an override for one of these clients.
    """
    config = state.config.connectors[name]
    plugin = find_connector(ValidationSubject.of(config, context))
    if isinstance(plugin, ValidationFailure):
        return plugin.text
    clients: tuple[str, ...] = ()
    if plugin.type == "sink":
        clients = SINK_OFFSET_CLIENTS
    elif plugin.type == "source":
        clients = source_offset_clients(config, context, exactly_once=state.exactly_once)
    return override_refusal(config, clients, context)


def _forbidden_overrides(
    store: ConnectorOffsets, state: ClusterState, config: Properties, context: Context
) -> str | None:
    """Kafka's message if the worker's policy forbids a client that changes the offsets (KIP-458).

    None: all clients are allowed. A worker fences tasks first, so a forbidden admin client gets a
    message about fencing.
    """
    if store.kind == "sink":
        return override_refusal(config, SINK_OFFSET_CLIENTS, context)
    fences = any(isinstance(step.action, FenceProducers) for step in store.fence())
    if fences and override_refusal(config, ("admin",), context) is not None:
        return "Failed to perform zombie fencing for source connector prior to modifying offsets"
    clients = source_offset_clients(config, context, exactly_once=state.exactly_once)
    return override_refusal(config, clients, context)


_STORES: Mapping[str, type[SourceOffsets] | type[SinkOffsets]] = {
    "source": SourceOffsets,
    "sink": SinkOffsets,
}


def requested_of(
    store: ConnectorOffsets, name: str, changes: Sequence[OffsetChange]
) -> Offsets | Rejected:
    """The requested offsets in normal form; refused if meant for the other kind of connector."""
    other_kind = next(
        (change.kind for change in changes if change.kind not in {None, store.kind}), None
    )
    if other_kind is not None:
        text = f"These are offsets of a {other_kind} connector, but {name} is a {store.kind}"
        return Rejected(Reason.INVALID, f"{text} connector")
    return store.requested(changes)


def hook_answer(
    context: Context, number: int, question: AskHook
) -> HookSuccess | AskHook | Rejected:
    """Answer of the connector's hook to a question, or the question if not yet answered.

    `number` is the question's index in `Context.hooks`. A failed hook is a failure of the worker.
    Its exception does not tell invalid offsets from a system that cannot be reached.
    """
    outcome = context.hooks[number] if number < len(context.hooks) else _computed(context, question)
    if outcome is None:
        return question
    if isinstance(outcome, HookFailure):
        return Rejected(Reason.FAILED, outcome.text, outcome.detail)
    return outcome


def _computed(context: Context, question: AskHook) -> HookOutcome | None:
    """Outcome of a hook that only computes; None: the caller must call the hook."""
    if not context.calls_pure_hooks:
        return None
    hook = context.plugins.pure_hook(question.connector_class, context.profile)
    return None if hook is None else hook(question.config, question.offsets)


def _question(state: ClusterState, command: ConnectorCommand, offsets: Offsets) -> AskHook:
    name = command.connector
    return AskHook(name, state.config.connectors[name], offsets)


def _store_of_stopped(
    state: ClusterState, command: ConnectorCommand, context: Context
) -> ConnectorOffsets | AskRemoteOffsets | Rejected:
    """Store of a stopped connector without tasks, the refusal, or a question (`store_of`).

    The checks have the order of `DistributedHerder#modifyConnectorOffsetsChecks`.
    """
    name = command.connector
    config = state.config.connectors.get(name)
    if config is None:
        return not_found(command)
    stopped = state.config.targets.get(name) is Target.STOPPED
    # Only if both hold, all tasks have been told to stop. A running task may overwrite offsets.
    if not stopped or state.config.task_counts.get(name, 0) != 0:
        text = (
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint"
        )
        return Rejected(Reason.NOT_STOPPED, text)
    return store_of(state, name, config, context)


def _plan(steps: tuple[Step, ...], outcome: Outcome, commit_point: str) -> Plan:
    """Plan of the steps, without a commit point if only fencing steps remain."""
    commits = any(step.name == commit_point for step in steps)
    return Plan(steps, outcome, commit_point if commits else None)


def _outcome(hook_result: HookSuccess, changed: str) -> Outcome:
    """Outcome with the worker's message; `changed` is `altered` or `reset`."""
    if hook_result.definite:
        text = f"The offsets for this connector have been {changed} successfully"
        return Outcome(message=text)
    text = (
        f"The Connect framework-managed offsets for this connector have been {changed} "
        "successfully. However, if this connector manages offsets externally, they will need to "
        f"be manually {changed} in the system that the connector uses."
    )
    return Outcome(message=text)
