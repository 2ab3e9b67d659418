"""Cached responses: no client can tell them from new ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from starlette.types import Receive, Scope, Send

from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.response_cache import KEPT, Cacheability, ResponseCache
from controlplane.rest.http.server import listen, serving
from controlplane.rest.security.credential_hashes import Credential, TokenHash
from controlplane.rest.security.middleware import Protection, protected
from controlplane.rest.security.roles import Role
from controlplane.rest.security.settings import AuthSettings
from tests.controller.scene import plane_on
from tests.rest.plane import ORDERS

GET = b"GET /connectors HTTP/1.1\r\nHost: x\r\n\r\n"


class ServedPlane(NamedTuple):
    """A plane, a connection to it, and the paths that reached its application."""

    plane: ControlPlane
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requested_paths: list[str]

    async def ask(self, request: bytes) -> bytes:
        """The body of an answer that has a length."""
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(length)


@asynccontextmanager
async def served(
    state: dict[str, object] | None = None,
    limits: HttpLimits | None = None,
    protection: Protection | None = None,
) -> AsyncIterator[ServedPlane]:
    """A plane with a connector; `state` is the request state set by the layers in front."""
    requested_paths: list[str] = []
    async with plane_on(MemoryLog()) as plane:
        await plane.execute(CreateConnector("orders", ORDERS))

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            requested_paths.append(scope["path"])
            request_state = {**scope.get("state", {}), **(state or {})}
            await plane.app({**scope, "state": request_state}, receive, send)

        listening = listen("127.0.0.1", 0)
        guarded = protected(app, protection or Protection())
        async with serving(guarded, listening, limits):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            try:
                yield ServedPlane(plane, reader, writer, requested_paths)
            finally:
                writer.close()
                await writer.wait_closed()


@pytest.fixture
def one_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every answer the same date."""
    find, keep = ResponseCache.find, ResponseCache.keep
    monkeypatch.setattr(
        ResponseCache, "find", lambda cache, request, _, peer: find(cache, request, "now", peer)
    )
    monkeypatch.setattr(
        ResponseCache,
        "keep",
        lambda cache, request, repeat, answer, _: keep(cache, request, repeat, answer, "now"),
    )


@pytest.mark.usefixtures("one_date")
async def test_a_repeated_request_is_answered_from_the_cache() -> None:
    """A repeated request gets the same bytes from the cache and does not reach the application."""
    async with served() as service:
        first = [await service.ask(GET) for _ in range(3)]
        assert first == [b'["orders"]'] * 3
        assert service.requested_paths == ["/connectors"]
        await service.ask(GET.replace(b"/connectors ", b"/connectors?expand=info "))
        assert len(service.requested_paths) == 2


@pytest.mark.usefixtures("one_date")
async def test_a_write_invalidates_cached_answers() -> None:
    """Every write invalidates all cached answers."""
    async with served() as service:
        assert await service.ask(GET) == b'["orders"]'
        await service.plane.execute(CreateConnector("more", ORDERS))
        assert await service.ask(GET) == b'["more","orders"]'
        await service.plane.execute(StopConnector("orders"))
        await service.ask(GET)
        assert len(service.requested_paths) == 3


@pytest.mark.usefixtures("one_date")
@pytest.mark.parametrize(
    "request_",
    [
        GET.replace(b"/connectors", b"/health"),
        GET.replace(b"/connectors", b"/connectors?as_of=config@0"),
        GET.replace(b"/connectors", b"/connectors/orders/offsets"),
        GET.replace(b"GET", b"OPTIONS"),
        b"PUT /connectors/orders/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_uncacheable_requests_reach_the_application(request_: bytes) -> None:
    """Answers that depend on more than the state, and commands, are never cached."""
    async with served() as service:
        for _ in range(3):
            await service.ask(request_)
        assert await service.ask(GET) == b'["orders"]'
        assert len(service.requested_paths) == 4


@pytest.mark.usefixtures("one_date")
async def test_answers_to_a_principal_are_not_cached() -> None:
    """The principal may have lost access by the next request."""
    async with served({"principal": "alice"}) as service:
        for _ in range(3):
            await service.ask(GET)
        assert len(service.requested_paths) == 3


@pytest.mark.usefixtures("one_date")
async def test_a_removed_token_is_refused_on_all_connections(tmp_path: Path) -> None:
    """No connection answers a removed token from the cache: answers to a token are not cached."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{Credential('ann', Role.VIEW, TokenHash.of('t0ken'))}\n", "ascii")
    asks = GET.replace(b"Host", b"Authorization: Bearer t0ken\r\nHost")
    auth = AuthSettings(token_file=str(tokens))
    async with served(protection=Protection(auth=auth)) as service:
        address = service.writer.get_extra_info("peername")
        reader, writer = await asyncio.open_connection(*address)
        connections = (service, service._replace(reader=reader, writer=writer))
        for connection in (*connections, *connections):
            assert await connection.ask(asks) == b'["orders"]'
        assert len(service.requested_paths) == 4
        tokens.write_text("", "ascii")
        for connection in connections:
            assert b"the request has an unknown token" in await connection.ask(asks)
        writer.close()


@pytest.mark.usefixtures("one_date")
async def test_listeners_have_answers_of_their_own() -> None:
    """Each listener has its own cached answers: `/admin/loggers` is on one of them (KIP-495)."""
    async with served() as first, served() as second:
        await second.plane.execute(CreateConnector("more", ORDERS))
        for _ in range(2):
            assert await first.ask(GET) == b'["orders"]'
            assert await second.ask(GET) == b'["more","orders"]'


@pytest.mark.usefixtures("one_date")
async def test_split_requests_are_answered_in_order() -> None:
    """Each request gets its answer in order, however its bytes are split."""
    async with served() as service:
        assert await service.ask(GET) == b'["orders"]'
        for pieces in ((GET + GET,), (GET[:9], GET[9:]), (GET + GET[:9], GET[9:])):
            for piece in pieces:
                service.writer.write(piece)
                await asyncio.sleep(0.02)
        for _ in range(5):
            assert await service.ask(b"") == b'["orders"]'


@pytest.mark.usefixtures("one_date")
@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
async def test_two_requests_in_one_packet_are_both_answered(line: bytes) -> None:
    """Two requests in one packet get both answers each time, also if the line ends differ."""
    two = GET.replace(b"\r\n", line) + GET.replace(b"/connectors", b"/connectors?expand=info")
    async with served() as service:
        for _ in range(3):
            assert await service.ask(two) == b'["orders"]'
            assert (await service.ask(b"")).startswith(b'{"orders":{"info":')


@pytest.mark.usefixtures("one_date")
async def test_a_body_is_never_answered_as_a_request() -> None:
    """Bytes of a body are never answered as a request.

    A proxy would pass such an answer to another client (request smuggling).
    """
    health = GET.replace(b"/connectors", b"/health")
    announcing = health.replace(b"Host", b"Content-Length: %d\r\nHost" % len(GET))
    async with served() as service:
        assert await service.ask(GET) == b'["orders"]'
        for _ in range(2):
            assert b"healthy" in await service.ask(announcing)
            service.writer.write(GET)  # the body
            await asyncio.sleep(0.02)
        assert b"healthy" in await service.ask(health)


@pytest.mark.usefixtures("one_date")
async def test_a_request_with_a_body_reaches_the_application() -> None:
    """The repeated request reaches the app again, and its body is never answered as a request."""
    with_body = GET.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(GET)) + GET
    async with served() as service:
        for _ in range(3):
            assert await service.ask(with_body) == b'["orders"]'
        assert await service.ask(GET) == b'["orders"]'
        assert service.requested_paths == ["/connectors"] * 2


@pytest.mark.usefixtures("one_date")
async def test_head_and_closing_requests_get_their_own_answers() -> None:
    """Cached answers to other requests are never sent. `Connection: close` ends the connection."""
    async with served() as service:
        assert await service.ask(GET) == b'["orders"]'
        for _ in range(2):
            service.writer.write(GET.replace(b"GET", b"HEAD"))
            head = await service.reader.readuntil(b"\r\n\r\n")
            assert b"content-length: 10\r\n" in head
        assert await service.ask(GET) == b'["orders"]'
        assert (
            await service.ask(GET.replace(b"Host", b"Connection: close\r\nHost")) == b'["orders"]'
        )
        assert await service.reader.read() == b""


@pytest.mark.slow
async def test_the_idle_limit_counts_from_the_last_request() -> None:
    """The idle limit counts from the last request, also if its answer was cached."""
    async with served(limits=HttpLimits(idle_ms=1_000)) as service:
        for _ in range(8):
            assert await service.ask(GET) == b'["orders"]'
            await asyncio.sleep(0.2)
        assert await service.reader.read() == b""


async def test_no_answer_outlives_its_date() -> None:
    """A cached answer is not sent once the value of the `Date` header has changed."""
    repeats, repeat = ResponseCache(), Cacheability()
    repeat.is_valid = lambda: True
    assert repeats.find(GET, "one") is None
    repeats.keep(GET, repeat, b"answer", "one")
    assert repeats.find(GET, "one") == b"answer"
    assert repeats.find(GET, "two") is None
    repeats.keep(GET, repeat, b"late", "one")
    assert repeats.find(GET, "two") is None


def test_the_cache_limits_number_and_length_of_answers() -> None:
    """The cache limits the number and the length of its answers."""
    repeats, repeat = ResponseCache(), Cacheability()
    repeat.is_valid = lambda: True
    repeats.find(GET, "one")
    repeats.keep(GET, repeat, b"x" * (1 << 16), "one")
    assert repeats.find(GET, "one") is None
    for number in range(2 * KEPT):
        repeats.keep(b"%d" % number, repeat, b"x", "one")
    assert repeats.find(b"%d" % (KEPT - 1), "one") == b"x"
    assert repeats.find(b"%d" % KEPT, "one") is None


def test_listeners_are_called_for_each_cached_answer() -> None:
    """Listeners are called for each repeated answer while the answer is valid."""
    repeats, repeat, notified = ResponseCache(), Cacheability(), list[str | None]()
    repeat.listeners.append(notified.append)
    repeat.is_valid = lambda: len(notified) < 2
    repeats.find(GET, "one")
    repeats.keep(GET, repeat, b"answer", "one")
    peers = ["127.0.0.1", None, "::1"]
    assert [repeats.find(GET, "one", peer) for peer in peers] == [b"answer", b"answer", None]
    assert notified == peers[:2]
