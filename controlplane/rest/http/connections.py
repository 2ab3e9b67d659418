"""Client connections: a limit on their number, timeouts for slow clients."""

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.plain_responses import PlainResponder
from controlplane.rest.http.response_cache import EXTENSION, Cacheability, ResponseCache

FILES_BESIDE = 200
"""Open files besides connections: those of the log, of Python and of the event loop, and
connections that are accepted only to be refused (twice `ACCEPTED_AT_ONCE`)."""

ACCEPTED_AT_ONCE = 50
"""Connections that the event loop accepts in one turn."""


def make_room(connections: int) -> int:
    """Raise the file limit of this process for this number of connections.

    Returns the number of connections that the process can hold: at least 1, and fewer than
    requested if the system allows no more. If few files are allowed, half of them are reserved for
    everything else.
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
        if type(event) is h11.Request:
            names = {name for name, _ in event.headers}
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event


_MESSAGE = b'{"error_code":503,"message":"Too many connections: try again later"}'

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
        self._cached_at = 0.0
        """Loop time of the last answer from the cache; uvicorn does not see these requests."""

    def _parser(self) -> _UnambiguousParser:
        most = self.config.h11_max_incomplete_event_size
        assert most is not None  # `serving` sets it
        return _UnambiguousParser(h11.SERVER, most)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        if len(self.connections) < self.connections_max:
            super().connection_made(transport)
            self._expect_head()
        else:
            self.transport = transport
            transport.write(_FULL)
            transport.close()

    def data_received(self, received: bytes) -> None:
        if self.transport.is_closing():  # TLS passes on bytes that it decrypted before the close
            return
        # Idle: the next byte begins a request. After an answer that was sent before the end of its
        # request's body, the next byte still belongs to that body.
        is_idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if is_idle and not self.flow.write_paused and self._answer_from_cache(received):
            return
        super().data_received(received)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
            return
        self._head_timer = _stopped(self._head_timer)
        if is_idle and self.scope["method"] != "HEAD":
            self._respond_plainly(received)

    def _answer_from_cache(self, request: bytes) -> bool:
        """Answer from the cache; return False if it has no valid answer."""
        peer = self.client[0] if self.client else None
        answer = self.cache.find(request, self.server_state.default_headers, peer)
        if answer is None or self.timeout_keep_alive_task is None:
            return False
        self._cached_at = self.loop.time()
        self.transport.write(answer)
        return True

    def _respond_plainly(self, received: bytes) -> None:
        """Send a plain response in one write; the application may mark it as cacheable.

        Only bytes that are one whole request may be answered from the cache. The bytes were read
        in an idle state, so the same bytes parse to the same request.
        """
        cacheability = Cacheability()
        is_whole = self.conn.their_state is h11.DONE and not self.conn.trailing_data[0]
        if is_whole and self.scope["method"] == "GET":
            self.scope["extensions"] = {EXTENSION: cacheability}  # type: ignore[dict-item]

        def write(response: bytes) -> None:
            self.transport.write(response)
            self.cache.keep(received, cacheability, response, self.cycle.default_headers)
            before, self.conn = self.conn, self._parser()
            self.conn.their_http_version = before.their_http_version

        # uvicorn creates the cycle. Its task reads `send` when it starts: after this turn.
        self.cycle.send = PlainResponder(self.cycle, write).send  # type: ignore[method-assign,assignment]

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
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_patience_s, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer. Returns None to replace the reference."""
    if timer is not None:
        timer.cancel()
    return None
