"""Decides restarts of a connector, of its tasks and of one task (KIP-52, KIP-745).

A restart is an event. The restart of one instance is sent to its worker and leaves no record. A
restart that may concern several workers is a record that all of them read. A worker that was not
running when the record was written ignores it.
"""

from controlplane.core.commands import ConnectorCommand, RestartConnector, RestartTask
from controlplane.core.context import Context
from controlplane.core.decide.steps import privileged_steps
from controlplane.core.plan import Outcome, Plan, Reason, Rejected, RestartInstances, Step
from controlplane.core.records import RestartRequest, State, Status
from controlplane.core.state import ClusterState

Instances = tuple[int | None, ...]
"""Tasks by number; None is the connector itself."""


def restart(state: ClusterState, command: RestartConnector, context: Context) -> Plan | Rejected:
    """Restart the connector alone, or the instances that the flags select.

    Releases without the two flags of KIP-745 ignore them.
    """
    name, profile = command.connector, context.profile
    if not profile.restarts:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return _unknown(command)
    if profile.restart_requests and (command.include_tasks or command.only_failed):
        return _request(state, command, context)
    if not profile.restarts_concurrently and _is_restarting(state.status.connectors.get(name)):
        return Rejected(Reason.CONFLICT, f"Connector {name} is already being restarted")
    return _restart_plan(name, (None,))


def restart_task(state: ClusterState, command: RestartTask, context: Context) -> Plan | Rejected:
    """Restart one task, whatever its state. `kip` refuses while it is being restarted."""
    name, task, profile = command.connector, command.task, context.profile
    if not profile.restarts:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return _unknown(command)
    has_config = task in state.config.tasks.get(name, {})
    assigned = has_config and task in state.config.task_ids(name)
    # Releases keep the configs of tasks beyond the present count. No worker owns such a task.
    if has_config and not assigned and profile.restart_knows_old_tasks:
        return Rejected(Reason.CONFLICT, _NO_OWNER)
    if not assigned:
        return Rejected(Reason.NO_SUCH_TASK, f"Unknown task: {name}-{task}")
    reported = state.status.tasks.get(name, {}).get(task)
    if not profile.restarts_concurrently and _is_restarting(reported):
        return Rejected(Reason.CONFLICT, f"Task {name}-{task} is already being restarted")
    return _restart_plan(name, (task,))


_NO_OWNER = (
    "Cannot complete request momentarily due to no known leader URL, "
    "likely because a rebalance was underway."
)


def _unknown(command: ConnectorCommand) -> Rejected:
    """Refusal of an unknown connector, as Kafka words it for restarts."""
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Unknown connector: {command.connector}")


def _restart_plan(name: str, instances: Instances) -> Plan:
    """Plan to restart instances directly, without a record."""
    step = Step("restart", action=RestartInstances(name, instances))
    return Plan((step,), commit_point="restart")


def _request(state: ClusterState, command: RestartConnector, context: Context) -> Plan | Rejected:
    """Write a restart request; the answer lists the instances to restart (`restarting`).

    Each worker selects the instances by the statuses that it has when it reads the record.
    """
    name = command.connector
    record = RestartRequest(name, command.include_tasks, command.only_failed)
    steps = privileged_steps(state, {"restart": record}, "restart", context)
    reported = state.status.connectors.get(name)
    if reported is None:
        refusal = Rejected(Reason.NO_STATUS, f"Status for connector {name} not found")
        if not context.profile.restart_writes_first:
            return refusal
        return Plan(steps, Outcome(refusal=refusal), "restart")
    # The log stores the outcome as JSON, which decodes a tuple as a list.
    restarting = list(_selected_instances(state, command, reported))
    return Plan(steps, Outcome(facts={"restarting": restarting}), "restart")


def _selected_instances(
    state: ClusterState, command: RestartConnector, reported: Status
) -> Instances:
    """Instances that a restart request selects (`RestartRequest#shouldRestartTask`)."""
    statuses: dict[int | None, Status] = {None: reported}
    if command.include_tasks:
        statuses |= sorted(state.status.tasks.get(command.connector, {}).items())
    return tuple(
        instance
        for instance, status in statuses.items()
        if not command.only_failed or status.state is State.FAILED
    )


def _is_restarting(reported: Status | None) -> bool:
    return reported is not None and reported.state is State.RESTARTING
