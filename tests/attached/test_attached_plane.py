"""Answers of an attached plane whose worker refuses, redirects, stays silent or was cut off."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import msgspec
import pytest

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import CHECK, AttachedSurroundings
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.planner import ClusterPlanner
from controlplane.attached.settings import ConnectSettings
from controlplane.controller.admission import TooMany
from controlplane.controller.external import ExternalActionFailed
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PatchConfig,
    PauseConnector,
    PutConfig,
    RestoreConnector,
)
from controlplane.core.context import Context
from controlplane.core.plan import Outcome, Plan, Reason, Rejected
from controlplane.core.records import CommandTrace, Target
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Fenced, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.plugins import catalogued
from controlplane.rest.errors import WorkerAnswer
from tests.attached.test_follow_up import ORIGIN, PROFILE, TOPICS, QuickLog, followed
from tests.outages import until
from tests.worker.worker_fixture import RecordedNotices

LIMITS = ConnectSettings(patience_ms=40, retry_ms=1, records_ms=1)
CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "name": "orders",
    "file": "f",
    "topic": "t",
}
CREATION = CreateConnector(
    "orders", CONFIG, None, (OffsetChange({"filename": "f"}, {"position": 1}),)
)

PAUSE = PauseConnector("orders")

AnswerRequest = Callable[[httpx.Request], Awaitable[httpx.Response]]


def config_record(tasks_max: int | None = None) -> Record:
    """Record of the connector's config."""
    properties = CONFIG if tasks_max is None else CONFIG | {"tasks.max": str(tasks_max)}
    value = json.dumps({"properties": properties}).encode()
    return Record(TOPICS.config, 0, 1, b"connector-orders", value)


STARTED_RECORD = Record(TOPICS.config, 0, 1, b"target-state-orders", b'{"state":"STARTED"}')
"""Record of a target state: the connector is to run."""


class SteeredLog(NamedTuple):
    """Parts of an attached cluster with one fake worker."""

    log: QuickLog
    follow_up: LogFollowUp
    trail: Trail
    planner: ClusterPlanner
    client: ConnectClient
    sent: list[tuple[str, str]]
    """Method and path of each request that the worker got, except for validations."""

    @asynccontextmanager
    async def plane(self) -> AsyncIterator[AttachedPlane]:
        """Plane of the cluster; it begins to end the commands of the trail."""
        around = AttachedSurroundings(RecordedNotices(), limits=LIMITS)
        parts = (self.client, self.planner, self.follow_up, self.trail, around)
        async with AttachedPlane.open(*parts) as plane:
            yield plane

    async def cut_off(self, command: AnyCommand, step: str, *later: Record) -> CommandTrace:
        """End a command that was cut off at a step, before these records; return its trace."""
        await self.follow_up.read_on()
        plan = await self.planner.plan(self.follow_up.present, command)
        request = CommandRequest(command=command, command_id="k", at_ms=1, keyed=True)
        await self.trail.accepted(request, plan, self.follow_up.ends, step)
        await self.log.append(later)
        async with self.plane():
            await until(lambda: not self.trail.commands["k"].unfinished)
        assert isinstance(plan, Plan)
        return self.trail.commands["k"]


@asynccontextmanager
async def steered(
    worker: AnswerRequest, *errors: str, profile: Profile = PROFILE
) -> AsyncIterator[SteeredLog]:
    """Attached cluster of a release with a worker that finds these errors in each config."""
    sent: list[tuple[str, str]] = []

    async def recorded(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/config/validate"):
            return httpx.Response(200, json={"configs": [{"value": {"errors": errors}}]})
        sent.append((request.method, request.url.path))
        return await worker(request)

    transport = httpx.MockTransport(recorded)
    workers = {"http://w": httpx.AsyncClient(base_url="http://w", transport=transport)}
    client = ConnectClient(workers, LIMITS)
    identity = ClusterIdentity(None, TOPICS.config)
    trail = await Trail.open(MemoryLog(), TOPICS.commands, identity, 0)
    planner = ClusterPlanner(
        Context(profile=profile, plugins=catalogued(trusting=True)), client, ORIGIN
    )
    async with followed(profile) as (follow_up, log):
        yield SteeredLog(log, follow_up, trail, planner, client, sent)


async def never_sent(_: httpx.Request) -> httpx.Response:
    """Fail: no request may reach the worker."""
    raise AssertionError


def outcome_of(trace: CommandTrace) -> Mapping[str, Any]:
    """Outcome of an ended command, as the trail has it."""
    assert trace.finished is not None
    return trace.finished.outcome


@pytest.mark.parametrize("tasks_max", [5, 2])
async def test_only_the_planned_value_proves_an_unanswered_request(tasks_max: int) -> None:
    """The caller gets no success for a config that another client has written."""

    async def silent(_: httpx.Request) -> httpx.Response:
        await cluster.log.append([config_record(tasks_max)])
        raise httpx.ReadError("gone")

    async with steered(silent) as cluster:
        await cluster.log.append([config_record(1)])
        await cluster.follow_up.read_on()
        async with cluster.plane() as plane:
            command = PutConfig("orders", CONFIG | {"tasks.max": "5"})
            answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
    if tasks_max == 5:
        assert isinstance(answer, Outcome)
    else:
        assert isinstance(answer, Rejected)
        assert answer.sentence.endswith(CHECK)


async def accept(_: httpx.Request) -> httpx.Response:
    """Answer of a worker that has done what was requested."""
    return httpx.Response(202)


async def test_the_id_of_an_unkeyed_command_is_no_key() -> None:
    """The command does not run again under the id that the trail has shown."""
    async with steered(accept) as cluster, cluster.plane() as plane:
        await plane.carry_out(PAUSE, principal="ada", key=None, profile=None)
        await until(lambda: all(not each.unfinished for each in cluster.trail.commands.values()))
        (command_id,) = cluster.trail.commands
        answer = await plane.carry_out(PAUSE, principal="eve", key=command_id, profile=None)
        assert isinstance(answer, Rejected)
        assert answer.reason is Reason.CONFLICT
        assert len(cluster.sent) == 1


def refusing(*refused: str) -> AnswerRequest:
    """Worker that refuses some requests, each named by its method and last part of its path."""

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"offsets": [{"partition": {}, "offset": {}}]})
        if f"{request.method} {request.url.path.rpartition('/')[2]}" in refused:
            return httpx.Response(403, json={"error_code": 403, "message": "no right"})
        return httpx.Response(204)

    return answer


ALTERED = "The offsets for this connector have been altered successfully"
MAYBE_ALTERED = (
    "The Connect framework-managed offsets for this connector have been altered successfully. "
    "However, if this connector manages offsets externally, they will need to be manually altered "
    "in the system that the connector uses."
)
SET = "The offsets for this connector have been set successfully"
MAYBE_SET = (
    "The framework-managed offsets for this connector have been set successfully. However, if this "
    "connector manages offsets externally, they will need to be manually set in the system that "
    "the connector uses."
)


@pytest.mark.parametrize(
    ("altered", "answered"),
    [(ALTERED, SET), (MAYBE_ALTERED, MAYBE_SET)],
    ids=["definite", "indefinite"],
)
async def test_a_creation_has_the_message_of_kip_995(altered: str, answered: str) -> None:
    """The worker's message says whether the connector has confirmed the change (KIP-875)."""

    async def worker(_: httpx.Request) -> httpx.Response:
        body: dict[str, object] = {"message": altered, "offsets": []}
        return httpx.Response(200, json=body)

    async with steered(worker) as cluster, cluster.plane() as plane:
        answer = await plane.carry_out(CREATION, principal="ada", key=None, profile=None)
    assert isinstance(answer, Outcome)
    assert answer.facts == {"initial_offsets_response": answered}


REMAINS = (
    "The removal of connector orders and its offsets failed, too (no right): "
    "remove what is left of them"
)


@pytest.mark.parametrize(
    ("removal", "text"),
    [
        ("DELETE orders", f"Failed to set the initial offsets of {{}}. {REMAINS}"),
        ("DELETE offsets", f"Failed to wipe the existing offsets of {{}}. {REMAINS}"),
        ("PUT stop", "Failed to set the initial offsets of {}"),
    ],
)
async def test_a_refused_removal_of_a_creation_is_told(removal: str, text: str) -> None:
    """The caller learns that the connector or its offsets are left; a refused stop leaves none."""
    async with steered(refusing("PATCH offsets", removal)) as cluster, cluster.plane() as plane:
        answer = await plane.carry_out(CREATION, principal="ada", key=None, profile=None)
    assert isinstance(answer, Rejected)
    assert answer.text == text.format("connector orders: no right")
    assert cluster.sent[-1] == ("DELETE", "/connectors/orders")


async def test_an_end_is_recorded_once_the_trail_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A repeated key gets the answer while the end waits, and after it is recorded."""
    async with steered(accept) as cluster, cluster.plane() as plane:
        failures = [LogUnavailable("full")] * 3
        writable = cluster.trail.finished

        async def finished(*record: Any) -> None:
            if failures:
                raise failures.pop()
            await writable(*record)

        monkeypatch.setattr(cluster.trail, "finished", finished)
        for _ in range(3):
            answer = await plane.carry_out(PAUSE, principal="ada", key="k", profile=None)
            assert isinstance(answer, WorkerAnswer)
        await until(lambda: not cluster.trail.commands["k"].unfinished)
        answer = await plane.carry_out(PAUSE, principal="ada", key="k", profile=None)
        assert isinstance(answer, WorkerAnswer)
        assert len(cluster.sent) == 1


async def test_a_closing_plane_does_not_wait_for_the_trail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next process ends a command whose end cannot be recorded."""
    async with steered(accept) as cluster:

        async def finished(*_: Any) -> None:
            raise LogUnavailable("full")

        monkeypatch.setattr(cluster.trail, "finished", finished)
        async with cluster.plane() as plane:
            await plane.carry_out(PAUSE, principal="ada", key="k", profile=None)
        assert cluster.trail.commands["k"].unfinished


async def test_a_refused_command_is_not_cut_off() -> None:
    """A command that finds no room has not begun, so the log has no warning about it."""
    around = AttachedSurroundings(RecordedNotices(), limits=LIMITS, commands_waiting=0)
    async with steered(never_sent) as cluster:
        parts = (cluster.client, cluster.planner, cluster.follow_up, cluster.trail, around)
        async with AttachedPlane.open(*parts) as plane:
            with pytest.raises(TooMany):
                await plane.carry_out(PAUSE, principal="ada", key="k", profile=None)
    assert cast("RecordedNotices", around.notices).warnings == []


@pytest.mark.parametrize("status", [200, 401, 500, 502])
async def test_only_a_success_is_health(status: int) -> None:
    """A worker that refuses `GET /` can take no command."""

    async def worker(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"message": "no"})

    async with steered(worker) as cluster, cluster.plane() as plane:
        trouble = await plane.trouble()
    expected = f"A worker of http://w answers GET / with status {status}"
    assert (trouble and str(trouble)) == (None if status == 200 else expected)


async def test_a_trail_that_cannot_be_written_is_no_health(tmp_path: Path) -> None:
    """Every command would be refused, although the worker answers."""
    identity = ClusterIdentity(None, TOPICS.config)
    log = await SqliteLog.open(tmp_path / "trail.db")
    trail = await Trail.open(log, TOPICS.commands, identity, 0)
    async with steered(accept) as cluster, cluster._replace(trail=trail).plane() as plane:
        assert await plane.trouble() is None
        await log.claim()
        assert isinstance(await plane.trouble(), Fenced)
    await log.close()


@pytest.mark.parametrize("status", [304, 307])
async def test_an_unfollowed_redirect_is_no_success(status: int) -> None:
    """The caller gets the answer as it is; the trail says that the command failed."""

    async def worker(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"location": str(request.url)})

    async with steered(worker) as cluster, cluster.plane() as plane:
        answer = await plane.carry_out(PAUSE, principal="ada", key="k", profile=None)
        await until(lambda: not cluster.trail.commands["k"].unfinished)
        assert isinstance(answer, WorkerAnswer)
        assert answer.status == status
        assert outcome_of(cluster.trail.commands["k"])["ended"] == "failed"


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"offsets": null}',
        b'{"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}',
        b"[" * 100_000,
    ],
    ids=["list", "null", "source", "deep"],
)
async def test_offsets_of_another_form_are_an_error(body: bytes) -> None:
    """The caller gets a sentence about the worker's answer."""

    async def worker(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body)

    async with steered(worker) as cluster, cluster.plane() as plane:
        with pytest.raises(ExternalActionFailed, match="list of offsets has an unknown form"):
            await plane.group_offsets("orders")


@pytest.mark.parametrize("body", [b"{}", b'{"configs": [{}]}', b"hello"])
async def test_a_validation_of_another_form_refuses_the_plan(body: bytes) -> None:
    """A dry run is refused with a sentence about the worker's answer."""
    reply = httpx.Response(200, content=body)
    transport = httpx.MockTransport(lambda _: reply)
    workers = {"http://w": httpx.AsyncClient(base_url="http://w", transport=transport)}
    context = Context(profile=PROFILE, plugins=catalogued(trusting=True))
    refused = await ClusterPlanner(context, ConnectClient(workers, LIMITS), ORIGIN).validated(
        CREATION
    )
    assert refused is not None
    assert refused.sentence.startswith("A worker's validation has an unknown form")


UNSENDABLE = ["a\ud800", "a" * 70_000]
"""Names that no URL can hold."""


@pytest.mark.parametrize("name", UNSENDABLE, ids=["surrogate", "long"])
async def test_a_name_that_no_url_can_hold_is_refused(name: str) -> None:
    """No request is sent: a creation could not be completed, or be taken back."""
    creation = msgspec.structs.replace(CREATION, connector=name, config=CONFIG | {"name": name})
    async with steered(never_sent) as cluster, cluster.plane() as plane:
        for command in (creation, DeleteConnector(name)):
            answer = await plane.carry_out(command, principal="ada", key=None, profile=None)
            assert isinstance(answer, Rejected)
            assert answer.reason is Reason.INVALID
            assert "cannot be part of a worker's URL" in answer.sentence
        assert not any(trace.unfinished for trace in cluster.trail.commands.values())


@pytest.mark.parametrize("name", UNSENDABLE, ids=["surrogate", "long"])
async def test_a_class_that_no_url_can_hold_is_refused(name: str) -> None:
    """A dry run cannot ask the workers about such a class."""
    command = PutConfig("orders", CONFIG | {"connector.class": name})
    async with steered(never_sent) as cluster, cluster.plane() as plane:
        answer = await plane.plan(command, profile=None, believe_hooks=False)
    assert isinstance(answer, Rejected)
    assert "cannot be part of a worker's URL" in answer.sentence


@pytest.mark.parametrize(
    "command",
    [
        PatchConfig("orders", {"tasks.max": "5"}),
        RestoreConnector("orders", CONFIG | {"tasks.max": "5"}, Target.STOPPED),
    ],
)
async def test_a_plan_has_no_config_that_the_workers_refuse(command: AnyCommand) -> None:
    """An undo would otherwise stop half way: the connector stopped, its config as before."""
    async with steered(never_sent, "tasks.max: too many") as cluster:
        await cluster.log.append([config_record(1), STARTED_RECORD])
        async with cluster.plane() as plane:
            planned = await plane.plan(command, profile=None, believe_hooks=False)
            assert isinstance(planned, Rejected)
            assert "tasks.max: too many" in planned.sentence
            if isinstance(command, RestoreConnector):
                await cluster.follow_up.read_on()
                answer = await plane.carry_out(command, principal="ada", key=None, profile=None)
                assert answer == planned


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, Reason.INVALID), (409, Reason.CONFLICT), (500, Reason.FAILED), (503, Reason.FAILED)],
)
async def test_a_failed_validation_is_no_invalid_config(status: int, reason: Reason) -> None:
    """A worker may be rebalancing, or lack the class: then the client may try again."""

    async def worker(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"message": "not now"})

    transport = httpx.MockTransport(worker)
    async with httpx.AsyncClient(base_url="http://w", transport=transport) as http:
        client = ConnectClient({"http://w": http}, LIMITS)
        planner = ClusterPlanner(Context(profile=PROFILE, plugins=catalogued()), client, ORIGIN)
        refused = await planner.validated(PutConfig("orders", CONFIG))
    assert refused is not None
    assert refused.reason is reason


async def test_an_undo_without_a_config_is_not_validated() -> None:
    """Workers may refuse the present config, as long as the undo does not write it."""
    command = RestoreConnector("orders", CONFIG | {"tasks.max": "1"}, Target.STOPPED)
    async with steered(accept, "no database answers") as cluster:
        await cluster.log.append([config_record(1), STARTED_RECORD])
        async with cluster.plane() as plane:
            planned = await plane.plan(command, profile=None, believe_hooks=False)
    assert isinstance(planned, Plan)
