"""Publishes the tasks of a connector, and fences those of earlier generations (KIP-618).

A task set is one record per task and a commit with their number. Readers keep the task records
aside until the commit arrives. So a crash between the records has no effect for readers.
"""

from collections.abc import Sequence

import msgspec

from controlplane.core import views
from controlplane.core.commands import FenceTasks, PublishTasks
from controlplane.core.context import Context
from controlplane.core.decide.sink_offsets import admin_overrides
from controlplane.core.decide.steps import privileged_steps
from controlplane.core.plan import FenceProducers, Plan, Reason, Rejected, Step
from controlplane.core.plugins import UNKNOWN_TYPE
from controlplane.core.records import (
    ConfigRecord,
    Properties,
    Target,
    TaskCommit,
    TaskConfig,
    TaskCount,
)
from controlplane.core.state import ClusterState
from controlplane.core.text.override_refusal import override_refusal
from controlplane.core.topics.remote_offsets import remote_clients, remote_topic


def publish(state: ClusterState, command: PublishTasks, context: Context) -> Plan | Rejected:
    """Write task configs that a connector generated (`KafkaConfigBackingStore#putTaskConfigs`)."""
    name, profile = command.connector, context.profile
    if name not in state.config.connectors:
        return Rejected(Reason.NO_SUCH_CONNECTOR, f"Connector {name} not found")
    if command.configs and state.config.targets.get(name) is Target.STOPPED:
        text = f"Cannot submit non-empty set of task configs for stopped connector {name}"
        return Rejected(Reason.INVALID, text)
    if not command.configs and not profile.writes_empty_commit:
        return Plan(())
    records = task_set(name, command.configs)
    if profile.writes_atomically:
        return Plan(privileged_steps(state, records, "commit", context), commit_point="commit")
    # Releases use two transactions: the tasks must have been read before the commit is written.
    commit = {"commit": records.pop("commit")}
    steps = (
        *privileged_steps(state, records, "tasks", context),
        *privileged_steps(state, commit, "commit", context),
    )
    return Plan(steps, commit_point="commit")


def task_set(name: str, configs: Sequence[Properties]) -> dict[str, ConfigRecord]:
    """Records of a task set by step name: `task-0`, `task-1`, …, `commit`."""
    records: dict[str, ConfigRecord] = {
        f"task-{task}": TaskConfig(name, task, config) for task, config in enumerate(configs)
    }
    return records | {"commit": TaskCommit(name, len(configs))}


def fence(state: ClusterState, command: FenceTasks, context: Context) -> Plan | Rejected:
    """Fence zombie tasks; the worker of a task requests it before the task starts."""
    name = command.connector
    if not context.profile.fencing:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return Rejected(Reason.NO_SUCH_CONNECTOR, f"Connector {name} not found")
    plugin_type = views.connector_type(state, name, context.plugins)
    if plugin_type == UNKNOWN_TYPE and context.plugins.trusting:
        return Rejected(Reason.FAILED, _UNKNOWN_TYPE.format(name))
    if plugin_type != "source":
        return Rejected(Reason.INVALID, f"Connector {name} is not a source connector")
    config = state.config.connectors[name]
    steps = fencing(state, name, config, context)
    if any(isinstance(step.action, FenceProducers) for step in steps):
        forbidden = override_refusal(config, ("admin",), context)
        if forbidden is not None:
            return Rejected(Reason.FAILED, forbidden)
    return Plan(steps, commit_point="count")


_UNKNOWN_TYPE = (
    "The type of connector {} is unknown, and only sources are fenced: list its class in the "
    "plugin catalogue"
)


def fencing(
    state: ClusterState, name: str, config: Properties, context: Context
) -> tuple[Step, ...]:
    """Steps that ensure that no producer of an older task generation can write.

    `config`: the connector's config; the connector may still have to be created.
    A `TaskCount` record holds the number of producers to fence the next time. So it is written
    after the old generation is fenced and before a task of the new one starts. It outlives the
    connector. Kafka: `DistributedHerder#doFenceZombieSourceTasks`.
    """
    is_deleted = name not in state.config.connectors and name in state.config.fenced_counts
    if name not in state.config.pending_fencing and not is_deleted:
        return ()  # No task set was committed since the last count: all are fenced.
    count = state.config.task_counts.get(name, 0)
    record = TaskCount(name, count)
    return (
        *_fence_producers(state, name, config, count, context),
        *privileged_steps(state, {"count": record}, "count", context),
    )


def _fence_producers(
    state: ClusterState, name: str, config: Properties, count: int, context: Context
) -> tuple[Step, ...]:
    """Step that fences the old producers; none if no task had started."""
    old_count = min(state.config.fenced_counts.get(name, 0), views.TASKS_MAX)
    # A single new task has the transactional id of the single old one, and so fences it itself.
    if old_count <= 0 or old_count == count == 1:
        return ()
    group = context.worker.group_id
    transactional_ids = tuple(f"{group}-{name}-{task}" for task in range(old_count))
    is_remote = remote_topic(state, config, context.worker) is not None
    clients = remote_clients(config) if is_remote else msgspec.UNSET
    action = FenceProducers(name, transactional_ids, admin_overrides(config), clients)
    return (Step("fence", action=action, read_back=(state.topics.config,)),)
