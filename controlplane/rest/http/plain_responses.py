"""Plain responses: a head with its body, in one write and without h11.

A small read would take an eighth longer with h11. The bytes are those that uvicorn and h11 write.
uvicorn and h11 write all other responses: streams, `HEAD`, a response that ends its connection.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import h11
from starlette.types import Message
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

from controlplane.rest.errors import ACCEPTED, BAD_REQUEST, CREATED, OK

_FRAMING = frozenset({b"connection", b"host", b"transfer-encoding", b"upgrade"})
"""Headers that h11 reads, completes or moves."""

_LENGTH = b"content-length"

HeaderLines = list[tuple[bytes, bytes]]
"""Names and values of a head, in their order."""


class PlainResponder:
    """Sends the response to one request, in place of uvicorn's `send`.

    `write` gets the bytes of a plain response before uvicorn learns of it. The parser never learns
    of the response, so the next request needs a new parser.
    """

    def __init__(self, cycle: RequestResponseCycle, write: Callable[[bytes], None]) -> None:
        self._cycle = cycle
        self._write = write
        self._send: Callable[[Any], Any] = cycle.send
        self._start: Message | None = None
        """Head of a response with a known length; it waits for the body."""

    async def send(self, message: Message) -> None:
        """Send a part of the response (ASGI)."""
        start, self._start = self._start, None
        if start is None and _has_length(message):
            self._start = message
        elif start is None:
            await self._send(message)
        elif self._waits and (response := self._plain(start, message)):
            self._cycle.response_started = self._cycle.response_complete = True
            self._cycle.message_event.set()
            self._write(response)
            self._cycle.on_response()
        else:
            await self._send(start)
            await self._send(message)

    @property
    def _waits(self) -> bool:
        """True if the client waits for this response alone, and may then send the next request."""
        cycle = self._cycle
        is_next = cycle.conn.their_state is h11.DONE and not cycle.conn.trailing_data[0]
        is_open = cycle.keep_alive and not cycle.disconnected
        return (
            is_next and is_open and not (cycle.waiting_for_100_continue or cycle.flow.write_paused)
        )

    def _plain(self, start: Message, message: Message) -> bytes | None:
        """Return the whole response; None if it is not plain."""
        if message["type"] != "http.response.body" or message.get("more_body", False):
            return None
        body: bytes = message.get("body", b"")
        headers = [*self._cycle.default_headers, *start["headers"]]
        head = head_of(start["status"], headers, len(body))
        return None if head is None else head + body


def _has_length(message: Message) -> bool:
    """Return True if a message begins a response of known length."""
    begins = message["type"] == "http.response.start"
    return begins and any(name == _LENGTH for name, _ in message["headers"])


def head_of(status: int, headers: HeaderLines, length: int) -> bytes | None:
    """Return the head of a response as h11 writes it; None if the headers are not plain."""
    # Other statuses may have no body, whatever their length says.
    has_body = status in (OK, CREATED, ACCEPTED) or status >= BAD_REQUEST
    if not has_body or sum(name == _LENGTH for name, _ in headers) != 1:
        return None
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, STATUS_PHRASES[status])]
    for name, value in headers:
        if value != b"%d" % length if name == _LENGTH else not _is_plain(name, value):
            return None
        lines.append(b"%s: %s\r\n" % (name, value))
    return b"".join(lines) + b"\r\n"


@lru_cache(256)
def _is_plain(name: bytes, value: bytes) -> bool:
    """Return True if h11 sends this header unchanged, and nothing else because of it."""
    try:
        h11.Response(status_code=OK, headers=[(name, value)])
    except h11.LocalProtocolError:
        return False
    return name.lower() not in _FRAMING
