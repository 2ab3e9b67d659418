"""Responses that are written without h11, byte for byte equal to those of h11."""

import asyncio
import re
from collections.abc import AsyncIterator

import h11
import pytest
from starlette.types import Receive, Scope, Send

from controlplane.rest.http.plain_responses import HeaderLines, head_of
from controlplane.rest.http.server import listen, serving
from tests.patience import PATIENCE_S

TYPE = (b"content-type", b"application/json")
BODY = b'{"name":"orders"}'
LENGTH = (b"content-length", b"%d" % len(BODY))

PLAIN: dict[str, HeaderLines] = {
    "typed": [TYPE, LENGTH],
    "without a type": [LENGTH],
    "notices": [TYPE, (b"x-notice", b"one, \xfctwo"), (b"x-notice", b""), LENGTH],
}

LEFT_TO_H11: dict[str, HeaderLines] = {
    "no length": [TYPE],
    "two lengths": [LENGTH, LENGTH],
    "another length": [(b"content-length", b"18")],
    "the length otherwise": [(b"content-length", b"017")],
    "chunked": [LENGTH, (b"transfer-encoding", b"chunked")],
    "closes": [LENGTH, (b"connection", b"close")],
    "closes, in capitals": [LENGTH, (b"Connection", b"close")],
    "moved to the front": [LENGTH, (b"host", b"a")],
    "two lines in one value": [LENGTH, (b"x-notice", b"one\r\nx-other: two")],
    "a null character": [LENGTH, (b"x-notice", b"\0")],
    "a space in a name": [LENGTH, (b"x notice", b"one")],
    "a space at the end": [LENGTH, (b"x-notice", b"one ")],
}

REQUEST = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


def by_h11(status: int, reason: bytes, headers: HeaderLines) -> bytes:
    """Head of a response as h11 writes it."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.next_event()
    return connection.send(h11.Response(status_code=status, headers=headers, reason=reason))


@pytest.mark.parametrize("headers", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize(
    ("status", "reason"), [(200, b"OK"), (202, b"Accepted"), (500, b"Internal Server Error")]
)
def test_the_head_is_that_of_h11(status: int, reason: bytes, headers: HeaderLines) -> None:
    """Status line, names, values and their order are the same."""
    assert head_of(status, headers, len(BODY)) == by_h11(status, reason, headers)


@pytest.mark.parametrize("headers", LEFT_TO_H11.values(), ids=LEFT_TO_H11)
def test_headers_that_h11_changes_or_refuses_are_left_to_it(headers: HeaderLines) -> None:
    """`head_of` returns None for such headers."""
    assert head_of(200, headers, len(BODY)) is None


def test_statuses_without_a_body_are_left_to_h11() -> None:
    """`head_of` makes no head for these statuses."""
    assert head_of(204, [(b"content-length", b"0")], 0) is None
    assert head_of(304, [LENGTH], len(BODY)) is None


ANSWERS: list[HeaderLines] = [*PLAIN.values(), [TYPE], [LENGTH, (b"host", b"a")]]


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
        responses.append(by_h11(200, b"OK", headers) + body)
    return b"".join(responses)


async def test_requests_one_after_the_other(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Plain responses and others follow each other on one connection."""
    reader, writer = connection
    for number in (0, 3, 1, 4, 2, 0, 0):
        writer.write(REQUEST % number)
        response = expected(number)
        received = await reader.readuntil(b"\r\n\r\n")
        rest = len(response) - len(dateless(received))
        assert dateless(received + await reader.readexactly(rest)) == response


async def test_a_request_with_a_body(
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
async def test_requests_that_do_not_wait(
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
async def test_the_refusal_after_a_response(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], number: int
) -> None:
    """The refusal is the same as after any other response: the client speaks HTTP/1.1."""
    reader, writer = connection
    writer.write(REQUEST % number)
    await reader.readuntil(expected(number)[-len(BODY) :])
    writer.write(b"GET nowhere\r\n\r\n")
    assert (await reader.read()).endswith(
        b"connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1e\r\nInvalid HTTP request received.\r\n0\r\n\r\n"
    )
