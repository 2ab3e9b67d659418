"""The service on a real socket: raw requests, and its shutdown."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from controlplane.rest.app import App
from controlplane.rest.http.server import NoListener, listen, serving, url_of
from tests.rest.served_history import following, service_of

ENCODED_NAME = b"gr%C3%B6%C3%9Fe%2F%C3%BCml%C3%A4ut%20%F0%9F%98%80%20%25%3B%2B"


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    """Address of a service that serves a history as 3.9."""
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    async with (
        following("life-3.9") as follower,
        serving(App(service_of(follower, "3.9")), listening),
    ):
        yield address


async def ask(address: tuple[str, int], request: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Send bytes, read the answer to its end: status line, headers, body."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    status, *lines = head.split(b"\r\n")
    return status, dict(line.lower().split(b": ", 1) for line in lines), body


def get(target: bytes, *headers: bytes, method: bytes = b"GET") -> bytes:
    """A request after which the server closes the connection."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]
    return b"\r\n".join([*lines, b"", b""])


@pytest.mark.parametrize(
    "target",
    [
        b"/connectors/" + ENCODED_NAME + b"/config",
        b"/connectors/" + ENCODED_NAME + b"/config/",
        b"/connectors;v=1/" + ENCODED_NAME + b";v=2/config;v=3?x=y",
        b"http://anywhere:1/connectors/" + ENCODED_NAME + b"/config",
    ],
)
async def test_raw_targets_are_taken_as_sent(address: tuple[str, int], target: bytes) -> None:
    """The path is taken as it was sent."""
    status, headers, body = await ask(address, get(target))
    assert status == b"HTTP/1.1 200 OK"
    assert headers[b"content-type"] == b"application/json"
    assert r'"name":"größe/ümläut \uD83D\uDE00 %;+"'.encode() in body  # Jackson's escapes


async def test_the_server_header_is_sent_once(address: tuple[str, int]) -> None:
    """An error outside of the endpoints has no content type; the `Server` header is sent once."""
    status, headers, body = await ask(address, get(b"/nix"))
    assert status == b"HTTP/1.1 404 Not Found"
    assert body == b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    assert set(headers) == {b"date", b"server", b"content-length", b"connection"}
    assert headers[b"server"] == b"controlplane"


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Accepted connections send each piece at once (no Nagle's algorithm)."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_head_has_a_length_and_no_body(address: tuple[str, int]) -> None:
    """HEAD has a length and no body."""
    _, headers, body = await ask(address, get(b"/connectors", method=b"HEAD"))
    assert int(headers[b"content-length"]) > 0
    assert body == b""


async def test_body_is_not_waited_for(address: tuple[str, int]) -> None:
    """A read request with a body is answered without reading it."""
    extra = (b"Content-Type: application/json", b"Content-Length: 1000000")
    status, _, _ = await ask(address, get(b"/connectors", *extra))
    assert status == b"HTTP/1.1 200 OK"


async def test_upgrades_are_ignored(address: tuple[str, int]) -> None:
    """A request for a websocket gets the plain answer."""
    upgrade = get(b"/connectors", b"Upgrade: websocket").replace(b"close", b"close, Upgrade")
    status, _, _ = await ask(address, upgrade)
    assert status == b"HTTP/1.1 200 OK"


async def test_the_shutdown_does_not_wait_for_idle_connections() -> None:
    """The shutdown does not wait for clients that keep an idle connection."""
    listening = listen("127.0.0.1", 0)
    async with following("life-3.9") as follower:
        async with serving(App(service_of(follower, "3.9")), listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        await reader.read()
        assert reader.at_eof()
        writer.close()
        await writer.wait_closed()


def test_a_port_in_use_is_one_error() -> None:
    """A port in use is one clear error."""
    with listen("127.0.0.1", 0) as taken, pytest.raises(NoListener) as error:
        listen("127.0.0.1", taken.getsockname()[1])
    assert str(error.value).startswith("cannot listen on 127.0.0.1:")
    assert str(error.value).endswith("(Address already in use)")
    assert not error.value.wrong_host


def test_an_invalid_address_is_one_error() -> None:
    """An invalid address is one clear error."""
    for host in ("256.0.0.1", "a..b", f"{'a' * 64}.example"):
        with pytest.raises(NoListener, match=rf"cannot listen on {re.escape(host)}:0") as error:
            listen(host, 0)
        assert error.value.wrong_host


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_printed_url_can_be_requested(host: str, shown: str) -> None:
    """The printed URL leads to the socket; an IPv6 address is in brackets."""
    if host == "::1" and not _has_ipv6():
        host, shown = "localhost", "127.0.0.1"  # a container without IPv6
    with listen(host, 0) as listening:
        assert url_of(listening) == f"http://{shown}:{listening.getsockname()[1]}"
        printed = urlsplit(url_of(listening))
        socket.create_connection((printed.hostname, printed.port or 0)).close()


def _has_ipv6() -> bool:
    try:
        listen("::1", 0).close()
    except NoListener:
        return False
    return True
