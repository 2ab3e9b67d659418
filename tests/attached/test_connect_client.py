"""Requests to workers that rebalance, restart, redirect and crash: no change is sent twice."""

import asyncio
from collections.abc import Callable

import httpx
import pytest

from controlplane.attached.connect_client import (
    ConnectClient,
    ConnectRequest,
    NoWorkerAnswers,
    OutcomeUnknown,
)
from controlplane.attached.planner import WorkerGroups
from controlplane.attached.settings import ConnectSettings
from controlplane.controller.external import ExternalActionFailed
from controlplane.core.plan import GroupOffsets
from tests.client.client_calls import error
from tests.patience import PATIENCE_S

PAUSE = ConnectRequest("PUT", "/connectors/orders/pause")
BRIEF = ConnectSettings(patience_ms=40, retry_ms=1)

Reply = httpx.Response | Exception


class WorkerScript:
    """Answers of a worker's server in order, the last one repeatedly; it keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[httpx.Request] = []
        self._replies = replies

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer a request with the next reply; the last reply repeats."""
        reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
        self.requests.append(request)
        if isinstance(reply, Exception):
            raise reply
        return reply


@pytest.fixture
def client_of() -> Callable[..., ConnectClient]:
    """Return a function that makes clients of these workers."""

    def made(*workers: WorkerScript, limits: ConnectSettings = BRIEF) -> ConnectClient:
        return ConnectClient(
            {
                f"http://w{number}": httpx.AsyncClient(
                    base_url=f"http://w{number}",
                    headers={"authorization": "Basic secret"},
                    transport=httpx.MockTransport(worker),
                )
                for number, worker in enumerate(workers)
            },
            limits,
        )

    return made


REBALANCES = (
    error(409, "Cannot complete request momentarily due to stale configuration"),
    error(500, "Request cannot be completed because a rebalance is expected"),
    error(500, "Worker is shutting down"),
    error(500, "IO Error trying to forward REST request: Connection refused"),
    httpx.Response(404, html="<html>Error 404 Not Found</html>"),
)


@pytest.mark.parametrize("refusal", REBALANCES, ids=lambda answer: answer.text[:30])
async def test_a_refused_request_is_sent_again(
    client_of: Callable[..., ConnectClient], refusal: httpx.Response
) -> None:
    """A request that a worker has certainly not executed is repeated until it succeeds."""
    worker = WorkerScript(refusal, refusal, httpx.Response(202))
    answer = await client_of(worker, limits=ConnectSettings(retry_ms=1)).send(PAUSE)
    assert (answer.status, len(worker.requests)) == (202, 3)


async def test_an_unreachable_worker_is_skipped(client_of: Callable[..., ConnectClient]) -> None:
    """The client skips a worker that does not listen, and next tries the one that answered."""
    dead, alive = WorkerScript(httpx.ConnectError("refused")), WorkerScript(httpx.Response(202))
    client = client_of(dead, alive)
    await client.send(PAUSE)
    await client.send(PAUSE)
    assert (len(dead.requests), len(alive.requests)) == (1, 2)


async def test_a_worker_that_answers_another_request_is_not_skipped(
    client_of: Callable[..., ConnectClient],
) -> None:
    """A request tries every worker, also if the preferred worker changes in between."""
    begun = asyncio.Event()

    async def slow_refusal(_: httpx.Request) -> httpx.Response:
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(0.01)  # the other request is refused, and answered by `alive`
        raise httpx.ConnectError("refused")

    alive = WorkerScript(httpx.Response(202))
    client = client_of(slow_refusal, alive, limits=ConnectSettings(patience_ms=0))
    answers = await asyncio.gather(client.send(PAUSE), client.send(PAUSE))
    assert [answer.status for answer in answers] == [202, 202]
    assert len(alive.requests) == 2


@pytest.mark.parametrize(
    "path",
    ["/connector-plugins/C/config/validate?a=1", "/connector-plugins/C/config/validate/"],
)
async def test_a_validation_is_sent_again(
    client_of: Callable[..., ConnectClient], path: str
) -> None:
    """A validation changes nothing, also with a query, so the next worker gets it."""
    lost, alive = WorkerScript(httpx.ReadError("cut")), WorkerScript(httpx.Response(200))
    assert (await client_of(lost, alive).send(ConnectRequest("PUT", path))).status == 200


@pytest.mark.parametrize(
    "loss",
    [
        *(httpx.ReadTimeout("late"), httpx.RemoteProtocolError("cut"), error(502, "Bad Gateway")),
        error(500, "IO Error trying to forward REST request: java.io.EOFException"),
        error(500, "Request timed out. The worker is currently polling the group coordinator"),
    ],
    ids=["late", "cut", "proxy", "leader lost", "worker late"],
)
async def test_a_change_without_an_answer_is_not_sent_again(
    client_of: Callable[..., ConnectClient], loss: Reply
) -> None:
    """A change without an answer may have been made, so no worker gets it again."""
    first, second = WorkerScript(loss), WorkerScript(httpx.Response(202))
    with pytest.raises(OutcomeUnknown):
        await client_of(first, second).send(PAUSE)
    assert (len(first.requests), second.requests) == (1, [])


async def test_a_silent_worker_is_tried_last(client_of: Callable[..., ConnectClient]) -> None:
    """After a change without an answer, other workers get the next requests."""
    silent, dead, alive = (
        WorkerScript(httpx.ReadTimeout("late")),
        WorkerScript(httpx.ConnectError("refused")),
        WorkerScript(httpx.Response(202)),
    )
    client = client_of(silent, dead, alive)
    with pytest.raises(OutcomeUnknown):
        await client.send(PAUSE)
    assert [(await client.send(PAUSE)).status for _ in range(2)] == [202, 202]
    assert (len(silent.requests), len(dead.requests), len(alive.requests)) == (1, 1, 2)


async def test_a_worker_that_delays_a_probe_is_tried_last(
    client_of: Callable[..., ConnectClient],
) -> None:
    """A probe is given up early (`AttachedPlane.trouble`); the next one asks another worker."""
    begun = asyncio.Event()

    async def hanging(_: httpx.Request) -> httpx.Response:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("never answered")

    client = client_of(hanging, WorkerScript(httpx.Response(200)))
    probe = asyncio.create_task(client.send(ConnectRequest("GET", "/")))
    await begun.wait()
    probe.cancel()
    await asyncio.wait([probe])
    async with asyncio.timeout(PATIENCE_S):
        assert (await client.send(ConnectRequest("GET", "/"))).status == 200


async def test_a_worker_that_hangs_at_the_start_is_silent(
    client_of: Callable[..., ConnectClient],
) -> None:
    """The other workers are asked meanwhile, and get the next requests."""

    async def hanging(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("never answered")

    limits = ConnectSettings(patience_ms=500, retry_ms=1, connect_timeout_ms=500)
    alive = WorkerScript(httpx.Response(200, json={"version": "3.9.1"}))
    client = client_of(hanging, alive, limits=limits)
    async with asyncio.timeout(PATIENCE_S):
        answers, silent = await client.ask_each()
        await client.send(ConnectRequest("GET", "/connector-plugins"))
    assert [*answers] == ["http://w1"]
    assert silent == {"http://w0": "no answer within 0.5 s"}


GROUP = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}


@pytest.mark.parametrize(
    ("reply", "offsets"),
    [
        (httpx.Response(200, json={"offsets": [GROUP]}), (("t", 0, 5),)),
        (error(404, "Connector orders not found"), ()),
        (httpx.Response(405, html="<html>Method Not Allowed</html>"), ()),
    ],
    ids=["offsets", "no connector", "no endpoint"],
)
async def test_group_offsets_are_a_workers(
    client_of: Callable[..., ConnectClient], reply: httpx.Response, offsets: GroupOffsets
) -> None:
    """A sink's offsets are those of a worker; none if it has no such connector or endpoint."""
    groups = WorkerGroups(client_of(WorkerScript(reply)), "orders")
    assert await groups.group_offsets("connect-orders") == offsets


async def test_a_workers_error_about_offsets_is_raised(
    client_of: Callable[..., ConnectClient],
) -> None:
    """An error of the worker does not look like a group without offsets."""
    groups = WorkerGroups(client_of(WorkerScript(error(500, "Failed to list offsets"))), "orders")
    with pytest.raises(ExternalActionFailed, match="a worker answers 500: Failed to list offsets"):
        await groups.group_offsets("connect-orders")


async def test_a_read_is_sent_again(client_of: Callable[..., ConnectClient]) -> None:
    """A read goes to the next worker after a lost connection."""
    first = WorkerScript(httpx.ReadError("cut"))
    second = WorkerScript(httpx.Response(200, json=["orders"]))
    assert await client_of(first, second).get("/connectors") == ["orders"]


async def test_the_last_refusal_is_returned_after_the_patience(
    client_of: Callable[..., ConnectClient],
) -> None:
    """If no worker can be reached, there is no refusal, and `NoWorkerAnswers` is raised."""
    for refusal in REBALANCES[:2]:  # 409 and 500
        answer = await client_of(WorkerScript(refusal)).send(PAUSE)
        assert (answer.status, answer.message) == (refusal.status_code, refusal.json()["message"])
    with pytest.raises(NoWorkerAnswers, match="http://w0 cannot be reached: refused"):
        await client_of(WorkerScript(httpx.ConnectError("refused"))).send(PAUSE)


@pytest.mark.parametrize(
    "refusal",
    [
        error(409, "Connector orders already exists"),
        error(409, "Connector rebalance-monitor already exists"),
        error(404, "Unknown connector orders"),
    ],
    ids=lambda answer: answer.text,
)
async def test_permanent_refusals_are_returned_at_once(
    client_of: Callable[..., ConnectClient], refusal: httpx.Response
) -> None:
    """A permanent refusal is passed on at once."""
    worker = WorkerScript(refusal)
    assert (await client_of(worker).send(PAUSE)).status == refusal.status_code
    assert len(worker.requests) == 1


async def test_the_404_page_of_a_started_worker_is_final(
    client_of: Callable[..., ConnectClient],
) -> None:
    """The worker's release lacks the endpoint, as 3.4 lacks `stop`."""
    page = httpx.Response(404, html="<html>Error 404 Not Found</html>")
    root = httpx.Response(200, json={"version": "3.4.1"})
    worker = WorkerScript(page, root, page, httpx.Response(202))
    assert (await client_of(worker).send(PAUSE)).status == 404
    assert [request.url.path for request in worker.requests] == [PAUSE.path, "/", PAUSE.path]


async def test_a_worker_that_lags_behind_the_log_is_asked_again(
    client_of: Callable[..., ConnectClient],
) -> None:
    """The client asks again if a worker does not know a connector of the log."""
    worker = WorkerScript(error(404, "Unknown connector orders"), httpx.Response(202))
    limits = ConnectSettings(retry_ms=1)
    answer = await client_of(worker, limits=limits).send(
        PAUSE, lambda response: response.is_missing
    )
    assert answer.status == 202


@pytest.mark.parametrize(
    ("target", "credentials"),
    [
        ("http://w0/v2/pause", True),
        ("https://w0/v2/pause", True),
        ("http://elsewhere/pause", False),
        ("http://w0:1234/pause", False),
        ("https://w0:8443/pause", False),
    ],
)
async def test_redirected_changes_keep_method_and_body(
    client_of: Callable[..., ConnectClient], target: str, *, credentials: bool
) -> None:
    """A redirected change keeps method and body; only a worker's own port gets credentials."""
    redirect = httpx.Response(302, headers={"location": target})
    worker = WorkerScript(redirect, httpx.Response(200))
    request = ConnectRequest("PATCH", "/connectors/orders/config", body=b"{}")
    assert (await client_of(worker).send(request)).is_success
    sent = worker.requests[1]
    assert (sent.method, sent.content, str(sent.url)) == ("PATCH", b"{}", target)
    assert ("authorization" in sent.headers) is credentials


@pytest.mark.parametrize("target", ["http://w0/pause", "http://elsewhere/pause"])
async def test_redirects_never_give_up_encryption(target: str) -> None:
    """A redirect from https to http is not followed; a change counts as a lost answer."""
    worker = WorkerScript(httpx.Response(307, headers={"location": target}))
    transport = httpx.MockTransport(worker)
    async with httpx.AsyncClient(base_url="https://w0", transport=transport) as encrypted:
        client = ConnectClient({"https://w0": encrypted}, BRIEF)
        with pytest.raises(OutcomeUnknown, match="redirect from https to http"):
            await client.send(PAUSE)
    assert [str(request.url) for request in worker.requests] == [f"https://w0{PAUSE.path}"]


async def test_a_redirect_to_an_invalid_host_gives_no_answer(
    client_of: Callable[..., ConnectClient],
) -> None:
    """A server that redirects to no host may have executed the request."""
    worker = WorkerScript(httpx.Response(307, headers={"location": "http://xn--a.example/"}))
    with pytest.raises(OutcomeUnknown, match="http://w0 gave no answer"):
        await client_of(worker).send(PAUSE)
