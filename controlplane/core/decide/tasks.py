"""Publishing the tasks of a connector, and fencing those that came before (KIP-618).

A task set is as many records as there are tasks and one that says how many: the commit. Readers
keep the former aside until the latter comes, so a crash between them shows to nobody.
"""

from collections.abc import Sequence

from controlplane.core import views
from controlplane.core.commands import FenceTasks, PublishTasks
from controlplane.core.context import Context
from controlplane.core.decide.drafting import privileged
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


def publish(state: ClusterState, command: PublishTasks, context: Context) -> Plan | Rejected:
    """What the owner of a connector has generated (`KafkaConfigBackingStore#putTaskConfigs`)."""
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
        return Plan(privileged(state, records, "commit", context), commit_point="commit")
    # Releases make two transactions of it: the tasks must have been read before they are committed.
    commit = {"commit": records.pop("commit")}
    tasks = privileged(state, records, "tasks", context)
    return Plan((*tasks, *privileged(state, commit, "commit", context)), commit_point="commit")


def task_set(name: str, configs: Sequence[Properties]) -> dict[str, ConfigRecord]:
    """The records of a whole task set, by the names of their steps."""
    records: dict[str, ConfigRecord] = {
        f"task-{task}": TaskConfig(name, task, config) for task, config in enumerate(configs)
    }
    return records | {"commit": TaskCommit(name, len(configs))}


def fence(state: ClusterState, command: FenceTasks, context: Context) -> Plan | Rejected:
    """What a task's worker asks for before the task starts."""
    name = command.connector
    if not context.profile.fencing:
        return Rejected(Reason.NOT_OFFERED, None)
    if name not in state.config.connectors:
        return Rejected(Reason.NO_SUCH_CONNECTOR, f"Connector {name} not found")
    kind = views.connector_type(state, name, context.plugins)
    if kind == UNKNOWN_TYPE and context.plugins.trusting:
        return Rejected(Reason.FAILED, _UNKNOWN_KIND.format(name))
    if kind != "source":
        return Rejected(Reason.INVALID, f"Connector {name} is not a source connector")
    return Plan(fencing(state, name, context), commit_point="count")


_UNKNOWN_KIND = (
    "Whether connector {} is a source or a sink is not known, and only sources are fenced: list "
    "its class with its type in the plugin catalogue"
)


def fencing(state: ClusterState, name: str, context: Context) -> tuple[Step, ...]:
    """Make sure that no producer of an older task generation can write any more.

    The count says how many may have to be fenced the next time, so it is written before any task
    of the new generation starts, and after all of the old one are fenced. It outlives its
    connector. Kafka: `DistributedHerder#doFenceZombieSourceTasks`.
    """
    gone = name not in state.config.connectors and name in state.config.fenced_counts
    if name not in state.config.pending_fencing and not gone:
        return ()  # no commit since the last count: done before
    count = state.config.task_counts.get(name, 0)
    record = TaskCount(name, count)
    return (
        *_fence_producers(state, name, count, context),
        *privileged(state, {"count": record}, "count", context),
    )


def _fence_producers(
    state: ClusterState, name: str, count: int, context: Context
) -> tuple[Step, ...]:
    """Nothing to do where none had been started, or where the one new task fences the one old."""
    before = state.config.fenced_counts.get(name, 0)
    if before <= 0 or before == count == 1:
        return ()
    group = context.worker.group_id
    action = FenceProducers(name, tuple(f"{group}-{name}-{task}" for task in range(before)))
    return (Step("fence", action=action, read_back=(state.topics.config,)),)
