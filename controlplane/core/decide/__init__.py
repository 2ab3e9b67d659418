"""Decides commands: command and state → plan, question or refusal. Pure and deterministic.

One table maps each kind of command to the function that decides it. The records of a plan are in
the order in which a worker of the context's profile writes them; each plan documents the reason for
its order. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.
"""

from collections.abc import Mapping

from controlplane.core import commands
from controlplane.core.context import Context
from controlplane.core.decide import (
    connectors,
    create_with_offsets,
    offsets,
    restarts,
    restore_plan,
    target_states,
    task_configs,
    topics,
)
from controlplane.core.decide.command_checks import malformed, oversized
from controlplane.core.plan import Decision
from controlplane.core.state import ClusterState

_TABLE: Mapping[type, restore_plan.DecideCommand] = {
    commands.CreateConnector: create_with_offsets.create,
    commands.PutConfig: connectors.put,
    commands.PatchConfig: connectors.patch,
    commands.DeleteConnector: connectors.delete,
    commands.PauseConnector: target_states.pause,
    commands.ResumeConnector: target_states.resume,
    commands.StopConnector: target_states.stop,
    commands.RestartConnector: restarts.restart,
    commands.RestartTask: restarts.restart_task,
    commands.AlterOffsets: offsets.alter,
    commands.ResetOffsets: offsets.reset,
    commands.ResetTopics: topics.reset,
    commands.SetLoggerLevel: topics.set_level,
    commands.PublishTasks: task_configs.publish,
    commands.FenceTasks: task_configs.fence,
    commands.RestoreConnector: restore_plan.restore,
}


def decide(state: ClusterState, command: commands.AnyCommand, context: Context) -> Decision:
    """Decide a command: a plan of ordered steps, a question to ask first, or a refusal.

    `state` must include every record appended so far: the decision is only as current as its state.
    """
    decision = malformed(command) or _TABLE[type(command)](state, command, context)
    return oversized(command, decision, context) or decision
