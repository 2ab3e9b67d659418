"""Decides pause, resume and stop: changes of the target state (KIP-52, KIP-875).

Pause and resume write one record. Stop writes two, and their order matters. The empty task set
comes first. A STARTED connector without tasks is harmless, but a STOPPED one with tasks is not. So
a crash between the two records is harmless.
"""

from controlplane.core.commands import (
    ConnectorCommand,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.context import Context
from controlplane.core.decide.steps import config_step
from controlplane.core.plan import Plan, Reason, Rejected
from controlplane.core.records import Target, TargetState, TaskCommit
from controlplane.core.state import ClusterState


def pause(state: ClusterState, command: PauseConnector, context: Context) -> Plan | Rejected:
    """Change any target state to PAUSED.

    The plan is the same for a stopped connector. Under `kip` the worker starts it first
    (`Profile.pause_starts_stopped`).
    """
    return _target_plan(state, command, Target.PAUSED, context)


def resume(state: ClusterState, command: ResumeConnector, context: Context) -> Plan | Rejected:
    """Change any target state to STARTED."""
    return _target_plan(state, command, Target.STARTED, context)


def stop(state: ClusterState, command: StopConnector, context: Context) -> Plan | Rejected:
    """Change any target state to STOPPED and empty the task set.

    Kafka: `DistributedHerder#stopConnector`.
    """
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


def _target_plan(
    state: ClusterState, command: ConnectorCommand, target: Target, context: Context
) -> Plan | Rejected:
    if not context.profile.target_states:
        return Rejected(Reason.NOT_OFFERED, None)
    if command.connector not in state.config.connectors:
        return unknown(command)
    record = TargetState(command.connector, target)
    return Plan((config_step(state, "state", [record], context),), commit_point="state")


def unknown(command: ConnectorCommand) -> Rejected:
    """Refusal of an unknown connector, as Kafka words it when it changes a target state."""
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Unknown connector {command.connector}")
