"""Limits for heads, bodies, slow bodies and simultaneous requests."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from controlplane.core.commands import CreateConnector
from controlplane.core.releases.profiles import Profile
from controlplane.plane import ControlPlane
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.server import listen, serving
from controlplane.rest.security.load_limits import LoadLimiter
from controlplane.rest.security.middleware import Protection
from tests.patience import PATIENCE_S
from tests.rest.plane import ORDERS
from tests.rest.security.guarded_app import guarded

LIMITS = HttpLimits(body_max_bytes=100, head_max_bytes=500, body_patience_ms=20, requests_max=2)
JSON = {"content-type": "application/json"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a plane with low limits."""
    async with guarded(Protection(limits=LIMITS)) as client:
        yield client


def _bodies(size: int) -> list[bytes | AsyncIterator[bytes]]:
    """A body of this size, with `Content-Length` and in chunks."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(size // 50):
            yield b" " * 50

    return [b" " * size, parts()]


async def test_a_body_is_read_up_to_its_limit(client: httpx.AsyncClient) -> None:
    """A body one byte above the limit gets 413 and closes the connection, also without a length."""
    put = "/connectors/x/config"
    for body in _bodies(100):
        answer = await client.put(put, content=body, headers=JSON)
        assert answer.status_code == 400
        assert "100 bytes" not in answer.text
    for body in _bodies(150):
        answer = await client.put(put, content=body, headers=JSON)
        assert answer.status_code == 413
        assert answer.headers["connection"] == "close"
        assert answer.json() == {
            "error_code": 413,
            "message": "The body is larger than 100 bytes",
        }


@pytest.mark.parametrize("framing", [b"Content-Length: 3000000", b"Transfer-Encoding: chunked"])
async def test_a_client_that_sends_first_reads_the_refusal(framing: bytes) -> None:
    """The server reads the rest of a large body and drops it: the client gets 413, and no reset."""
    limits = HttpLimits(body_max_bytes=100_000, body_discarded_bytes=4_000_000)
    status = await _status_of_large_body(limits, framing)
    assert status == b"HTTP/1.1 413 Request Entity Too Large"


async def test_bytes_beyond_the_limit_are_not_read() -> None:
    """Beyond `body_discarded_bytes`, the connection ends before the client has sent everything."""
    limits = HttpLimits(body_max_bytes=100_000, body_discarded_bytes=100_000)
    with pytest.raises(ConnectionError):
        await _status_of_large_body(limits, b"Content-Length: 300000000", 100_000)


async def _status_of_large_body(limits: HttpLimits, framing: bytes, pieces: int = 1_000) -> bytes:
    """Send a whole body in pieces of 3,000 bytes on a real connection, then read the status."""
    chunk = b" " * 3_000
    piece = b"bb8\r\n%s\r\n" % chunk if b"chunked" in framing else chunk
    end = b"0\r\n\r\n" if b"chunked" in framing else b""
    head = b"PUT /connectors/x/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

    def send_then_read(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, timeout=PATIENCE_S) as connection:
            connection.sendall(head + framing + b"\r\n\r\n")
            for _ in range(pieces):
                connection.sendall(piece)
            connection.sendall(end)
            return connection.recv(1_000).partition(b"\r\n")[0]

    listening = listen("127.0.0.1", 0)
    async with ControlPlane.open("memory:") as plane:
        app = LoadLimiter(plane.app, limits, Profile.of("kip"))
        async with serving(app, listening):
            return await asyncio.to_thread(send_then_read, listening.getsockname())


async def test_an_unread_body_breaks_no_limit(client: httpx.AsyncClient) -> None:
    """A GET is answered although its body is above the limit: nothing reads the body."""
    answer = await client.request("GET", "/connectors", content=b" " * 200, headers=JSON)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body_head",
    [
        b"content-length: 5",
        b"content-length: 1000000",
        b"content-length: 1000000\r\nexpect: 100-continue",
    ],
)
async def test_a_missing_body_ends_no_watch(
    body_head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A watch goes on although the announced body breaks a limit of size or time."""
    listening = listen("127.0.0.1", 0)
    async with ControlPlane.open("memory:") as plane:
        app = LoadLimiter(plane.app, LIMITS, Profile.of("kip"))
        async with serving(app, listening), asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET /watch HTTP/1.1\r\nhost: localhost\r\n" + body_head + b"\r\n\r\n")
            await reader.readuntil(b": watching\n")
            await asyncio.sleep(5 * LIMITS.body_patience_ms / 1_000)
            await plane.execute(CreateConnector("orders", ORDERS))
            await reader.readuntil(b'"connector": "orders"')
            writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("base", ["", "/compat/3.9.1"])
async def test_oversized_heads_are_refused(client: httpx.AsyncClient, base: str) -> None:
    """An oversized target gets 414, oversized headers 431: our message, or the page of Jetty."""
    fits = await client.get(f"{base}/connectors?" + "x" * 200)
    assert fits.status_code == 200
    long_target = await client.get(f"{base}/connectors?" + "x" * 500)
    long_headers = await client.get(f"{base}/connectors", headers={"x-long": "y" * 500})
    assert (long_target.status_code, long_headers.status_code) == (414, 431)
    for answer, reason in (
        (long_target, "URI Too Long"),
        (long_headers, "Request Header Fields Too Large"),
    ):
        page = f"<h1>Bad Message {answer.status_code}</h1><pre>reason: {reason}</pre>"
        if base:
            assert answer.text == page
        else:
            assert "longer than 500 bytes" in answer.json()["message"]


# --- limits of running requests -----------------------------------------------------------------


class WaitingApp:
    """An application that reads the body, and answers once `let` is set."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.inside = asyncio.Semaphore(0)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        self.inside.release()
        while (await receive()).get("more_body"):
            pass
        await self.let.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def scope(path: str = "/connectors") -> Scope:
    """Return an ASGI scope for a GET of this path."""
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }


class RawClient:
    """A client with the messages that it sends and the status that it received."""

    def __init__(self, *sent: Message) -> None:
        self.sent = [*sent]
        self.status = 0

    async def receive(self) -> Message:
        """Return the next message; wait for ever after the last one."""
        if not self.sent:
            await asyncio.Event().wait()
        return self.sent.pop(0)

    async def send(self, message: Message) -> None:
        """Keep the status of the response."""
        self.status = message.get("status", self.status)


EMPTY = {"type": "http.request", "body": b"", "more_body": False}
HALF = {"type": "http.request", "body": b"x", "more_body": True}


async def test_requests_above_the_limit_get_503() -> None:
    """A request above the limit gets 503 at once; each answer frees a place."""
    app = WaitingApp()
    bounds = LoadLimiter(app, LIMITS, Profile.of("kip"))
    clients = [RawClient(EMPTY) for _ in range(LIMITS.requests_max + 2)]
    tasks = [
        asyncio.create_task(bounds(scope(), client.receive, client.send))
        for client in clients[: LIMITS.requests_max]
    ]
    for _ in tasks:
        await app.inside.acquire()
    await bounds(scope(), clients[2].receive, clients[2].send)
    assert clients[2].status == 503
    watching = RawClient(EMPTY)
    tasks.append(asyncio.create_task(bounds(scope("/watch"), watching.receive, watching.send)))
    await app.inside.acquire()  # watchers have a limit of their own
    app.let.set()
    await asyncio.gather(*tasks)
    await bounds(scope(), clients[3].receive, clients[3].send)
    assert [client.status for client in clients] == [204, 204, 503, 204]


async def test_watchers_above_the_limit_are_refused() -> None:
    """Watchers have their own limit; more get 503."""
    app = WaitingApp()
    bounds = LoadLimiter(app, HttpLimits(watches_max=1), Profile.of("kip"))
    watcher, other = RawClient(EMPTY), RawClient(EMPTY)
    task = asyncio.create_task(bounds(scope("/watch"), watcher.receive, watcher.send))
    await app.inside.acquire()
    await bounds(scope("/watch"), other.receive, other.send)
    assert other.status == 503
    app.let.set()
    await task


async def test_a_slow_body_gets_408() -> None:
    """A body that stops half-way gets 408 with the application's message."""
    async with guarded(Protection(limits=LIMITS)) as client:

        async def trickle() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        answer = await client.put("/connectors/x/config", content=trickle(), headers=JSON)
    assert answer.status_code == 408
    assert answer.headers["connection"] == "close"
    assert answer.json()["message"] == "The body did not arrive within 20 ms"


async def test_a_body_that_is_cut_off_runs_no_command(tmp_path: Path) -> None:
    """An incomplete body runs no command and frees its place."""
    async with guarded(Protection(limits=LIMITS)) as client:
        app = client._transport.app  # type: ignore[attr-defined]
        for _ in range(LIMITS.requests_max + 1):
            gone = RawClient(HALF, {"type": "http.disconnect"})
            headers = [(b"content-type", b"application/json")]
            request_scope = {**scope("/connectors/x/config"), "method": "PUT", "headers": headers}
            await app(request_scope, gone.receive, gone.send)
            assert gone.status == 400
        assert (await client.get("/connectors")).json() == []
