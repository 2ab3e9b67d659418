"""Plain responses: written in one piece, without the state machine of h11.

That takes a sixth of the time of a small read. The bytes are those that uvicorn and h11 write. They
write every other response themselves: streams, `HEAD`, a response that ends its connection.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import h11
from starlette.types import Message
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

from controlplane.rest.errors import BAD_REQUEST, OK

_LENGTH = b"content-length"

_FRAMING = frozenset({b"connection", b"host", b"transfer-encoding", b"upgrade"})
"""Headers that h11 reads, completes or moves."""

HeaderLines = list[tuple[bytes, bytes]]
"""Names and values of a head, in their order."""


class PlainResponder:
    """Sends the response to one request, which a connection has received as a whole.

    The request is a GET that leaves its connection open. `completed` is called before uvicorn
    learns of a plain response: the connection then expects the next request.
    """

    def __init__(self, cycle: RequestResponseCycle, completed: Callable[[], None]) -> None:
        self._cycle = cycle
        self._completed = completed
        self._send: Callable[[Any], Any] = cycle.send
        self._start: Message | None = None
        """Head of a response with a known length; it waits for the body."""

    async def send(self, message: Message) -> None:
        """Send a part of the response (ASGI)."""
        cycle = self._cycle
        if self._start is None and not cycle.response_started and _has_length(message):
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            response = self._plain(start, message) if self._is_open() else None
            if response is not None:
                cycle.response_started = cycle.response_complete = True
                cycle.message_event.set()
                cycle.transport.write(response)
                self._completed()
                cycle.on_response()
                return
            await self._send(start)
        await self._send(message)

    def _is_open(self) -> bool:
        """True if the client waits for this response, and has not sent its next request yet."""
        cycle = self._cycle
        usual = cycle.keep_alive and not cycle.waiting_for_100_continue
        waits = not cycle.disconnected and not cycle.conn.trailing_data[0]
        return usual and waits and not cycle.flow.write_paused

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
    has_body = status == OK or status >= BAD_REQUEST  # others may have none, despite their length
    if not has_body or sum(name == _LENGTH for name, _ in headers) != 1:
        return None
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, STATUS_PHRASES[status])]
    for name, value in headers:
        if value != b"%d" % length if name == _LENGTH else not _is_plain(name, value):
            return None
        lines.append(b"%s: %s\r\n" % (name, value))
    lines.append(b"\r\n")
    return b"".join(lines)


@lru_cache(256)
def _is_plain(name: bytes, value: bytes) -> bool:
    """Return True if h11 sends this header unchanged, and nothing else because of it."""
    try:
        h11.Response(status_code=OK, headers=[(name, value)])
    except h11.LocalProtocolError:
        return False
    return name.lower() not in _FRAMING
