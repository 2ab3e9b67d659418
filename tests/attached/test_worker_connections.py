"""Requests over our own connections to a server that closes, hangs, cuts off and redirects."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from controlplane.attached.connect_client import (
    ConnectClient,
    ConnectRequest,
    NoWorkerAnswers,
    OutcomeUnknown,
)
from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_connections import WorkerConnections, uses_proxy
from tests.outages import until
from tests.patience import PATIENCE_S
from tests.ports import free_ports
from tests.rest.security.certificate import IssuedCertificate

PAUSE = ConnectRequest("PUT", "/connectors/orders/pause")
PATCH = ConnectRequest("PATCH", "/connectors/orders/config", body=b'{"a":"b"}')
READ = ConnectRequest("GET", "/connectors")
BRIEF = ConnectSettings(patience_ms=40, retry_ms=1)

PATIENT = ConnectSettings(patience_ms=1_000 * PATIENCE_S, retry_ms=1)
"""Time enough for a second attempt on any machine."""

DONE = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
HALF = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n["a"'
CLOSE = b""
"""End of what a server sends: it closes the connection."""
NOT_GZIP = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}"


class RawServer:
    """Server that answers the requests of each connection with given bytes.

    `answers` has one list of pieces per request, in the order of arrival. The last list serves all
    further requests. An empty piece closes the connection.
    """

    def __init__(self, *answers: list[bytes]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.open = self.most_open = 0
        """Connections that are open now, and most that ever were."""
        self.url = ""
        self._answers = answers
        self.request_arrived = asyncio.Event()
        """Set once a request has arrived."""
        self.may_answer = asyncio.Event()
        """Answers wait until it is set."""
        self.may_answer.set()
        self._closed = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Serve within the block; yield the base URL."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{port}"
        async with server:
            yield self.url
        await asyncio.gather(*self._handlers)

    async def closed(self) -> None:
        """Wait until a connection was closed by this server."""
        await self._closed.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handlers.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while request := await _request(reader):
                self.requests.append(request)
                self.request_arrived.set()
                await self.may_answer.wait()
                number = min(len(self.requests), len(self._answers)) - 1
                for piece in self._answers[number]:
                    if piece == CLOSE:
                        return
                    writer.write(piece)
                    await writer.drain()
        finally:
            self.open -= 1
            writer.close()
            self._closed.set()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """Next request with its body; empty at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return head + await reader.readexactly(int(length[1]) if length else 0)


@asynccontextmanager
async def steering(
    url: str, limits: ConnectSettings = BRIEF, tls: ssl.SSLContext | None = None, path: str = ""
) -> AsyncIterator[ConnectClient]:
    """Client of the worker at a URL, over connections of our own."""
    headers = {"authorization": "Basic secret"}
    timeout = limits.answer_timeout_ms / 1_000
    trust = tls or True
    async with httpx.AsyncClient(
        base_url=url + path, headers=headers, timeout=timeout, verify=trust
    ) as worker:
        connections = WorkerConnections(worker, tls)
        yield ConnectClient({url: worker}, limits, {url: connections})
        connections.close()


async def test_one_connection_serves_all() -> None:
    """Requests have path, length, type and credentials; the connection stays open."""
    server = RawServer([DONE])
    async with server.running() as url, steering(url, path="/api/") as client:
        for request in (PAUSE, PATCH, READ):
            assert (await client.send(request)).status == 202
        assert server.connections == 1
        pause, patch, read = server.requests
        host = url.removeprefix("http://").encode()
        assert pause.startswith(b"PUT /api/connectors/orders/pause HTTP/1.1\r\nhost: " + host)
        assert all(b"\r\nauthorization: Basic secret\r\n" in sent for sent in server.requests)
        assert b"\r\ncontent-length: 0\r\n" in pause
        assert b"content-length" not in read
        assert b"\r\ncontent-type: application/json\r\n" in patch
        assert patch.endswith(b'\r\n\r\n{"a":"b"}')


@pytest.mark.parametrize(
    ("request_", "target"),
    [
        (ConnectRequest("POST", "/connectors/a%2Fb/restart"), b"/connectors/a%2Fb/restart"),
        (
            ConnectRequest("PUT", "/admin/loggers/x", {"scope": "cluster"}),
            b"/admin/loggers/x?scope=cluster",
        ),
        (ConnectRequest("GET", "/connectors?expand=info"), b"/connectors?expand=info"),
        (ConnectRequest("GET", "/connectors/a b"), b"/connectors/a%20b"),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else "",
)
async def test_targets_are_sent_as_by_httpx(request_: ConnectRequest, target: bytes) -> None:
    """Paths and queries are sent as httpx sends them."""
    server = RawServer([DONE])
    async with server.running() as url, steering(url) as client:
        await client.send(request_)
        async with httpx.AsyncClient(base_url=url) as plain:
            params = dict(request_.query) or None
            await plain.request(request_.method, request_.path, params=params)
    ours, theirs = (sent.split(b" ")[1] for sent in server.requests)
    assert ours == theirs == target


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n"
TO_ITS_END = b"HTTP/1.1 200 OK\r\n\r\n[1]"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n[1]"


@pytest.mark.parametrize(
    ("pieces", "connections"),
    [
        ([CHUNKED], 1),
        ([CHUNKED[:60], CHUNKED[60:]], 1),
        ([INTERIM], 1),
        ([TO_ITS_END, CLOSE], 2),
        ([b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\n[1]"], 2),
    ],
    ids=["chunked", "in pieces", "interim", "to its end", "close"],
)
async def test_every_form_of_a_body_is_read(pieces: list[bytes], connections: int) -> None:
    """Every form of a body is read to its end; a reusable connection is then used again."""
    server = RawServer(pieces)
    async with server.running() as url, steering(url) as client:
        for _ in range(2):
            assert await client.get("/connectors") == [1]
    assert server.connections == connections


async def test_a_closed_connection_is_not_used() -> None:
    """After a worker closes an idle connection, a new one carries the next change, once."""
    server = RawServer([DONE, CLOSE], [DONE])
    async with server.running() as url, steering(url) as client:
        await client.send(PAUSE)
        await server.closed()
        await asyncio.sleep(0.05)  # the end of the stream arrives
        assert (await client.send(PAUSE)).status == 202
    assert (server.connections, len(server.requests)) == (2, 2)


async def test_bytes_without_a_request_answer_no_later_request() -> None:
    """The next request gets a new connection."""
    late = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
    server = RawServer([DONE + late], [DONE])
    async with server.running() as url, steering(url) as client:
        assert [(await client.send(PAUSE)).status for _ in range(2)] == [202, 202]
    assert server.connections == 2


@pytest.mark.parametrize(
    "pieces",
    [[CLOSE], [HALF, CLOSE], [DONE[:20], CLOSE], [b"SSH-2.0-OpenSSH\r\n\r\n"], [b"\x00" * 99]],
    ids=["no answer", "half a body", "half a head", "another protocol", "noise"],
)
async def test_a_change_whose_answer_is_lost_is_not_sent_again(pieces: list[bytes]) -> None:
    """The worker may have made the change; a read is sent again."""
    server = RawServer(pieces, pieces, [DONE])
    async with server.running() as url, steering(url, PATIENT) as client:
        with pytest.raises(OutcomeUnknown, match="gave no answer"):
            await client.send(PAUSE)
        assert len(server.requests) == 1
        assert (await client.send(READ)).status == 202
        assert len(server.requests) == 3
    silent = RawServer(pieces)
    async with silent.running() as url, steering(url) as client:
        with pytest.raises(NoWorkerAnswers, match="gave no answer"):
            await client.send(READ)


async def test_the_reason_of_a_closed_connection_is_told() -> None:
    """The caller of a change learns what the worker did, in words about connections."""
    async with RawServer([CLOSE]).running() as url, steering(url) as client:
        with pytest.raises(OutcomeUnknown) as unknown:
            await client.send(PAUSE)
    assert str(unknown.value) == f"{url} gave no answer (it closed the connection)"


async def test_a_body_that_contradicts_its_encoding_is_a_lost_answer() -> None:
    """The caller learns it at once, before the time-out."""
    limits = ConnectSettings(patience_ms=40, retry_ms=1, answer_timeout_ms=1_000 * PATIENCE_S)
    async with RawServer([NOT_GZIP]).running() as url, steering(url, limits) as client:
        with pytest.raises(OutcomeUnknown, match="while decompressing"):
            await client.send(PAUSE)


async def test_a_late_answer_answers_no_later_request() -> None:
    """After a time-out, the next request gets a new connection."""
    server = RawServer([], [DONE])
    limits = ConnectSettings(patience_ms=40, retry_ms=1, answer_timeout_ms=100)
    async with server.running() as url, steering(url, limits) as client:
        with pytest.raises(OutcomeUnknown, match="ReadTimeout"):
            await client.send(PAUSE)
    async with server.running() as url, steering(url) as client:
        assert (await client.send(PAUSE)).status == 202
    assert server.connections == 2


async def test_a_cancelled_caller_closes_its_connection() -> None:
    """The connection of a cancelled caller is closed."""
    server = RawServer([], [DONE])
    async with server.running() as url, steering(url) as client:
        waiting = asyncio.create_task(client.send(PAUSE))
        async with asyncio.timeout(PATIENCE_S):
            await server.request_arrived.wait()
        waiting.cancel()
        assert await asyncio.gather(waiting, return_exceptions=True)
        assert (await client.send(PAUSE)).status == 202
    assert server.connections == 2


async def test_an_unreachable_worker_gets_no_request() -> None:
    """An unreachable worker raises `NoWorkerAnswers`: no request was sent."""
    (port,) = free_ports(1)
    async with steering(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(NoWorkerAnswers, match=r"cannot be reached: .*Connect call failed"):
            await client.send(PAUSE)


async def test_redirects_keep_the_request() -> None:
    """A redirected change keeps method and body; an invalid location counts as a lost answer."""
    leader = RawServer([DONE])
    async with leader.running() as url:
        location = f"location: {url}/connectors/orders/config\r\n".encode()
        moved = b"HTTP/1.1 307 Temporary Redirect\r\n%scontent-length: 0\r\n\r\n"
        server = RawServer([moved % location], [moved % b"location: http://w1:port/\r\n"])
        async with server.running() as first, steering(first) as client:
            assert (await client.send(PATCH)).status == 202
            with pytest.raises(OutcomeUnknown, match="redirect to no URL"):
                await client.send(PATCH)
    (sent,) = leader.requests
    assert sent.startswith(b"PATCH /connectors/orders/config HTTP/1.1\r\n")
    assert sent.endswith(b'{"a":"b"}')


async def test_at_most_100_requests_are_in_flight() -> None:
    """Further requests wait while 100 are in flight; each is answered in the end."""
    server = RawServer([DONE])
    server.may_answer.clear()
    async with server.running() as url, steering(url) as client:
        sending = asyncio.gather(*(client.send(PAUSE) for _ in range(150)))
        await until(lambda: len(server.requests) >= 100)
        await asyncio.sleep(0.05)  # in which further requests could arrive
        assert len(server.requests) == server.open == 100
        server.may_answer.set()
        assert [answer.status for answer in await sending] == [202] * 150
    assert (len(server.requests), server.most_open) == (150, 100)


def test_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go through a proxy of the environment, unless it is not meant for the host."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert not uses_proxy(httpx.URL("https://w1:8443"))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert uses_proxy(httpx.URL("https://w1:8443"))
    assert not uses_proxy(httpx.URL("http://w1:8083"))
    monkeypatch.setenv("NO_PROXY", "w1")
    assert not uses_proxy(httpx.URL("https://w1:8443"))


async def test_an_untrusted_worker_gets_no_request(tmp_path: Path) -> None:
    """A worker whose certificate is not trusted gets no request."""
    issued = IssuedCertificate.of("worker")
    identity = tmp_path / "worker.pem"
    identity.write_text(issued.key_pem("secret") + issued.certificate_pem, "ascii")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(identity, password="secret")
    trusting = ssl.create_default_context(cadata=issued.certificate_pem)
    server = RawServer([DONE])
    async with server.running(served) as url:
        async with steering(url, tls=trusting) as client:
            assert [(await client.send(PAUSE)).status for _ in range(2)] == [202, 202]
        async with steering(url, tls=ssl.create_default_context()) as client:
            with pytest.raises(NoWorkerAnswers, match="its certificate is refused"):
                await client.send(PAUSE)
    assert len(server.requests) == 2
