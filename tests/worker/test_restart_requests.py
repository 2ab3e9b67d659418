"""Requests for restarts of a connector that wait for the actor of the connector (KIP-745)."""

import asyncio
from itertools import product

import pytest

from controlplane.core.records import RestartRequest, Target
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import SHORT, BadSource, create_bad, plan
from tests.worker.noted_reports import reports
from tests.worker.worker_fixture import RecordedNotices, running, until_state

FAILED_CONNECTOR = RestartRequest("bad", include_tasks=False, only_failed=True)
FAILED_INSTANCES = RestartRequest("bad", include_tasks=True, only_failed=True)
CONNECTOR = RestartRequest("bad", include_tasks=False, only_failed=False)
ALL_INSTANCES = RestartRequest("bad", include_tasks=True, only_failed=False)

BY_IMPACT = [FAILED_CONNECTOR, FAILED_INSTANCES, CONNECTOR, ALL_INSTANCES]

RESTARTED = {
    FAILED_CONNECTOR: [],
    FAILED_INSTANCES: ["task 0"],
    CONNECTOR: ["connector"],
    ALL_INSTANCES: ["connector", "task 0"],
}
"""Instances that a request restarts, if the connector is RUNNING and its task FAILED."""


def test_requests_are_ranked_as_in_kafka() -> None:
    """All instances rank above failed ones. Otherwise, the request with tasks ranks higher."""
    assert [request.impact for request in BY_IMPACT] == [0, 1, 2, 3]


PENDING = [*product(BY_IMPACT, repeat=2), BY_IMPACT, BY_IMPACT[::-1]]


@pytest.mark.usefixtures("noted_reports")
@pytest.mark.parametrize(
    "requests", PENDING, ids=["".join(str(each.impact) for each in pending) for pending in PENDING]
)
async def test_the_pending_request_of_highest_impact_is_carried_out(
    requests: list[RestartRequest],
) -> None:
    """Only the request of the highest impact is carried out, in whatever order they come."""
    plan.update(where="task.poll", how="raise")
    async with running(BadSource, runtime=SHORT) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        actor = worker._actors["bad"]
        for request in requests:
            actor.request(request)
        await actor.restart(())  # follows the pending request
        restarted = [instance for instance, report in reports if report == "RESTARTING put"]
        assert restarted == RESTARTED[max(requests, key=BY_IMPACT.index)]


async def test_a_restart_follows_a_change_that_cannot_be_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A defect while the assignment is applied is reported; the waiting restart is carried out."""

    def refuse(**_: bool) -> None:
        raise RuntimeError("the tasks cannot be paused")

    notices = RecordedNotices()
    async with running(BadSource, runtime=SHORT, notices=notices) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        actor = worker._actors["bad"]
        assignment = actor._assigned
        assert assignment is not None
        monkeypatch.setattr(actor._tasks, "go", refuse)
        actor.assign(assignment._replace(target=Target.PAUSED))
        async with asyncio.timeout(PATIENCE_S):
            await actor.restart((None,))
        (notice,) = notices.of("connector_not_run")
        assert notice["reason"] == "RuntimeError('the tasks cannot be paused')"
