"""Pause, resume, stop: what the user wants of a connector (KIP-52, KIP-875).

Pausing and resuming take one record. Stopping takes two, and their order is the whole point: the
empty task set goes first, because a STARTED connector without tasks is harmless, while a STOPPED
one with tasks is not. A crash between the two leaves the former.
"""

from controlplane.core.commands import (
    ConnectorCommand,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.context import Context
from controlplane.core.decide.drafting import config_step
from controlplane.core.plan import Plan, Reason, Rejected
from controlplane.core.records import Target, TargetState, TaskCommit
from controlplane.core.state import ClusterState


def pause(state: ClusterState, command: PauseConnector, context: Context) -> Plan | Rejected:
    """Any state → PAUSED. A stopped connector does not start by being paused."""
    return _target(state, command, Target.PAUSED, context)


def resume(state: ClusterState, command: ResumeConnector, context: Context) -> Plan | Rejected:
    """Any state → STARTED."""
    return _target(state, command, Target.STARTED, context)


def stop(state: ClusterState, command: StopConnector, context: Context) -> Plan | Rejected:
    """Any state → STOPPED, without tasks (`DistributedHerder#stopConnector`)."""
    name = command.connector
    if not context.profile.stops:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return unknown(command)
    return Plan(
        (
            config_step(state, "tasks", [TaskCommit(name, 0)], context),
            config_step(state, "state", [TargetState(name, Target.STOPPED)], context),
        ),
        commit_point="state",
    )


def _target(
    state: ClusterState, command: ConnectorCommand, wanted: Target, context: Context
) -> Plan | Rejected:
    if not context.profile.target_states:
        return Rejected(Reason.NOT_OFFERED, None)
    if command.connector not in state.config.connectors:
        return unknown(command)
    record = TargetState(command.connector, wanted)
    return Plan((config_step(state, "state", [record], context),), commit_point="state")


def unknown(command: ConnectorCommand) -> Rejected:
    """There is no such connector, in the words of the herder."""
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Unknown connector {command.connector}")
