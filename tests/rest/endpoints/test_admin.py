"""Endpoints about the worker: health, loggers and their levels, plugins (KIP-495, KIP-1017)."""

import asyncio
import io
import logging

import httpx
import pytest

from controlplane import commands, logger_levels
from controlplane.controller import CommandLimits, TimedOut
from controlplane.core.commands import CommandRequest
from controlplane.core.decide import topics
from controlplane.core.plan import Step
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import LEVELS, LOGGER, Loggers, separate_hierarchy
from controlplane.logs.log import LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.observe import logger
from controlplane.plane import ControlPlane, Settings, Surroundings
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.rest import worker_endpoints
from controlplane.rest.app import App
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.worker_endpoints import health
from tests.controller.scene import NOW_MS
from tests.outages import FarAway, GatedLog, until
from tests.patience import PATIENCE_S
from tests.rest.plane import orders_plane
from tests.rest.served_history import client_of, following, served, service_of

RELEASES = ("2.8.2", "3.9.1", "4.3.0", "kip")


# --- health -------------------------------------------------------------------------------------


def test_a_worker_is_healthy_starting_or_unhealthy() -> None:
    """KIP-1017 defines status and sentence; the current trouble follows the sentence."""
    assert health(started=True)[:2] == (
        200,
        {
            "status": "healthy",
            "message": "Worker has completed startup and is ready to handle requests.",
        },
    )
    assert health(started=False)[:2] == (
        503,
        {"status": "starting", "message": "Worker is still starting up."},
    )
    assert health(started=True, trouble="The log is gone.")[:2] == (
        500,
        {
            "status": "unhealthy",
            "message": "Worker was unable to handle this request and may be unable to handle other "
            "requests. The log is gone.",
        },
    )


async def test_health_depends_on_the_log() -> None:
    """`/health`: starting until the log has been read; unhealthy while the log is unavailable."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    cable = FarAway(log)
    limits = FollowerLimits(interruption_poll_ms=5)
    follower = Follower(cable, limits=limits)
    async with (
        follower,
        client_of(App(service_of(follower, "3.9"))) as client,
    ):
        cable.cut.set()
        starting = await client.get("/health")
        cable.cut.clear()
        await until(lambda: follower.failure is None)
        healthy = await client.get("/health")
        cable.interruption = LogUnavailable("the leader is gone")
        await until(lambda: follower.failure is not None)
        unhealthy = await client.get("/health")
    await log.close()
    assert [starting.status_code, healthy.status_code, unhealthy.status_code] == [503, 200, 500]
    assert starting.json()["message"].endswith(" the cable is cut: mend it")
    assert unhealthy.json()["message"].endswith(" the leader is gone")


async def test_health_requests_share_one_read_of_a_slow_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several health requests start one read of a slow log, and one task, not one each."""
    monkeypatch.setattr(worker_endpoints, "HEALTH_S", 0.05)
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    gated = GatedLog(log)
    follower = Follower(gated, live=False)
    async with (
        follower,
        client_of(App(service_of(follower, "3.9"))) as client,
    ):
        gated.may_be_read.clear()
        gated.begun, tasks = 0, len(asyncio.all_tasks())
        for _ in range(3):
            starting = await client.get("/health")
            assert (starting.status_code, starting.json()["status"]) == (503, "starting")
        assert gated.begun == 1
        assert len(asyncio.all_tasks()) == tasks + 1
        assert (await client.get("/")).json()["version"] == "3.9.2"
        monkeypatch.setattr(worker_endpoints, "HEALTH_S", PATIENCE_S)
        gated.may_be_read.set()
        assert (await client.get("/health")).json()["status"] == "healthy"
    await log.close()


async def test_the_root_document_needs_no_log() -> None:
    """The root document is served without a log, in every dialect, with a notice."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    cable = FarAway(log)
    follower = Follower(cable, limits=FollowerLimits(interruption_poll_ms=5))
    async with (
        follower,
        client_of(App(service_of(follower, "3.9"))) as client,
    ):
        cable.cut.set()
        cable.interruption = LogUnavailable("the cable is cut")
        await until(lambda: follower.failure is not None)
        for path, version in (
            ("/", "3.9.2"),
            ("/compat/3.4/", "3.4.1"),
            ("/?profile=4.3", "4.3.0"),
        ):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["version"]) == (200, version)
            assert "the log is not followed at present" in answer.headers["x-controlplane-notice"]
        assert (await client.get("/connectors")).status_code == 503
        assert (await client.get("/?as_of=config@0")).status_code == 503
    await log.close()


# --- loggers ------------------------------------------------------------------------------------


def levels(loggers: Loggers, release: str) -> dict[str, str]:
    """The levels that are listed, by logger."""
    listed = loggers.levels(Profile.of(release))
    return {name: shown["level"] for name, shown in listed.items()}


@pytest.mark.parametrize("release", RELEASES)
def test_every_level_can_be_set_and_is_shown(release: str) -> None:
    """The Python logger gets the requested level; the answer has Log4j's name for it."""
    loggers, profile = Loggers(lambda: 0, separate_hierarchy()), Profile.of(release)
    for level, number in LEVELS.items():
        assert loggers.change("some.logger", level, profile) == ["some.logger"]
        assert loggers.named("some.logger").level == number
        assert loggers.level("some.logger", profile)["level"] == level


def test_levels_are_those_that_commands_know() -> None:
    """A worker offers every level that a command can set."""
    assert LEVELS.keys() == topics.LEVELS
    assert list(LEVELS.values()) == sorted(LEVELS.values())


def test_other_python_levels_are_shown_as_log4j_levels() -> None:
    """A Python level between two Log4j levels is shown as the higher one; none exceeds OFF."""
    loggers, profile = Loggers(lambda: 0, separate_hierarchy()), Profile.of("3.9.1")
    for number, shown in ((0, "INFO"), (2, "TRACE"), (11, "INFO"), (51, "OFF"), (2**40, "OFF")):
        loggers.named("some").setLevel(number)
        assert loggers.level("some", profile)["level"] == shown


def test_a_logger_is_listed_once_it_is_used() -> None:
    """A logger that only has children is not listed; names are those of Python's loggers."""
    loggers = Loggers(lambda: 0, separate_hierarchy(logging.WARNING))
    library = loggers.named("library.part")
    assert levels(loggers, "3.9.1") == {"root": "WARN"}
    assert levels(loggers, "4.3.0") == {"library.part": "WARN", "root": "WARN"}
    assert not library.isEnabledFor(logging.DEBUG)
    loggers.change("library", "DEBUG", Profile.of("4.3.0"))
    assert library.isEnabledFor(logging.DEBUG)
    assert levels(loggers, "3.9.1") == {"library": "DEBUG", "root": "WARN"}


@pytest.mark.parametrize("release", RELEASES)
def test_the_root_logger_ignores_case(release: str) -> None:
    """The root logger's name ignores case; a name that only begins like it means another logger."""
    loggers, profile = Loggers(lambda: 0, separate_hierarchy()), Profile.of(release)
    assert loggers.change("ro", "DEBUG", profile) == ["ro"]
    assert loggers.level("Root", profile)["level"] == "INFO"
    assert loggers.change("ROOT", "ERROR", profile) == ["ro", "root"]
    assert loggers.level("ro", profile)["level"] == "ERROR"


def test_log_lines_follow_the_levels() -> None:
    """The level of our own logger or of one of its parents applies."""
    stream, loggers = io.StringIO(), Loggers(lambda: 0, separate_hierarchy())
    tell = logger(stream, loggers.named(LOGGER))
    profile = Profile.of("kip")
    for level in ("WARN", "ERROR", "INFO"):
        loggers.change("root", level, profile)
        tell.info(f"info-{level}")
        tell.warning(f"warning-{level}")
    events = [line.partition("event=")[2] for line in stream.getvalue().splitlines()]
    assert events == ["warning-WARN", "info-INFO", "warning-INFO"]


async def put_level(client: httpx.AsyncClient, target: str, level: str) -> httpx.Response:
    """Send the request for a logger level."""
    return await client.put(f"/admin/loggers/{target}", json={"level": level})


async def test_a_level_for_the_cluster_is_one_for_this_worker_too() -> None:
    """A level for the cluster changes this worker too; an unknown one changes nothing (KIP-976)."""
    async with orders_plane(settings=Settings(profile="3.9.1")) as (plane, client):
        assert (await put_level(client, "lab?scope=cluster", "debug")).status_code == 204
        shown = await client.get("/admin/loggers/lab")
        assert shown.json() == {"level": "DEBUG", "last_modified": NOW_MS}
        await plane.execute(commands.SetLoggerLevel("lab.quiet", "OFF"))
        shown = await client.get("/admin/loggers/lab.quiet")
        assert shown.json() == {"level": "OFF", "last_modified": NOW_MS}
        assert (await put_level(client, "lab?scope=cluster", "loud")).status_code == 404
        assert (await client.get("/admin/loggers/lab")).json()["level"] == "DEBUG"


@pytest.mark.parametrize("ends_by", ["cancelled", "timed out"])
async def test_a_level_is_set_after_the_caller_has_left(ends_by: str) -> None:
    """A command that has begun also sets the level in this process, at its end."""
    has_begun, may_end, loggers = asyncio.Event(), asyncio.Event(), Loggers(lambda: 0)

    async def stepped(_request: CommandRequest, _step: Step) -> None:
        has_begun.set()
        await may_end.wait()

    timeout_ms = 50 if ends_by == "timed out" else 90_000
    settings = Settings(limits=CommandLimits(request_timeout_ms=timeout_ms))
    around = Surroundings(loggers=loggers, stepped=stepped)
    async with ControlPlane.open("memory:", settings, around) as plane:
        call = asyncio.create_task(plane.execute(commands.SetLoggerLevel("lab", "DEBUG")))
        await has_begun.wait()
        if ends_by == "cancelled":
            call.cancel()
        with pytest.raises((asyncio.CancelledError, TimedOut)):
            await call
        assert loggers.named("lab").level == logging.NOTSET
        may_end.set()
    assert loggers.named("lab").level == logging.DEBUG


async def test_a_repeated_key_sets_no_level_again() -> None:
    """A request that is repeated under its key keeps the level of a later request."""
    async with orders_plane(settings=Settings(profile="3.9.1")) as (plane, client):
        await plane.execute(commands.SetLoggerLevel("lab", "DEBUG"), key="first")
        await plane.execute(commands.SetLoggerLevel("lab", "ERROR"))
        await plane.execute(commands.SetLoggerLevel("lab", "DEBUG"), key="first")
        assert (await client.get("/admin/loggers/lab")).json()["level"] == "ERROR"


@pytest.mark.parametrize(("release", "status"), [("3.9.1", 404), ("4.0.0", 204)])
async def test_a_level_is_read_as_the_requested_release_does(release: str, status: int) -> None:
    """Releases from 4.0 on ignore white space around a level."""
    loggers = Loggers(lambda: 0)
    async with orders_plane(loggers=loggers) as (_, client):
        target = f"/compat/{release}/admin/loggers/lab?scope=cluster"
        assert (await client.put(target, json={"level": " debug "})).status_code == status
        shown = await client.get("/admin/loggers/lab")
        assert shown.status_code == (200 if status == 204 else 404)


async def test_a_level_for_this_worker_is_no_record() -> None:
    """A level for this worker writes no record."""
    async with orders_plane() as (plane, client):
        before = plane.state.config.offset
        assert (await put_level(client, "lab", "DEBUG")).json() == ["lab"]
        assert plane.state.config.offset == before


async def test_a_read_only_worker_sets_only_its_own_loggers() -> None:
    """Levels for the cluster are refused with 405; this worker's own loggers can be set."""
    async with following("life-3.9") as follower:
        service = service_of(follower, "3.9", loggers=Loggers(lambda: 0))
        async with client_of(App(service)) as client:
            assert (await put_level(client, "lab?scope=cluster", "DEBUG")).status_code == 405
            assert (await put_level(client, "lab", "DEBUG")).json() == ["lab"]


async def test_requests_create_a_limited_number_of_loggers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New loggers are refused above the limits; levels of existing loggers can still be set."""
    loggers = Loggers(lambda: 0)
    monkeypatch.setattr(logger_levels, "LOGGERS_KEPT", 5)
    async with orders_plane(loggers=loggers) as (_, client):
        loggers.named("l" * 256)
        assert (await put_level(client, "m" * 256, "DEBUG")).status_code == 400
        assert (await put_level(client, "l" * 256, "DEBUG")).json() == ["l" * 256]
        assert (await put_level(client, "a.b", "DEBUG")).json() == ["a.b"]
        for name in ("c.d.e", "c.d.e?dry_run=true"):
            refused = await put_level(client, name, "DEBUG")
            assert (refused.status_code, "maximum" in refused.json()["message"]) == (400, True)
        assert (await put_level(client, "c.d.e?scope=cluster", "DEBUG")).status_code == 204
        assert (await client.get("/admin/loggers/c.d.e")).status_code == 404
        for name in ("a.b", "root", "Root"):
            assert (await put_level(client, name, "WARN")).status_code == 200


# --- admin listeners ----------------------------------------------------------------------------

ADMIN = {"/admin/loggers", "/admin/loggers/root"}
PUBLIC = {"/", "/health", "/connectors", "/connector-plugins"}


@pytest.mark.parametrize(
    ("endpoint_set", "served_paths"),
    [(EndpointSet.ALL, ADMIN | PUBLIC), (EndpointSet.ADMIN, ADMIN), (EndpointSet.PUBLIC, PUBLIC)],
)
async def test_admin_endpoints_may_have_their_own_listener(
    endpoint_set: EndpointSet, served_paths: set[str]
) -> None:
    """`admin.listeners` serves the admin endpoints and nothing else; other listeners lack them."""
    async with following("life-3.9") as follower:
        service = service_of(follower, "3.9", loggers=Loggers(lambda: 0), endpoint_set=endpoint_set)
        async with client_of(App(service)) as client:
            answers = {path: await client.get(path) for path in ADMIN | PUBLIC}
    assert {path for path, answer in answers.items() if answer.status_code == 200} == served_paths
    absent = [answer for path, answer in answers.items() if path not in served_paths]
    assert all(answer.json()["message"] == "HTTP 404 Not Found" for answer in absent)


async def test_an_unadministered_plane_has_no_admin_endpoints() -> None:
    """A worker with an empty `admin.listeners` has no `/admin`."""
    async with orders_plane(settings=Settings(administered=False)) as (_, client):
        assert (await client.get("/admin/loggers")).status_code == 404
        assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("administered", [True, False])
async def test_the_description_has_the_endpoints_of_its_listener(*, administered: bool) -> None:
    """`/openapi.json` describes `/admin` only where the same listener answers it."""
    async with orders_plane(settings=Settings(administered=administered)) as (_, client):
        described = (await client.get("/openapi.json")).json()["paths"]
        answered = await client.get("/admin/loggers")
    assert (answered.status_code == 200) is administered
    assert ({"/admin/loggers", "/admin/loggers/{logger}"} <= described.keys()) is administered
    assert any(path.startswith("/admin") for path in described) is administered
    assert "/connectors" in described


# --- validation ---------------------------------------------------------------------------------

VALIDATE = "/connector-plugins/FileStreamSource/config/validate"


async def test_invalid_configs_are_client_errors() -> None:
    """Under `kip` they get 400; releases answer 500, with a Java class in front of the message."""
    async with served("life-3.9") as client:
        nothing = await client.put(VALIDATE, json={"name": "x"})
        broken = await client.put(
            VALIDATE, content="{", headers={"content-type": "application/json"}
        )
        older = await client.put(f"/compat/3.9.1{VALIDATE}", json={"name": "x"})
    text = "Connector config {name=x} contains no connector type"
    assert (nothing.status_code, nothing.json()["message"]) == (400, text)
    assert (older.status_code, older.json()["message"]) == (
        500,
        f"org.apache.kafka.connect.runtime.rest.errors.BadRequestException: {text}",
    )
    assert broken.status_code == 400


async def test_the_root_is_a_release_that_clients_know() -> None:
    """Clients compare the version at the root: `kip` answers as the newest release."""
    async with served("life-3.9", "kip") as client:
        assert (await client.get("/")).json()["version"] == "4.3.0"
