"""Responses on a connection: those of h11, in one write if their length is known."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from unittest.mock import create_autospec

import h11
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from controlplane.rest.http.connections import connection_factory
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.server import listen, serving
from tests.patience import PATIENCE_S

HeaderLines = list[tuple[bytes, bytes]]

TYPE = (b"content-type", b"application/json")
BODY = b'{"name":"orders"}'
LENGTH = (b"content-length", b"%d" % len(BODY))

ANSWERS: list[HeaderLines] = [
    [TYPE, LENGTH],
    [LENGTH],
    [TYPE, (b"x-notice", b"one, \xfctwo"), (b"x-notice", b""), LENGTH],
    [TYPE],
    [LENGTH, (b"host", b"a")],
]

REQUEST = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


def by_h11(headers: HeaderLines) -> bytes:
    """Head of a response as h11 writes it."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.next_event()
    return connection.send(h11.Response(status_code=200, headers=headers, reason=b"OK"))


async def numbered(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer request `/N` with the headers of this number."""
    headers = ANSWERS[int(scope["path"].removeprefix("/"))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


@pytest.fixture
async def connection() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of `numbered`."""
    listening = listen("127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), serving(numbered, listening):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        yield reader, writer
        writer.close()


def dateless(response: bytes) -> bytes:
    """A response without the value of its date."""
    return re.sub(rb"(?<=\r\ndate: )[^\r]*", b"", response)


def expected(*numbers: int) -> bytes:
    """The responses to these requests as h11 writes them, without the values of the dates."""
    responses = []
    for number in numbers:
        headers = [(b"date", b""), *ANSWERS[number]]
        body = BODY if LENGTH in headers else b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        responses.append(by_h11(headers) + body)
    return b"".join(responses)


@pytest.mark.parametrize(("number", "writes"), [(0, 1), (2, 1), (3, 3)])
async def test_a_response_of_known_length_leaves_in_one_write(number: int, writes: int) -> None:
    """The head waits for the body only if the length is known: a stream begins at once."""
    config = Config(numbered, lifespan="off", log_config=None)
    config.load()
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    connection = connection_factory(HttpLimits())(config, ServerState(), {})
    connection.connection_made(transport)
    connection.data_received(REQUEST % number)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    written = [call.args[0] for call in transport.write.call_args_list if call.args[0]]
    assert len(written) == writes
    assert b"".join(written).endswith(expected(number)[-len(BODY) :])
    connection.connection_lost(None)


async def test_successive_requests_share_a_connection(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Responses of known length and others follow each other on one connection."""
    reader, writer = connection
    for number in (0, 3, 1, 4, 2, 0, 0):
        writer.write(REQUEST % number)
        response = expected(number)
        received = await reader.readuntil(b"\r\n\r\n")
        rest = len(response) - len(dateless(received))
        assert dateless(received + await reader.readexactly(rest)) == response


async def test_a_request_is_answered_after_one_with_a_body(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """The response may precede the end of the request's body; the next request is answered."""
    reader, writer = connection
    posted = (REQUEST % 0).replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\n%s\r\n\r\nbody")
    for packets in ([posted % b"Content-Length: 4"], [posted % b"Content-Length: 8", b"::::"]):
        for packet in packets:
            writer.write(packet)
            await asyncio.sleep(0.02)
        writer.write(REQUEST % 1)
        for number in (0, 1):
            received = await reader.readuntil(BODY)
            assert dateless(received) == expected(number)


async def test_head_has_no_body(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """The length of a HEAD response is that of the body which the application has sent."""
    reader, writer = connection
    for _ in range(2):
        writer.write((REQUEST % 0).replace(b"GET", b"HEAD"))
        assert dateless(await reader.readuntil(b"\r\n\r\n")) == expected(0).removesuffix(BODY)


@pytest.mark.slow
async def test_pipelined_requests_are_answered_in_order(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Requests in one packet, and in pieces of any size, get their responses in order."""
    reader, writer = connection
    numbers = (0, 1, 2, 3, 0, 0, 4, 1)
    sent = b"".join(REQUEST % number for number in numbers)
    for size in (len(sent), 1, 7, 40):
        for start in range(0, len(sent), size):
            writer.write(sent[start : start + size])
            await asyncio.sleep(0)
        received = b""
        while len(dateless(received)) < len(expected(*numbers)):
            received += await reader.read(1)
        assert dateless(received) == expected(*numbers)


@pytest.mark.parametrize("number", [0, 3])
async def test_the_refusal_after_a_response_is_the_same(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], number: int
) -> None:
    """After either kind of response, an invalid request gets a chunked refusal, as in HTTP/1.1."""
    reader, writer = connection
    writer.write(REQUEST % number)
    await reader.readuntil(expected(number)[-len(BODY) :])
    writer.write(b"GET nowhere\r\n\r\n")
    assert (await reader.read()).endswith(
        b"connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1e\r\nInvalid HTTP request received.\r\n0\r\n\r\n"
    )


async def test_an_offer_of_another_protocol_is_not_logged(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java's HTTP client offers HTTP/2; the answer is that of HTTP/1.1."""
    server_log = logging.getLogger("uvicorn.error")
    for name, usual in (("filters", []), ("disabled", False), ("propagate", True)):
        monkeypatch.setattr(server_log, name, usual)
    caplog.set_level(logging.WARNING, server_log.name)
    reader, writer = connection
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
    writer.write((REQUEST % 0).removesuffix(b"\r\n") + offer)
    received = await reader.readexactly(len(expected(0)) + len("Mon, 30 Nov 2026 10:22:09 GMT"))
    assert dateless(received) == expected(0)
    assert not caplog.records
