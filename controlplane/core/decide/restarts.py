"""Restarts: of a connector, of it and its tasks, of one task (KIP-52, KIP-745).

A restart is an event. That of one instance is asked of the worker that has it and leaves no record;
one that may concern tasks on several workers is a record that all of them read, and that nobody
obeys who was not running when it was written.
"""

from controlplane.core.commands import ConnectorCommand, RestartConnector, RestartTask
from controlplane.core.context import Context
from controlplane.core.decide.drafting import privileged
from controlplane.core.plan import Outcome, Plan, Reason, Rejected, RestartInstances, Step
from controlplane.core.records import RestartRequest, State, Status
from controlplane.core.state import ClusterState

Instances = tuple[int | None, ...]
"""Tasks by their number, and the connector itself as None."""


def restart(state: ClusterState, command: RestartConnector, context: Context) -> Plan | Rejected:
    """The connector alone, or what of it and its tasks is asked for.

    Releases that do not know the two flags of KIP-745 do not look at them either.
    """
    name, profile = command.connector, context.profile
    if not profile.restarts:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return _unknown(command)
    if profile.restart_requests and (command.include_tasks or command.only_failed):
        return _request(state, command, context)
    if not profile.restarts_concurrently and _restarting(state.status.connectors.get(name)):
        return Rejected(Reason.CONFLICT, f"Connector {name} is already being restarted")
    return _instances(name, (None,))


def restart_task(state: ClusterState, command: RestartTask, context: Context) -> Plan | Rejected:
    """One task, whatever it does now."""
    name, task, profile = command.connector, command.task, context.profile
    if not profile.restarts:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return _unknown(command)
    known = task in state.config.tasks.get(name, {})
    assigned = known and task in state.config.task_ids(name)
    if known and not assigned and profile.restart_knows_old_tasks:
        return Rejected(Reason.CONFLICT, _NO_OWNER)
    if not assigned:
        return Rejected(Reason.NO_SUCH_TASK, f"Unknown task: {name}-{task}")
    reported = state.status.tasks.get(name, {}).get(task)
    if not profile.restarts_concurrently and _restarting(reported):
        return Rejected(Reason.CONFLICT, f"Task {name}-{task} is already being restarted")
    return _instances(name, (task,))


_NO_OWNER = (
    "Cannot complete request momentarily due to no known leader URL, "
    "likely because a rebalance was underway."
)


def _unknown(command: ConnectorCommand) -> Rejected:
    """There is no such connector, in the words of restarting."""
    return Rejected(Reason.NO_SUCH_CONNECTOR, f"Unknown connector: {command.connector}")


def _instances(name: str, instances: Instances) -> Plan:
    step = Step("restart", action=RestartInstances(name, instances))
    return Plan((step,), commit_point="restart")


def _request(state: ClusterState, command: RestartConnector, context: Context) -> Plan | Rejected:
    """A record for all workers. The answer tells which instances will be restarted: `restarting`.

    Which those are each worker decides by the statuses that it knows when it reads the record.
    """
    name = command.connector
    record = RestartRequest(name, command.include_tasks, command.only_failed)
    steps = privileged(state, {"restart": record}, "restart", context)
    reported = state.status.connectors.get(name)
    if reported is None:
        refusal = Rejected(Reason.NO_STATUS, f"Status for connector {name} not found")
        if not context.profile.restart_writes_first:
            return refusal
        return Plan(steps, Outcome(refusal=refusal), "restart")
    facts = {"restarting": list(_concerned(state, command, reported))}  # as JSON has it
    return Plan(steps, Outcome(facts=facts), "restart")


def _concerned(state: ClusterState, command: RestartConnector, reported: Status) -> Instances:
    """Which instances a restart request means (`RestartRequest#shouldRestartTask`)."""
    statuses: dict[int | None, Status] = {None: reported}
    if command.include_tasks:
        statuses |= sorted(state.status.tasks.get(command.connector, {}).items())
    return tuple(
        instance
        for instance, status in statuses.items()
        if not command.only_failed or status.state is State.FAILED
    )


def _restarting(reported: Status | None) -> bool:
    return reported is not None and reported.state is State.RESTARTING
