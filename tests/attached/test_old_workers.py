"""Commands that the release of the attached workers lacks."""

import httpx
import msgspec
import pytest

from controlplane.core.commands import AlterOffsets, CreateConnector, RestoreConnector
from controlplane.core.plan import Plan, Reason, Rejected
from controlplane.core.records import Target
from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import WorkerAnswer
from tests.attached.test_attached_plane import (
    CONFIG,
    CREATION,
    STARTED_RECORD,
    config_record,
    never_sent,
    outcome_of,
    refusing,
    steered,
)
from tests.attached.test_follow_up import ORIGIN
from tests.outages import until

STOPPED = CreateConnector("orders", CONFIG, Target.STOPPED)
STOPPED_WITH_OFFSETS = msgspec.structs.replace(CREATION, initial_state=Target.STOPPED)

INITIAL_STATE = "initial_state needs workers of Connect 3.7 or later"
INITIAL_OFFSETS = "initial_offsets needs workers of Connect 3.7 or later"
COMMANDS = [
    pytest.param(STOPPED, INITIAL_STATE, id="state"),
    pytest.param(CREATION, INITIAL_OFFSETS, id="offsets"),
    pytest.param(STOPPED_WITH_OFFSETS, INITIAL_OFFSETS, id="both"),
]


@pytest.mark.parametrize("release", ["3.4.1", "3.5.2", "3.6.2"])
@pytest.mark.parametrize(("command", "sentence"), COMMANDS)
async def test_older_workers_get_no_such_creation(
    command: CreateConnector, sentence: str, release: str
) -> None:
    """The refusal names the field, both releases and a remedy; a dry run has the same one."""
    async with (
        steered(never_sent, profile=Profile.of(release)) as cluster,
        cluster.plane() as plane,
    ):
        answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
        planned = await plane.plan(command, profile=None, believe_hooks=False)
        trace = cluster.trail.commands["k"]
    assert answer == planned == cluster.planner.lacking(command)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.INVALID
    assert answer.sentence.startswith(
        f"{sentence}, and this service plans as {release}, {ORIGIN}: "
    )
    assert trace.refused is not None


@pytest.mark.parametrize(("command", "sentence"), COMMANDS)
async def test_workers_of_3_7_get_such_a_creation(command: CreateConnector, sentence: str) -> None:
    """The oldest release that is not refused."""
    del sentence
    async with (
        steered(refusing(), profile=Profile.of("3.7.0")) as cluster,
        cluster.plane() as plane,
    ):
        assert isinstance(await plane.plan(command, profile=None, believe_hooks=False), Plan)
        answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
        assert not isinstance(answer, Rejected)
    assert cluster.sent[0] == ("POST", "/connectors")


async def lacking_path(_: httpx.Request) -> httpx.Response:
    """Answer of a worker whose release lacks the path."""
    return httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})


@pytest.mark.parametrize("release", ["3.4.1", "3.5.2"])
async def test_offsets_of_older_workers_stay(release: str) -> None:
    """The caller gets the worker's refusal; Connect has the request from 3.6 on."""
    command = AlterOffsets("orders", CREATION.initial_offsets or ())
    stopped = b'{"state":"PAUSED","state.v2":"STOPPED"}'
    async with steered(lacking_path, profile=Profile.of(release)) as cluster:
        await cluster.log.append(
            [config_record(), msgspec.structs.replace(STARTED_RECORD, value=stopped)]
        )
        async with cluster.plane() as plane:
            planned = await plane.plan(command, profile=None, believe_hooks=False)
            answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
            await until(lambda: not cluster.trail.commands["k"].unfinished)
        outcome = outcome_of(cluster.trail.commands["k"])
    assert isinstance(planned, Rejected)
    assert planned.reason is Reason.NOT_OFFERED
    assert isinstance(answer, WorkerAnswer)
    assert answer.is_missing
    assert outcome["ended"] != "done"


@pytest.mark.parametrize("release", ["3.4.1", "3.5.2"])
async def test_an_undo_of_offsets_is_refused_before_its_first_request(release: str) -> None:
    """Older workers could not do its last part, so nothing is changed."""
    command = RestoreConnector(
        "orders", CONFIG | {"tasks.max": "1"}, Target.STARTED, CREATION.initial_offsets
    )
    async with steered(never_sent, profile=Profile.of(release)) as cluster:
        await cluster.log.append([config_record(2), STARTED_RECORD])
        await cluster.follow_up.read_on()
        async with cluster.plane() as plane:
            answer = await plane.carry_out(command, principal="ada", key="k", profile=None)
    assert isinstance(answer, Rejected)
    assert answer.reason is Reason.INVALID
    assert answer.sentence == (
        "An undo of offsets needs workers of Connect 3.6 or later, and this service plans as "
        f"{release}, {ORIGIN}: undo without offsets=true"
    )
