"""Altering and resetting the offsets of a stopped connector (KIP-875).

Where offsets lie differs between sources and sinks, what is done with them does not: check, ask the
connector (its `alterOffsets` may know offsets outside of Kafka), write. A worker fences the tasks
of an exactly-once source between the first two; here everything is asked before anything is done,
so that what is refused has changed nothing. Kafka: `Worker#modifyConnectorOffsets`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from controlplane.core.commands import AlterOffsets, ConnectorCommand, OffsetChange, ResetOffsets
from controlplane.core.context import Context
from controlplane.core.decide.connectors import not_found
from controlplane.core.decide.sinks import SinkOffsets
from controlplane.core.decide.sources import SourceOffsets, unreachable
from controlplane.core.plan import (
    AskGroup,
    AskHook,
    Done,
    Offsets,
    Outcome,
    Plan,
    Question,
    Reason,
    Rejected,
    Step,
    Thrown,
)
from controlplane.core.records import Properties, Target
from controlplane.core.state import ClusterState
from controlplane.core.validation import Failure
from controlplane.core.validation.finding import find_connector
from controlplane.core.validation.subject import Subject


class Kept(Protocol):
    """The offsets of one connector, and how they are kept."""

    kind: str

    def __init__(
        self, state: ClusterState, name: str, config: Properties, context: Context
    ) -> None: ...

    def wanted(self, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
        """What is asked for, or what is wrong with its form."""
        ...

    def known(self) -> Offsets | AskGroup | Rejected:
        """All that there is, to be taken away."""
        ...

    def fence(self) -> tuple[Step, ...]:
        """What must be done before anything is written."""
        ...

    def wipe(self, known: Offsets) -> tuple[Step, ...]:
        """Take away all that there is."""
        ...

    def write(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set some, take away others."""
        ...

    def start_over(self, known: Offsets) -> tuple[Step, ...]:
        """Take away all that there is, and all of it even where this is to be taken back."""
        ...

    def start_at(self, wanted: Offsets) -> tuple[Step, ...]:
        """Set some where there are none; each step can be taken back."""
        ...


def alter(
    state: ClusterState, command: AlterOffsets, context: Context
) -> Plan | Question | Rejected:
    """Some offsets are set or taken away, the others stay as they are."""
    if not context.profile.alters_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    if not command.offsets:
        return Rejected(Reason.INVALID, NOTHING_GIVEN)
    kept = _kept_of_stopped(state, command, context)
    if isinstance(kept, Rejected):
        return kept
    wanted = wanted_of(kept, command.connector, command.offsets)
    if isinstance(wanted, Rejected):
        return wanted
    done = hooked(context, 0, _question(state, command, wanted))
    if not isinstance(done, Done):
        return done
    return _plan((*kept.fence(), *kept.write(wanted)), _outcome(done, "altered"), "write")


def reset(
    state: ClusterState, command: ResetOffsets, context: Context
) -> Plan | Question | Rejected:
    """Every offset is taken away; that there is none is no error."""
    if not context.profile.alters_offsets:
        return Rejected(Reason.NOT_OFFERED, None)
    kept = _kept_of_stopped(state, command, context)
    if isinstance(kept, Rejected):
        return kept
    known = kept.known()
    if isinstance(known, Rejected | AskGroup):
        return known
    done = hooked(context, 0, _question(state, command, known))
    if not isinstance(done, Done):
        return done
    return _plan((*kept.fence(), *kept.wipe(known)), _outcome(done, "reset"), "wipe")


NOTHING_GIVEN = "Partitions / offsets need to be provided for an alter offsets request"


def kept_of(
    state: ClusterState, name: str, config: Properties, context: Context
) -> Kept | Rejected:
    """The offsets of a connector with this config, or why they cannot be had here."""
    found = find_connector(Subject.of(config, context))
    if isinstance(found, Failure):
        return Rejected(Reason.FAILED, found.text)
    kind = _KINDS.get(found.type)
    if kind is None:
        text = (
            f"Whether connector {name} is a source or a sink is not known, and so not where its "
            f"offsets lie: list its class {found.class_name} with its type in the plugin catalogue"
        )
        return Rejected(Reason.FAILED, text)
    refused = unreachable(state, name, config, context) if kind is SourceOffsets else None
    return refused or kind(state, name, config, context)


_KINDS: Mapping[str, type[SourceOffsets] | type[SinkOffsets]] = {
    "source": SourceOffsets,
    "sink": SinkOffsets,
}


def wanted_of(kept: Kept, name: str, changes: Sequence[OffsetChange]) -> Offsets | Rejected:
    """What is asked for. An asker may say of which kind the offsets are, and be wrong."""
    mistaken = next((one.kind for one in changes if one.kind not in {None, kept.kind}), None)
    if mistaken is not None:
        text = f"These are offsets of a {mistaken} connector, but {name} is a {kept.kind}"
        return Rejected(Reason.INVALID, f"{text} connector")
    return kept.wanted(changes)


def hooked(context: Context, number: int, question: AskHook) -> Done | AskHook | Rejected:
    """What the connector's hook said when asked for the n-th time; the question until it has."""
    if number >= len(context.hooks):
        return question
    outcome = context.hooks[number]
    return Rejected(Reason.FAILED, outcome.text) if isinstance(outcome, Thrown) else outcome


def _question(state: ClusterState, command: ConnectorCommand, offsets: Offsets) -> AskHook:
    name = command.connector
    return AskHook(name, state.config.connectors[name], offsets)


def _kept_of_stopped(
    state: ClusterState, command: ConnectorCommand, context: Context
) -> Kept | Rejected:
    """The checks of `DistributedHerder#modifyConnectorOffsetsChecks`, in their order."""
    name = command.connector
    config = state.config.connectors.get(name)
    if config is None:
        return not_found(command)
    stopped = state.config.targets.get(name) is Target.STOPPED
    if not stopped or state.config.task_counts.get(name, 0) != 0:
        text = (
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint"
        )
        return Rejected(Reason.NOT_STOPPED, text)
    return kept_of(state, name, config, context)


def _plan(steps: tuple[Step, ...], outcome: Outcome, commit_point: str) -> Plan:
    """Where nothing has to be written, nothing happens but the fencing."""
    happens = any(step.name == commit_point for step in steps)
    return Plan(steps, outcome, commit_point if happens else None)


def _outcome(done: Done, changed: str) -> Outcome:
    if done.definite:
        text = f"The offsets for this connector have been {changed} successfully"
        return Outcome(message=text)
    text = (
        f"The Connect framework-managed offsets for this connector have been {changed} "
        "successfully. However, if this connector manages offsets externally, they will need to "
        f"be manually {changed} in the system that the connector uses."
    )
    return Outcome(message=text)
