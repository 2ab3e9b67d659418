"""Workers that answer only after the start: each is checked before its first request."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from controlplane.attached.attached_service import attached_service
from controlplane.attached.cluster_check import identify_cluster
from controlplane.attached.connect_client import (
    ConnectClient,
    ConnectRequest,
    NoWorkerAnswers,
    OutcomeUnknown,
)
from controlplane.attached.execution import AttachedSurroundings
from controlplane.attached.settings import ConnectSettings
from controlplane.core.context import Context
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import OpenedLog
from controlplane.logs.memory import MemoryLog
from controlplane.notices import Notices
from controlplane.observe import silent
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.read_only_service import ReadOnlySettings
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.service import Service
from tests.attached.test_attached_plane import CONFIG, config_record

BRIEF = ConnectSettings(patience_ms=40, retry_ms=1, read_on_ms=1, records_ms=1)
PAUSE = ConnectRequest("PUT", "/connectors/orders/pause")
VALIDATION = ConnectRequest("PUT", "/connector-plugins/C/config/validate", body=b"{}")
IDENTIFICATION = ["/", "/connectors"]
"""Paths of the requests that identify a worker and compare its connectors."""


class SwitchedWorker:
    """Worker that can be down; it keeps the paths of its requests, except those for plugins."""

    def __init__(self, cluster_id: str = "here", connectors: Iterable[str] = ("orders",)) -> None:
        self.cluster_id = cluster_id
        self.connectors = tuple(connectors)
        self.failure: Exception | None = None
        """Error of each request; None: the worker answers."""
        self.root: httpx.Response | None = None
        """Answer to `GET /`; None: that of a worker of this cluster."""
        self.version = "3.9.1"
        self.paths: list[str] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer like a worker that carries out every command."""
        await asyncio.sleep(0)  # other requests get their turn, as over a network
        if self.failure is not None:
            raise self.failure
        if request.url.path == "/connector-plugins":
            return httpx.Response(200, json=[])
        self.paths.append(request.url.path)
        if request.url.path == "/" and self.root is not None:
            return self.root
        if request.url.path == "/":
            root = {"version": self.version, "kafka_cluster_id": self.cluster_id}
            return httpx.Response(200, json=root)
        if request.method == "GET":
            shown: dict[str, Any] = {name: {"info": {"config": CONFIG}} for name in self.connectors}
            return httpx.Response(200, json=shown)
        return httpx.Response(202)


REFUSED = httpx.ConnectError("refused")


class AttachedParts(NamedTuple):
    """Client of an attached service, and the service."""

    client: ConnectClient
    service: Service


@asynccontextmanager
async def attached(
    *workers: SwitchedWorker, cluster_id: str = "here"
) -> AsyncIterator[ConnectClient]:
    """Client of a service that is attached to these workers (`attached_parts`)."""
    async with attached_parts(*workers, cluster_id=cluster_id) as parts:
        for worker in workers:
            worker.paths.clear()
        yield parts.client


@asynccontextmanager
async def attached_parts(
    *workers: SwitchedWorker,
    cluster_id: str = "here",
    limits: ConnectSettings = BRIEF,
    notices: Notices | None = None,
    release: Profile | None = None,
) -> AsyncIterator[AttachedParts]:
    """Service that is attached to these workers (`http://w0`, `http://w1`).

    The topics are of Kafka cluster `cluster_id`, and have connector `orders`. `release` is the one
    that the user names.
    """
    log, topics = MemoryLog(), Topics()
    for topic in (topics.config, topics.offsets, topics.status):
        await log.create_topic(topic, 1)
    await log.append([config_record()])
    async with AsyncExitStack() as stack:
        clients = {}
        for number, worker in enumerate(workers):
            url, transport = f"http://w{number}", httpx.MockTransport(worker)
            http = httpx.AsyncClient(base_url=url, transport=transport)
            clients[url] = await stack.enter_async_context(http)
        client = ConnectClient(clients, limits)
        cluster = await identify_cluster(client, release)
        opening = attached_service(
            OpenedLog(log, "dump", cluster_id=cluster_id),
            ReadOnlySettings(
                topics, Context(profile=cluster.profile), FollowerLimits(), EndpointSet.ALL
            ),
            client=client,
            cluster=cluster,
            trail_log=MemoryLog(),
            around=AttachedSurroundings(notices or silent(), limits=limits),
        )
        yield AttachedParts(client, await stack.enter_async_context(opening))


@asynccontextmanager
async def replaced(late: SwitchedWorker) -> AsyncIterator[ConnectClient]:
    """Client of a service whose first worker is down; `late` was silent at the start."""
    first = SwitchedWorker()
    late.failure = REFUSED
    async with attached(first, late) as client:
        first.failure, late.failure = REFUSED, None
        yield client


@pytest.mark.parametrize("request_sent", [PAUSE, VALIDATION], ids=["command", "read"])
@pytest.mark.parametrize(
    ("cluster_id", "connectors", "sentence"),
    [
        ("there", ("orders",), "of Kafka cluster there instead of here; check --connect-url"),
        (
            "here",
            ("payments",),
            "of another Connect cluster than topic connect-configs: the worker has 1 connector",
        ),
    ],
    ids=["Kafka", "Connect"],
)
async def test_a_late_worker_of_another_cluster_gets_no_request(
    cluster_id: str, connectors: tuple[str, ...], sentence: str, request_sent: ConnectRequest
) -> None:
    """The worker was silent at the start; later it belongs to another Kafka or Connect cluster."""
    late = SwitchedWorker(cluster_id, connectors)
    async with replaced(late) as client:
        with pytest.raises(NoWorkerAnswers) as refused:
            await client.send(request_sent)
    assert f"http://w1 is a worker {sentence}" in str(refused.value)
    assert {*late.paths} <= {*IDENTIFICATION}


async def test_a_late_worker_is_checked_once() -> None:
    """A late worker that belongs to the cluster gets commands; only the first one is delayed."""
    late = SwitchedWorker()
    async with replaced(late) as client:
        answers = await asyncio.gather(*(client.send(PAUSE) for _ in range(3)))
        assert late.paths == [*IDENTIFICATION, *(PAUSE.path for _ in answers)]
        await client.send(PAUSE)
    assert late.paths[5:] == [PAUSE.path]


async def test_requests_share_the_refusal_of_a_worker() -> None:
    """Requests that wait for a check do not start one more each."""
    late = SwitchedWorker("there")
    async with replaced(late) as client:
        assert client.admission is not None
        refusals = await asyncio.gather(*(client.admission.refusal("http://w1") for _ in range(3)))
    assert [type(refusal) for refusal in refusals] == [LogNotUsable] * 3
    assert late.paths == ["/"]


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        (httpx.Response(404, html="<html>Not Found</html>"), "http://w0 cannot be reached"),
        (httpx.Response(200, text="hello"), "http://w1 answers, but is no Kafka Connect"),
    ],
    ids=["starts", "no Connect"],
)
async def test_a_late_server_without_an_identity_gets_no_request(
    root: httpx.Response, reason: str
) -> None:
    """A worker that starts, or a server that is no worker, gets no command."""
    late = SwitchedWorker()
    late.root = root
    async with replaced(late) as client:
        with pytest.raises(NoWorkerAnswers, match=reason):
            await client.send(PAUSE)
    assert {*late.paths} == {"/"}


@pytest.mark.parametrize("loss", [REFUSED, httpx.ReadError("cut")], ids=["down", "killed"])
async def test_a_worker_that_comes_back_is_identified_again(loss: Exception) -> None:
    """A worker without an answer may have been replaced by one of another Kafka cluster."""
    worker = SwitchedWorker()
    async with attached(worker) as client:
        await client.send(PAUSE)
        assert worker.paths == [PAUSE.path]  # it has been checked at the start
        worker.failure = loss
        with pytest.raises((NoWorkerAnswers, OutcomeUnknown)):
            await client.send(PAUSE)
        worker.failure = None
        await client.send(PAUSE)
        assert worker.paths[1:] == ["/", PAUSE.path]
        worker.failure = loss
        with pytest.raises((NoWorkerAnswers, OutcomeUnknown)):
            await client.send(PAUSE)
        worker.failure, worker.cluster_id = None, "there"
        with pytest.raises(NoWorkerAnswers, match="of Kafka cluster there instead of here"):
            await client.send(PAUSE)
    assert {*worker.paths[3:]} == {"/"}


@pytest.mark.parametrize(
    ("connector", "cluster_id", "sentence"),
    [
        ("orders", "there", "and the brokers are of there: name those of one"),
        ("payments", "here", "of another Connect cluster than topic"),
    ],
    ids=["brokers", "topics"],
)
async def test_the_service_starts_only_on_one_cluster(
    connector: str, cluster_id: str, sentence: str
) -> None:
    """Brokers or topics of another cluster than the worker's are refused at the start."""
    worker = SwitchedWorker(connectors=(connector,))
    with pytest.raises(LogNotUsable, match=sentence):
        async with attached(worker, cluster_id=cluster_id):
            raise AssertionError("attached to two clusters")
    assert {*worker.paths} <= {*IDENTIFICATION}
