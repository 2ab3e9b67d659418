"""Endings of commands that a crash has cut off: the log event, and its counter in `/metrics`."""

import asyncio
from typing import cast

import httpx
import pytest
from prometheus_client import generate_latest

from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import TAKE_BACK, AttachedSurroundings, CommandExecution
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.interrupted_commands import RECREATED, CutOffCommands
from controlplane.attached.planner import ClusterPlanner
from controlplane.attached.settings import ConnectSettings
from controlplane.controller.admission import QueueLocks
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
    PauseConnector,
    PutConfig,
    RestoreConnector,
)
from controlplane.core.plan import Draft, Plan, Reason, Rejected, Step
from controlplane.core.records import Target
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogCorrupt, LogNotUsable
from controlplane.logs.memory import MemoryLog
from controlplane.notices import Notices
from controlplane.observe import silent
from controlplane.rest.metrics import Metrics
from tests.attached.test_attached_plane import (
    CONFIG,
    CREATION,
    REMAINS,
    config_record,
    never_sent,
    outcome_of,
    refusing,
    steered,
)
from tests.attached.test_follow_up import TOPICS, followed
from tests.outages import until
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import RecordedNotices


async def never_stepped(*_: object) -> None:
    """Fail: an interrupted command is looked up, and its request is not repeated."""
    raise AssertionError


async def cut_off_trail() -> Trail:
    """Trail with two unfinished pauses of one connector."""
    trail = await Trail.open(MemoryLog(), "commands", ClusterIdentity("id", "configs"), 1)
    key, value = b"target-state-orders", b'{"state":"PAUSED","state.v2":"PAUSED"}'
    plan = Plan((Step("state", (Draft(TOPICS.config, key, value),)),))
    for command_id in ("1", "2"):
        request = CommandRequest(command=PauseConnector("orders"), command_id=command_id, at_ms=1)
        await trail.accepted(request, plan, {})
    return trail


async def end_all(trail: Trail, follow_up: LogFollowUp, notices: Notices) -> None:
    """End the unfinished commands of a trail."""
    client, planner = cast("ConnectClient", None), cast("ClusterPlanner", None)
    execution = CommandExecution(client, planner, follow_up, trail, never_stepped)
    around = AttachedSurroundings(notices, limits=ConnectSettings(retry_ms=1))
    for ending in CutOffCommands(execution, follow_up, trail, around, QueueLocks(2)).begin():
        await ending


async def test_every_command_of_a_connector_is_ended_and_counted() -> None:
    """The counting logger of `serve` takes the event, so the next command is ended, too."""
    trail, metrics = await cut_off_trail(), Metrics()
    async with followed() as (follow_up, _):
        await end_all(trail, follow_up, metrics.counting_logger(silent()))
    assert not any(trace.unfinished for trace in trail.commands.values())
    counted = 'controlplane_commands_recovered_total{command="pause",ending="unknown"} 2.0'
    assert counted in generate_latest(metrics.registry).decode()


async def test_a_command_whose_plan_was_a_refusal_is_ended() -> None:
    """The command was sent nevertheless, so a repeated key must not wait for its end for ever."""
    trail = await Trail.open(MemoryLog(), "commands", ClusterIdentity("id", "configs"), 1)
    request = CommandRequest(command=PauseConnector("orders"), command_id="k", at_ms=1)
    refusal = Rejected(Reason.NO_SUCH_CONNECTOR, "Unknown connector orders")
    await trail.accepted(request, refusal, {})
    async with followed() as (follow_up, _):
        await end_all(trail, follow_up, RecordedNotices())
    assert outcome_of(trail.commands["k"])["ended"] == "unknown"


@pytest.mark.parametrize("command", [PauseConnector("orders"), CREATION])
@pytest.mark.parametrize("since", [[5_000], [0, 0]])
async def test_a_command_is_ended_although_the_topics_are_new(
    command: AnyCommand, since: list[int]
) -> None:
    """Later commands of the connector would wait for ever, as its records are never found."""
    trail = await Trail.open(MemoryLog(), "commands", ClusterIdentity("id", "configs"), 1)
    request = CommandRequest(command=command, command_id="k", at_ms=1)
    async with followed() as (follow_up, _), asyncio.timeout(PATIENCE_S):
        await trail.accepted(request, Plan(()), {TOPICS.config: since}, "create")
        await end_all(trail, follow_up, RecordedNotices())
    outcome = outcome_of(trail.commands["k"])
    assert (outcome["ended"], outcome["compared"]) == ("unknown", "not compared")


async def test_a_recreated_topic_of_another_connector_does_not_matter() -> None:
    """A command reads its own topics. Later ones of its connector need its true end."""
    trail = await Trail.open(MemoryLog(), "commands", ClusterIdentity("id", "configs"), 1)
    request = CommandRequest(command=PauseConnector("orders"), command_id="k", at_ms=1)
    async with followed() as (follow_up, log):
        await log.create_topic("offsets-of-another", 1)
        since = {TOPICS.config: [0], "offsets-of-another": [7]}
        await trail.accepted(request, Plan(()), since, "")
        await end_all(trail, follow_up, RecordedNotices())
    assert RECREATED not in str(outcome_of(trail.commands["k"]))


def fail_first(
    monkeypatch: pytest.MonkeyPatch, follow_up: LogFollowUp, failures: list[Exception]
) -> None:
    """Let reads of the cluster's log raise these failures, the last one first, before they work."""
    usable = follow_up.state_at_end

    async def state_at_end() -> ClusterState:
        if failures:
            raise failures.pop()
        return await usable()

    monkeypatch.setattr(follow_up, "state_at_end", state_at_end)


@pytest.mark.parametrize(
    ("failure", "unfinished"),
    [(LogNotUsable("no right"), []), (LogCorrupt("damaged"), ["1"]), (ValueError("bug"), ["1"])],
    ids=str,
)
async def test_a_failure_is_reported_and_the_next_command_is_ended(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, unfinished: list[str]
) -> None:
    """A log that is not usable yet is asked again; other failures leave one command unfinished."""
    trail, notices = await cut_off_trail(), RecordedNotices()
    failures = [failure]
    async with followed() as (follow_up, _):
        fail_first(monkeypatch, follow_up, failures)
        await end_all(trail, follow_up, notices)
    assert [name for name, trace in trail.commands.items() if trace.unfinished] == unfinished
    assert notices.of("command_not_ended") == [{"command_id": "1", "reason": str(failure)}]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("", "Connector orders was not created before this service was cut off"),
        ("create", "Another client changed connector orders"),
        ("reset", "Another client changed connector orders"),
        ("offsets", "Another client changed connector orders"),
    ],
)
async def test_a_running_connector_proves_no_offsets(step: str, text: str) -> None:
    """Only the last request of a creation with offsets ends the state STOPPED."""
    async with steered(never_sent) as cluster:
        outcome = outcome_of(await cluster.cut_off(CREATION, step, config_record()))
    assert outcome["ended"] == "failed"
    assert outcome["text"].startswith(text)


async def test_a_creation_that_was_resumed_last_is_done() -> None:
    """A connector that runs at the last step has its offsets."""
    async with steered(never_sent) as cluster:
        outcome = outcome_of(await cluster.cut_off(CREATION, "resume", config_record()))
    assert outcome["ended"] == "done"


@pytest.mark.parametrize(("tasks_max", "ending"), [(5, "done"), (2, "unknown")])
async def test_only_the_planned_value_proves_a_request(tasks_max: int, ending: str) -> None:
    """A config that another client has written does not prove that the command was done."""
    async with steered(never_sent) as cluster:
        await cluster.log.append([config_record(1)])
        command = PutConfig("orders", CONFIG | {"tasks.max": "5"})
        trace = await cluster.cut_off(command, "", config_record(tasks_max))
    assert outcome_of(trace)["ended"] == ending


UNDO = RestoreConnector("orders", CONFIG | {"tasks.max": "1"}, Target.STARTED)


async def test_a_cut_off_undo_spares_a_later_change() -> None:
    """The config that another client wrote after the crash is not replaced."""
    async with steered(never_sent) as cluster:
        await cluster.log.append([config_record(2)])
        trace = await cluster.cut_off(UNDO, "put-config", config_record(9))
    outcome = outcome_of(trace)
    assert (outcome["ended"], outcome["reason"]) == ("failed", "conflict")
    assert outcome["text"].startswith("Another client changed connector orders before its undo")


@pytest.mark.parametrize("records", [0, 2])
async def test_a_cut_off_undo_continues_after_its_own_records(records: int) -> None:
    """Planned records are no change by others, even if a request was repeated."""

    async def worker(_: httpx.Request) -> httpx.Response:
        await cluster.log.append([config_record(1)])
        return httpx.Response(200, json={})

    async with steered(worker) as cluster:
        await cluster.log.append([config_record(2)])
        trace = await cluster.cut_off(UNDO, "put-config", *[config_record(1)] * records)
        assert cluster.sent == ([] if records else [("PUT", "/connectors/orders/config")])
    assert outcome_of(trace)["ended"] == "done"


@pytest.mark.parametrize("removal", ["", "DELETE orders"])
async def test_a_cut_off_removal_is_completed_or_told(removal: str) -> None:
    """The trail says taken back only if the workers have removed the connector."""
    async with steered(refusing(removal)) as cluster:
        text = outcome_of(await cluster.cut_off(CREATION, TAKE_BACK, config_record()))["text"]
    was_taken_back = "The creation of connector orders failed, and was taken back"
    assert text == (
        f"The creation of connector orders failed. {REMAINS}" if removal else was_taken_back
    )


async def test_an_undo_that_no_worker_takes_is_not_done_later() -> None:
    """The caller learns that nothing was done, and the trail has the same end."""
    async with steered(gone) as cluster:
        await cluster.log.append([config_record(2)])
        async with cluster.plane() as plane:
            answer = await plane.carry_out(UNDO, principal="ada", key="k", profile=None)
            await until(lambda: not cluster.trail.commands["k"].unfinished)
    assert isinstance(answer, Rejected)
    assert answer.sentence.endswith("nothing has been done; try again once a worker runs")
    assert outcome_of(cluster.trail.commands["k"])["ended"] == "failed"


async def gone(_: httpx.Request) -> httpx.Response:
    """Fail as a worker that does not listen."""
    raise httpx.ConnectError("refused")


async def test_an_undo_that_workers_leave_half_way_is_done_later() -> None:
    """The caller of an undo whose first request was done is not told to try again."""
    replies: list[httpx.Response] = []

    async def worker(_: httpx.Request) -> httpx.Response:
        if not replies:
            raise httpx.ConnectError("refused")
        await cluster.log.append([config_record(1)])
        return replies.pop()

    undo = RestoreConnector("orders", CONFIG | {"tasks.max": "1"}, Target.PAUSED)
    async with steered(worker) as cluster:
        await cluster.log.append([config_record(2)])
        await cluster.follow_up.read_on()
        replies.append(httpx.Response(200, json={}))
        async with cluster.plane() as plane:
            answer = await plane.carry_out(undo, principal="ada", key="k", profile=None)
        assert cluster.trail.commands["k"].unfinished
    assert isinstance(answer, Rejected)
    assert "refused): some requests of this command were sent" in answer.sentence


async def test_a_reason_is_reported_once_per_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries of the same failure write no further line."""
    trail, notices = await cut_off_trail(), RecordedNotices()
    failures: list[Exception] = [*[LogNotUsable("away")] * 3, *[LogNotUsable("no right")] * 3]
    async with followed() as (follow_up, _):
        fail_first(monkeypatch, follow_up, failures)
        await end_all(trail, follow_up, notices)
    reasons = [facts["reason"] for facts in notices.of("command_not_ended")]
    assert reasons == ["no right", "away"]
