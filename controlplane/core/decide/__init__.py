"""command + state → plan, question or refusal. Pure: the same input gives the same bytes.

One table from the kind of command to the function that decides it. The order of the records within
a plan is the order in which a worker of the context's profile writes them; why it is that order
stands beside each plan. Kafka: `DistributedHerder`, `KafkaConfigBackingStore`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.core import commands
from controlplane.core.context import Context
from controlplane.core.decide import (
    connectors,
    initial,
    lifecycle,
    offsets,
    restarts,
    restoring,
    tasks,
    topics,
)
from controlplane.core.decide.writable import malformed, oversized
from controlplane.core.plan import Plan, Question, Rejected
from controlplane.core.state import ClusterState

Decision = Plan | Question | Rejected
_Decide = Callable[[ClusterState, Any, Context], Decision]

_TABLE: Mapping[type, _Decide] = {
    commands.CreateConnector: initial.create,
    commands.PutConfig: connectors.put,
    commands.PatchConfig: connectors.patch,
    commands.DeleteConnector: connectors.delete,
    commands.PauseConnector: lifecycle.pause,
    commands.ResumeConnector: lifecycle.resume,
    commands.StopConnector: lifecycle.stop,
    commands.RestartConnector: restarts.restart,
    commands.RestartTask: restarts.restart_task,
    commands.AlterOffsets: offsets.alter,
    commands.ResetOffsets: offsets.reset,
    commands.ResetTopics: topics.reset,
    commands.SetLoggerLevel: topics.set_level,
    commands.PublishTasks: tasks.publish,
    commands.FenceTasks: tasks.fence,
    commands.RestoreConnector: restoring.restore,
}


def decide(state: ClusterState, command: commands.AnyCommand, context: Context) -> Decision:
    """What has to be written and done for a command, in which order; or what must be asked first.

    `state` must hold everything that was appended before: a decision is as good as its reading.
    """
    decision = malformed(command) or _TABLE[type(command)](state, command, context)
    return oversized(command, decision, context) or decision
