"""`--wait`: the awaited states, and the end of the wait."""

from typing import Any

import httpx
import pytest

from controlplane.client.connectors.wait import (
    IS_GONE,
    IS_PAUSED,
    IS_RUNNING,
    IS_STOPPED,
    ConnectorFailed,
    WaitGoal,
    goal_after_change,
    wait_for,
    wait_until_running,
    wait_until_stopped,
)
from controlplane.client.http.request_errors import WaitTimedOut
from tests.client.client_calls import FakeWorker


def reported(state: str, *tasks: str, configured: int | None = None) -> list[httpx.Response]:
    """Two answers: a connector, and its status."""
    number = len(tasks) if configured is None else configured
    info = {"name": "x", "config": {}, "tasks": [{"task": task} for task in range(number)]}
    states = [
        {"id": place, "state": task_state, "worker_id": "w"}
        for place, task_state in enumerate(tasks)
    ]
    status: dict[str, Any] = {"connector": {"state": state, "worker_id": "w"}, "tasks": states}
    return [httpx.Response(200, json=info), httpx.Response(200, json=status)]


MISSING = [httpx.Response(404, json={"error_code": 404, "message": "not found"})] * 2


@pytest.mark.parametrize(
    ("goal", "looks"),
    [
        (IS_RUNNING, reported("RUNNING", "RUNNING", "RUNNING")),
        (IS_PAUSED, reported("PAUSED", "PAUSED")),
        (IS_PAUSED, reported("PAUSED")),
        (IS_STOPPED, reported("STOPPED")),
        (IS_GONE, MISSING),
    ],
)
async def test_two_equal_looks_end_the_wait(goal: WaitGoal, looks: list[httpx.Response]) -> None:
    """The wait ends once two looks in a row show the awaited state; it sends no more requests."""
    worker = FakeWorker(*looks, *looks, httpx.Response(500))
    await wait_for(await worker.api(), "x", goal, 60)
    assert len(worker.requests) == 4


@pytest.mark.parametrize(
    ("goal", "looks"),
    [
        (IS_RUNNING, reported("RUNNING")),
        (IS_RUNNING, reported("RUNNING", "RUNNING", configured=2)),
        (IS_RUNNING, reported("RUNNING", "RESTARTING")),
        (IS_PAUSED, reported("PAUSED", "RUNNING")),
        (IS_STOPPED, reported("STOPPED", configured=1)),
        (IS_GONE, [MISSING[0], *reported("RUNNING")[1:]]),
    ],
)
async def test_the_time_out_is_reported(goal: WaitGoal, looks: list[httpx.Response]) -> None:
    """After the time-out the command says that the change has no effect yet."""
    with pytest.raises(
        WaitTimedOut, match="the change of x was accepted, but has no effect after 0 s"
    ):
        await wait_for(await FakeWorker(*looks).api(), "x", goal, 0)


async def test_a_state_reached_for_a_moment_does_not_count() -> None:
    """The first status after a restart may still show the old state."""
    looks = [
        reported("RUNNING", state) for state in ("RUNNING", "RESTARTING", "RUNNING", "RUNNING")
    ]
    worker = FakeWorker(*(answer for look in looks for answer in look), httpx.Response(500))
    await wait_for(await worker.api(), "x", IS_RUNNING, 60)
    assert len(worker.requests) == 8


async def test_waiting_ends_when_a_connector_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure ends the wait after a while: one from before a restart soon disappears."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    failing = [answer for _ in range(20) for answer in reported("RUNNING", "FAILED")]
    with pytest.raises(ConnectorFailed, match=r"x fails \(connector RUNNING, tasks: 1 FAILED\)"):
        await wait_for(await FakeWorker(*failing).api(), "x", IS_RUNNING, 60)


async def test_a_deleted_connector_may_fail_until_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last status of a deleted connector stays for a while."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    failing = [MISSING[0], reported("FAILED")[1]] * 20
    worker = FakeWorker(*failing, *MISSING * 2, httpx.Response(500))
    await wait_for(await worker.api(), "x", IS_GONE, 60)
    assert len(worker.requests) == 44


async def test_a_failed_task_may_be_reported_until_the_stop_has_taken_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other tasks may take their time to end; until then the status is the old one."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    failing = reported("RUNNING", "FAILED", "RUNNING") * 20
    worker = FakeWorker(*failing, *reported("STOPPED") * 2, httpx.Response(500))
    await wait_for(await worker.api(), "x", IS_STOPPED, 60)
    assert len(worker.requests) == 44


async def test_tasks_behind_our_service_end_before_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our service may steer Kafka's workers, whose tasks commit offsets as they end."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    running, ending = reported("RUNNING", "RUNNING"), reported("STOPPED", "RUNNING")
    answers = [running[1], *running * 5, *ending * 2, *ending * 5, *reported("STOPPED") * 2]
    worker = FakeWorker(*answers, httpx.Response(500), server="controlplane")
    await wait_until_stopped(await worker.api(), "x", 60)
    assert len(worker.requests) == len(answers)


async def test_the_report_of_a_worker_counts_for_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The goal needs one more poll if the second report fits it. No two polls lack a pause."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    running = reported("RUNNING", "RUNNING")
    worker = FakeWorker(running[1], *running * 3, httpx.Response(500), server="controlplane")
    await wait_until_running(await worker.api(), "x", 60)
    assert len(worker.requests) == 7


async def test_tasks_behind_our_service_are_awaited_beyond_the_first_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once a worker has reported the stop, the whole time limit holds; its end is an error."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    ending = reported("STOPPED", "RUNNING")
    worker = FakeWorker(ending[1], *ending * 3, server="controlplane")
    with pytest.raises(WaitTimedOut):
        await wait_until_stopped(await worker.api(), "x", -1)


async def test_a_copy_behind_our_service_is_awaited_until_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy that fails at its start is an error, so the original is not deleted."""
    monkeypatch.setattr("controlplane.client.connectors.wait.POLL_S", 0)
    stopped, starting = reported("STOPPED"), reported("RUNNING")
    running, failing = reported("RUNNING", "RUNNING"), reported("FAILED")
    answers = [stopped[1], *stopped * 3, *starting * 4, *running * 2]
    worker = FakeWorker(*answers, httpx.Response(500), server="controlplane")
    await wait_until_running(await worker.api(), "x", 60)
    assert len(worker.requests) == len(answers)
    worker = FakeWorker(stopped[1], *stopped * 3, *failing * 20, server="controlplane")
    with pytest.raises(ConnectorFailed, match="x fails"):
        await wait_until_running(await worker.api(), "x", 60)


@pytest.mark.parametrize("answers", [MISSING[:1], reported("RUNNING", "RUNNING")[::-1]])
async def test_our_service_without_workers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, answers: list[httpx.Response]
) -> None:
    """There may be no status, or one of an imported log that no worker replaces."""
    monkeypatch.setattr("controlplane.client.connectors.wait.REPORT_S", -1)
    looks = [*answers, *reported("RUNNING", "RUNNING")[1:]]
    for wait in (wait_until_stopped, wait_until_running):
        await wait(await FakeWorker(*looks, server="controlplane").api(), "x", 60)


async def test_without_wait_no_state_is_read() -> None:
    """Without `--wait` the command reads no status."""
    worker = FakeWorker(httpx.Response(500))
    await wait_for(await worker.api(), "x", IS_RUNNING, None)
    assert not worker.requests


@pytest.mark.parametrize(
    ("looks", "goal"),
    [
        (reported("RUNNING", "RUNNING"), IS_RUNNING),
        (reported("PAUSED", "PAUSED"), IS_PAUSED),
        (reported("STOPPED"), IS_STOPPED),
        (MISSING, IS_RUNNING),
    ],
)
async def test_a_change_waits_for_the_present_target_state(
    looks: list[httpx.Response], goal: WaitGoal
) -> None:
    """A restart or a patch of a paused connector waits until it is paused."""
    assert await goal_after_change(await FakeWorker(*looks).api(), "x", 60) is goal
    unasked = FakeWorker(httpx.Response(500))
    assert await goal_after_change(await unasked.api(), "x", None) is IS_RUNNING
    assert not unasked.requests
