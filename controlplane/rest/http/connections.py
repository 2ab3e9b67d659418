"""Client connections: a limit on their number, and timeouts for slow clients."""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.rest.http.response_cache import EXTENSION, LONGEST, Repeat, Repeats
from controlplane.rest.http.write_coalescing import Gathering
from controlplane.rest.security.settings import HttpLimits

FILES_BESIDE = 200
"""Open files beside connections: those of the log, of Python, of the event loop, and of connections
that are accepted only to be refused (`ACCEPTED_AT_ONCE`, twice)."""

ACCEPTED_AT_ONCE = 50
"""Connections that the event loop accepts in one turn."""


def make_room(connections: int) -> int:
    """Raise the file limit of this process for so many connections.

    Returns the number that it can hold, which is lower if the system allows no more, and at least
    1. If few files are allowed, half of them are reserved for everything else.
    """
    wanted = connections + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    if soft != unbounded and soft < wanted:
        soft = wanted if hard == unbounded else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == unbounded:
        return connections
    return max(1, min(connections, soft - min(FILES_BESIDE, soft // 2)))


def at_once(connections: int) -> int:
    """Return the number of connections to accept per turn of the event loop."""
    return max(1, min(ACCEPTED_AT_ONCE, connections // 4))


def connection_class(limits: HttpLimits) -> type[asyncio.Protocol]:
    """Return a connection protocol with these limits."""

    class LimitedConnection(_Connection):
        repeats = Repeats()
        head_patience_s = limits.head_patience_ms / 1_000
        answer_patience_s = limits.answer_patience_ms / 1_000
        connections_max = limits.connections_max + at_once(limits.connections_max)

    return LimitedConnection


class _UnambiguousParser(h11.Connection):
    """Refuses a request with two lengths: a proxy may believe the other one (smuggling).

    RFC 9112, section 6.3, lets a server close the connection; h11 would ignore `Content-Length`.
    """

    def next_event(self) -> Any:
        """Return the next event of h11.

        Raises:
            h11.RemoteProtocolError: the request is malformed, or has both headers.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event


_MESSAGE = b'{"error_code":503,"message":"Too many connections: ask again later"}'

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class _Connection(H11Protocol):
    """Uvicorn's connection with timeouts; uvicorn itself waits for a client for ever.

    The timeout for a request starts with its first byte; keep-alive covers idle connections. The
    timeout for an answer starts when the write buffer is full. A repeated request with an unchanged
    answer is served from the cache (`response_cache`), without parser and application.
    """

    repeats: Repeats
    head_patience_s: float
    answer_patience_s: float
    connections_max: int
    """Limit beyond which new connections are closed at once. It is slightly above uvicorn's
    `limit_concurrency`, which refuses requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        most = self.config.h11_max_incomplete_event_size
        assert most is not None  # `serving` sets it
        self.conn = _UnambiguousParser(h11.SERVER, most)
        self._until_head: asyncio.TimerHandle | None = None
        self._until_taken: asyncio.TimerHandle | None = None
        self._gathering: Gathering | None = None
        self._asked: tuple[bytes, Repeat] | None = None
        """Request under way, if its answer may be cached."""
        self._repeated_at = 0.0
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self.connections) >= self.connections_max:
            assert isinstance(transport, asyncio.Transport)
            self.transport, self._refused = transport, True
            transport.write(_FULL)
            transport.close()
            return
        super().connection_made(transport)  # type: ignore[arg-type]  # a socket has one of these
        self._expect_head()

    def data_received(self, received: bytes) -> None:
        rests = self._rests
        if rests and self._repeated(received):
            return
        super().data_received(received)
        if rests and self.cycle is not None and not self.cycle.response_complete:
            self._gather(received)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
        else:
            self._until_head = _stopped(self._until_head)

    @property
    def _rests(self) -> bool:
        """True if the next byte begins a request, and its answer can be sent at once.

        False if an answer was sent before the end of its request's body.
        """
        begins = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        return begins and not self.flow.write_paused

    @property
    def _peer(self) -> str | None:
        return self.client[0] if self.client else None

    @property
    def _was_whole(self) -> bool:
        """True if the last received bytes were exactly one request.

        The parser has confirmed it from an idle state, so the same bytes parse to the same request.
        """
        whole = self.conn.their_state is h11.DONE and not self.conn.trailing_data[0]
        return whole and self.scope["method"] == "GET"

    def _repeated(self, request: bytes) -> bool:
        """Answer from the cache; return False if it has no valid answer."""
        answer = self.repeats.find(request, self.server_state.default_headers, self._peer)
        if answer is None or self.timeout_keep_alive_task is None:
            return False
        self._repeated_at = self.loop.time()
        self.transport.write(answer)
        return True

    def _gather(self, request: bytes) -> None:
        """Send the answer in one write, and offer the application to cache it."""
        self._gathering = Gathering(self.transport, self.loop, LONGEST)
        self.cycle.transport = self._gathering  # type: ignore[assignment]  # it does what is needed
        if self._was_whole:
            repeat = Repeat()
            self.scope["extensions"] = {EXTENSION: repeat}  # type: ignore[dict-item]
            self._asked = request, repeat

    def on_response_complete(self) -> None:
        if self._gathering is not None:
            self._gathering.flush()
            answer = self._gathering.written
            if self._asked is not None and answer is not None and not self.transport.is_closing():
                self.repeats.keep(*self._asked, answer, self.cycle.default_headers)
        self._gathering = self._asked = None
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._until_taken = self.loop.call_later(self.answer_patience_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._until_taken = _stopped(self._until_taken)

    def timeout_keep_alive_handler(self) -> None:
        left_s = self._repeated_at + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:  # the connection was used meanwhile
            ring = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(left_s, ring)
            return
        super().timeout_keep_alive_handler()
        # The buffer may still be sent, but not for ever.
        self._until_taken = self.loop.call_later(self.answer_patience_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._until_head = _stopped(self._until_head)
        self._until_taken = _stopped(self._until_taken)
        if not self._refused:
            super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._until_head is None:
            self._until_head = self.loop.call_later(self.head_patience_s, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer. Returns None to replace the reference."""
    if timer is not None:
        timer.cancel()
    return None
