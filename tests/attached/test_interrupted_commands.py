"""Endings of commands that a crash has cut off: the log event, and its counter in `/metrics`."""

from typing import Any, cast

from prometheus_client import generate_latest

from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import AttachedSurroundings, CommandExecution
from controlplane.attached.interrupted_commands import CutOffCommands
from controlplane.attached.planner import ClusterPlanner
from controlplane.controller.admission import QueueLocks
from controlplane.core.commands import CommandRequest, PauseConnector
from controlplane.core.plan import Draft, Plan, Step
from controlplane.logs.memory import MemoryLog
from controlplane.observe import silent
from controlplane.rest.metrics import Metrics
from tests.attached.test_follow_up import TOPICS, followed


async def never_sent(*_: Any) -> None:
    """Fail: an interrupted command is looked up, and its request is not repeated."""
    raise AssertionError


async def test_every_command_of_a_connector_is_ended_and_counted() -> None:
    """The counting logger of `serve` takes the event, so the next command is ended, too."""
    trail = await Trail.open(MemoryLog(), "commands", ClusterIdentity("id", "configs"), 1)
    key, value = b"target-state-orders", b'{"state":"PAUSED","state.v2":"PAUSED"}'
    plan = Plan((Step("state", (Draft(TOPICS.config, key, value),)),))
    for command_id in ("1", "2"):
        request = CommandRequest(command=PauseConnector("orders"), command_id=command_id, at_ms=1)
        await trail.accepted(request, plan, {})
    metrics = Metrics()
    async with followed() as (follow_up, _):
        client, planner = cast("ConnectClient", None), cast("ClusterPlanner", None)
        execution = CommandExecution(client, planner, follow_up, trail, never_sent)
        around = AttachedSurroundings(metrics.counting_logger(silent()))
        for ending in CutOffCommands(execution, follow_up, trail, around, QueueLocks(2)).begin():
            await ending
    assert not any(trace.unfinished for trace in trail.commands.values())
    counted = 'controlplane_commands_recovered_total{command="pause",ending="unknown"} 2.0'
    assert counted in generate_latest(metrics.registry).decode()
