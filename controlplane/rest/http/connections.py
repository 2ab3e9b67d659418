"""Client connections: a limit on their number, timeouts for slow clients, coalesced writes."""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.plain_responses import PlainResponder
from controlplane.rest.http.response_cache import EXTENSION, LONGEST, Cacheability, ResponseCache

FILES_BESIDE = 200
"""Open files besides connections: those of the log, of Python and of the event loop, and
connections that are accepted only to be refused (twice `ACCEPTED_AT_ONCE`)."""

ACCEPTED_AT_ONCE = 50
"""Connections that the event loop accepts in one turn."""


def make_room(connections: int) -> int:
    """Raise the file limit of this process for this number of connections.

    Returns the number that it can hold, which is lower if the system allows no more, and at least
    1. If few files are allowed, half of them are reserved for everything else.
    """
    file_limit = connections + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    if soft != unbounded and soft < file_limit:
        soft = file_limit if hard == unbounded else min(file_limit, hard)
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
        cache = ResponseCache()
        head_patience_s = limits.head_patience_ms / 1_000
        answer_patience_s = limits.answer_patience_ms / 1_000
        connections_max = limits.connections_max + at_once(limits.connections_max)

    return LimitedConnection


class _UnambiguousParser(h11.Connection):
    """Refuses a request with two lengths: a proxy may use the other one (request smuggling).

    RFC 9112, section 6.3, lets a server close the connection; h11 would ignore `Content-Length`.
    """

    def next_event(self) -> Any:
        """Return the next event of h11.

        Raises:
            h11.RemoteProtocolError: the request is malformed, or has both headers.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name.lower() for name, _ in event.headers.raw_items()}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event


_MESSAGE = b'{"error_code":503,"message":"Too many connections: try again later"}'

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class CoalescingTransport:
    """Transport that joins the writes of one event loop turn, and records them.

    A response's head and body thus leave in one packet. It buffers and records at most `most`
    bytes; longer or endless answers are not recorded.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._transport = transport
        self._loop = loop
        self._most = most
        self._waiting: list[bytes] = []
        self._written: list[bytes] | None = []
        self._length = 0

    @property
    def written(self) -> bytes | None:
        """Everything that was written; None if it was too long to be recorded."""
        return None if self._written is None else b"".join(self._written)

    def write(self, piece: bytes) -> None:
        """Write at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(piece)
        if sum(map(len, self._waiting)) > self._most:  # the writer must notice a full buffer
            self.flush()

    def flush(self) -> None:
        """Write the buffer now."""
        if self._waiting:
            joined = b"".join(self._waiting)
            self._waiting.clear()
            self._record(joined)
            self._transport.write(joined)

    def close(self) -> None:
        """Close after the buffer is written."""
        self.flush()
        self._transport.close()

    def _record(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._most:
            self._written = None
        if self._written is not None:
            self._written.append(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Connection(H11Protocol):
    """Uvicorn's connection with timeouts; uvicorn itself waits for a client for ever.

    The timeout for a request starts with its first byte; keep-alive covers idle connections. The
    timeout for an answer starts when the write buffer is full. A repeated request with an unchanged
    answer is served from the cache (`response_cache`), without parser and application.
    """

    cache: ResponseCache
    head_patience_s: float
    answer_patience_s: float
    connections_max: int
    """Limit beyond which new connections are closed at once. It is slightly above uvicorn's
    `limit_concurrency`, which refuses requests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = self._parser()
        self._head_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._coalescing: CoalescingTransport | None = None
        self._pending: tuple[bytes, Cacheability] | None = None
        """Request under way, if its answer may be cached."""
        self._cached_at = 0.0
        """Loop time of the last answer from the cache; uvicorn does not see these requests."""
        self._refused = False
        """True if the connection was closed at once; uvicorn then knows nothing of it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self.connections) >= self.connections_max:
            assert isinstance(transport, asyncio.Transport)
            self.transport, self._refused = transport, True
            transport.write(_FULL)
            transport.close()
            return
        super().connection_made(transport)  # type: ignore[arg-type]  # sockets have this type
        self._expect_head()

    def data_received(self, received: bytes) -> None:
        is_idle = self._is_idle
        if is_idle and self._answer_from_cache(received):
            return
        super().data_received(received)
        if is_idle and self.cycle is not None and not self.cycle.response_complete:
            self._coalesce(received)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
        else:
            self._head_timer = _stopped(self._head_timer)

    @property
    def _is_idle(self) -> bool:
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

    def _answer_from_cache(self, request: bytes) -> bool:
        """Answer from the cache; return False if it has no valid answer."""
        answer = self.cache.find(request, self.server_state.default_headers, self._peer)
        if answer is None or self.timeout_keep_alive_task is None:
            return False
        self._cached_at = self.loop.time()
        self.transport.write(answer)
        return True

    def _coalesce(self, request: bytes) -> None:
        """Send the answer in one write, and let the application mark it as cacheable."""
        self._coalescing = CoalescingTransport(self.transport, self.loop, LONGEST)
        self.cycle.transport = self._coalescing  # type: ignore[assignment]  # it has all methods
        if self._was_whole:
            cacheability = Cacheability()
            self.scope["extensions"] = {EXTENSION: cacheability}  # type: ignore[dict-item]
            self._pending = request, cacheability
            responder = PlainResponder(self.cycle, self._expect_next)
            self.cycle.send = responder.send  # type: ignore[method-assign,assignment]

    def _parser(self) -> _UnambiguousParser:
        most = self.config.h11_max_incomplete_event_size
        assert most is not None  # `serving` sets it
        return _UnambiguousParser(h11.SERVER, most)

    def _expect_next(self) -> None:
        """Expect the next request; h11 knows nothing of the response to the one before."""
        before, self.conn = self.conn, self._parser()
        self.conn.their_http_version = before.their_http_version

    def on_response_complete(self) -> None:
        if self._coalescing is not None:
            self._coalescing.flush()
            answer = self._coalescing.written
            if self._pending is not None and answer is not None and not self.transport.is_closing():
                self.cache.keep(*self._pending, answer, self.cycle.default_headers)
        self._coalescing = self._pending = None
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer_timer = self.loop.call_later(self.answer_patience_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer_timer = _stopped(self._answer_timer)

    def timeout_keep_alive_handler(self) -> None:
        left_s = self._cached_at + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:  # the connection was used meanwhile
            again = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(left_s, again)
            return
        super().timeout_keep_alive_handler()
        # The buffer may still be sent, but not for ever.
        self._answer_timer = self.loop.call_later(self.answer_patience_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer = _stopped(self._head_timer)
        self._answer_timer = _stopped(self._answer_timer)
        if not self._refused:
            super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_patience_s, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer. Returns None to replace the reference."""
    if timer is not None:
        timer.cancel()
    return None
