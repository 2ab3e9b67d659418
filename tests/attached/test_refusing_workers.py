"""Commands of several requests while the workers refuse for longer than the service's patience."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from controlplane.attached.execution import AttachedAnswer
from controlplane.core.commands import AnyCommand, OffsetChange, RestoreConnector
from controlplane.core.plan import Reason, Rejected
from controlplane.core.records import Target
from controlplane.logs.log import Record
from controlplane.rest.errors import WorkerAnswer
from tests.attached.test_attached_plane import (
    CONFIG,
    CREATION,
    REMAINS,
    STARTED_RECORD,
    SteeredLog,
    config_record,
    outcome_of,
    steered,
)
from tests.attached.test_follow_up import TOPICS
from tests.outages import until

REBALANCE = "Cannot complete request momentarily due to stale configuration"
MESSAGES = {
    400: "unknown partition",
    404: "Connector orders not found",
    409: REBALANCE,
    500: "the store does not answer",
}

CONFIG_REQUEST = "PUT config"
RESUME = "PUT resume"
CREATION_STEPS = ("POST connectors", "DELETE offsets", "PATCH offsets", RESUME)
REMOVALS = ("PUT stop", "DELETE offsets", "DELETE orders")
UNDO = RestoreConnector(
    "orders",
    CONFIG | {"tasks.max": "1"},
    Target.STARTED,
    (OffsetChange({"filename": "f"}, {"position": 1}),),
)
UNDO_STEPS = ("PUT stop", CONFIG_REQUEST, "PATCH offsets", RESUME)


def target_record(state: str, older_state: str) -> Record:
    """Record of a target state; releases before 3.5 read `older_state`."""
    value = {"state": older_state, "state.v2": state}
    return Record(TOPICS.config, 0, 1, b"target-state-orders", json.dumps(value).encode())


STOPPED_RECORD = target_record("STOPPED", "PAUSED")
RECORDS = {
    "POST connectors": [STOPPED_RECORD, config_record()],
    "PUT stop": [STOPPED_RECORD],
    RESUME: [target_record("STARTED", "STARTED")],
    CONFIG_REQUEST: [config_record(1)],
    "DELETE orders": [Record(TOPICS.config, 0, 1, b"connector-orders", None)],
}
"""Records that the worker writes for a request."""


class RefusingWorker:
    """Attached cluster whose worker refuses requests with the status in `refusals`.

    A request is named by its method and the last part of its path.
    """

    cluster: SteeredLog

    def __init__(self, **refusals: int) -> None:
        self.refusals = refusals
        self.done: list[str] = []
        """Requests that the worker has carried out."""
        self.has_offsets = False

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Refuse a request, or carry it out."""
        word = f"{request.method} {request.url.path.rpartition('/')[2]}"
        status = self.refusals.get(word)
        if status is not None:
            return httpx.Response(status, json={"error_code": status, "message": MESSAGES[status]})
        if request.method == "GET":
            offset: dict[str, object] = {"partition": {}, "offset": {}}
            return httpx.Response(200, json={"offsets": [offset] * self.has_offsets})
        self.done.append(word)
        if word.endswith(" offsets"):
            self.has_offsets = request.method == "PATCH"
        await self.cluster.log.append(RECORDS.get(word, []))
        return httpx.Response(200, json={})


class SlowCommand(NamedTuple):
    """A command to a worker that refuses, its answer, and its outcome in the trail."""

    worker: RefusingWorker
    answer: AttachedAnswer
    outcome: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """Reason why the command was not done at once."""
        assert isinstance(self.answer, Rejected)
        return self.answer.sentence


async def sent(worker: RefusingWorker, command: AnyCommand, *, later: str = "") -> SlowCommand:
    """Send a command; end the refusal of the request `later` once the caller has its answer."""
    async with steered(worker) as cluster, cluster.plane() as plane:
        worker.cluster = cluster
        if isinstance(command, RestoreConnector):
            await cluster.log.append([config_record(2), STARTED_RECORD])
            await cluster.follow_up.read_on()
        answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
        if later:
            assert cluster.trail.commands["k"].unfinished
        worker.refusals.pop(later, None)
        await until(lambda: not cluster.trail.commands["k"].unfinished)
        return SlowCommand(worker, answer, outcome_of(cluster.trail.commands["k"]))


LATER = (
    f"No worker of http://w has taken the request (http://w: {REBALANCE}): some requests of this "
    "command were sent. The command is completed or taken back once the workers answer "
    "(see GET /commands)"
)


@pytest.mark.parametrize("step", CREATION_STEPS[1:])
async def test_a_creation_continues_after_a_long_rebalance(step: str) -> None:
    """The caller learns that it is completed later; the connector runs with its offsets."""
    worker = RefusingWorker(**{step: 409})
    worker.has_offsets = True  # those of an earlier connector
    result = await sent(worker, CREATION, later=step)
    assert result.sentence == LATER
    assert result.outcome["ended"] == "done"
    assert {*worker.done} == {*CREATION_STEPS}
    assert worker.done.count("POST connectors") == 1
    assert worker.done[-1] == RESUME


@pytest.mark.parametrize("step", UNDO_STEPS[1:])
async def test_an_undo_continues_after_a_long_rebalance(step: str) -> None:
    """The caller learns that it is completed later; no part is left out."""
    worker = RefusingWorker(**{step: 409})
    result = await sent(worker, UNDO, later=step)
    assert result.sentence == LATER
    assert result.outcome["ended"] == "done"
    assert list(dict.fromkeys(worker.done)) == [*UNDO_STEPS]


@pytest.mark.parametrize("removal", REMOVALS)
async def test_a_removal_continues_after_a_long_rebalance(removal: str) -> None:
    """A refused creation leaves nothing in the end, although its removal is refused for now."""
    worker = RefusingWorker(**{RESUME: 500, removal: 409})
    result = await sent(worker, CREATION, later=removal)
    assert result.sentence == LATER
    assert result.outcome["ended"] == "failed"
    assert result.outcome["text"] == "The creation of connector orders failed, and was taken back"
    assert worker.done[-1] == "DELETE orders"
    assert not worker.has_offsets


@pytest.mark.parametrize("removal", REMOVALS[1:])
async def test_a_removal_continues_once_the_worker_knows_the_connector(removal: str) -> None:
    """A worker that lags behind answers 404; the connector is in the log, and is removed later."""
    worker = RefusingWorker(**{RESUME: 500, removal: 404})
    result = await sent(worker, CREATION, later=removal)
    assert result.sentence.startswith(
        "A worker does not know connector orders, which the log of the cluster has: some requests "
    )
    assert result.outcome["text"] == "The creation of connector orders failed, and was taken back"
    assert worker.done[-1] == "DELETE orders"
    assert not worker.has_offsets


@pytest.mark.parametrize(("command", "first"), [(CREATION, "POST connectors"), (UNDO, "PUT stop")])
@pytest.mark.parametrize("status", [409, 500])
async def test_a_refused_first_request_does_nothing(
    command: AnyCommand, first: str, status: int
) -> None:
    """The caller gets the worker's answer."""
    worker = RefusingWorker(**{first: status})
    result = await sent(worker, command)
    assert isinstance(result.answer, WorkerAnswer)
    assert (result.answer.status, result.answer.message) == (status, MESSAGES[status])
    assert result.outcome["ended"] != "done"
    assert worker.done == []


@pytest.mark.parametrize("step", CREATION_STEPS[1:])
async def test_a_creation_that_a_worker_fails_is_taken_back(step: str) -> None:
    """A worker answers 500 for minutes: the caller learns the failed step, and nothing is left."""
    worker = RefusingWorker(**{step: 500})
    worker.has_offsets = step == "DELETE offsets"
    result = await sent(worker, CREATION)
    assert result.sentence.startswith("Failed to ")
    assert MESSAGES[500] in result.sentence
    assert result.outcome["ended"] == "failed"
    assert worker.done[-1] == "DELETE orders"


@pytest.mark.parametrize("removal", ["DELETE offsets", "DELETE orders"])
async def test_a_removal_that_a_worker_fails_is_told(removal: str) -> None:
    """A worker answers 500 to the removal, too: the caller learns what is left."""
    result = await sent(RefusingWorker(**{RESUME: 500, removal: 500}), CREATION)
    assert result.sentence == (
        f"Failed to set the state of connector orders: {MESSAGES[500]}. "
        f"{REMAINS.replace('no right', MESSAGES[500])}"
    )
    assert result.outcome["ended"] == "failed"


@pytest.mark.parametrize("step", UNDO_STEPS[1:])
@pytest.mark.parametrize("status", [400, 500])
async def test_an_undo_that_a_worker_fails_is_incomplete(step: str, status: int) -> None:
    """The caller learns that a part was done."""
    worker = RefusingWorker(**{step: status})
    result = await sent(worker, UNDO)
    assert result.sentence == (
        "The undo of connector orders is incomplete: workers did a part of it, and refused the "
        f"next request ({MESSAGES[status]}). Check the connector, and undo again"
    )
    assert isinstance(result.answer, Rejected)
    assert result.answer.reason is (Reason.INVALID if status == 400 else Reason.FAILED)
    assert result.outcome["ended"] == "failed"
    assert worker.done == [*UNDO_STEPS[: UNDO_STEPS.index(step)]]
