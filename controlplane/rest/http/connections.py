"""Client connections: a limit on their number, timeouts for slow clients."""

import asyncio
import resource
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.response_cache import EXTENSION, Cacheability, ResponseCache

FILES_BESIDE = 200
"""Number of files that a process may open besides its regular connections.

Regular connections are those up to the maximum (`HttpLimits.connections_max`). Other open files are
files of the log, of Python and of the event loop. Connections above the maximum also need files.
There are two groups of them:

- Up to `ACCEPTED_AT_ONCE` of them stay open until their first request. The request gets 503, and
  the connection is closed.
- If this group is full, the event loop answers 503 as soon as it accepts a connection, and closes
  the connection. Up to `ACCEPTED_AT_ONCE` are open in one turn.
"""

ACCEPTED_AT_ONCE = 50
"""Connections that the event loop accepts in one turn."""


def make_room(connections: int) -> int:
    """Raise the file limit of this process for this number of connections.

    Returns the number of connections that the process can hold. It is at least 1, and lower than
    requested if the system allows no more. If few files are allowed, half of them are reserved for
    everything else.
    """
    files = connections + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(1, min(connections, files - min(FILES_BESIDE, files // 2)))


def at_once(connections: int) -> int:
    """Return the number of connections to accept per turn of the event loop."""
    return max(1, min(ACCEPTED_AT_ONCE, connections // 4))


def connection_factory(limits: HttpLimits) -> Any:
    """Return a factory of connections with these limits and one shared cache.

    uvicorn takes the factory in place of a protocol class.
    """
    return partial(_Connection, limits, ResponseCache())


class _HttpParser(h11.Connection):
    """Parser and writer of h11 with two additions.

    - It refuses a request with two lengths, because a proxy may use the other one (request
      smuggling). RFC 9112, section 6.3, lets a server close the connection; h11 would ignore
      `Content-Length`.
    - The head of a response with `Content-Length` is sent with its body: one write instead of two.
    """

    response = b""
    """Bytes of the last response, if it had a known length and was sent in one piece."""
    _head = b""

    def next_event(self) -> Any:
        event = super().next_event()
        if type(event) is h11.Request:
            names = {name for name, _ in event.headers}
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding")
        return event

    def send(self, event: Any) -> Any:
        sent = super().send(event)
        if type(event) is h11.Response and b"\r\ncontent-length: " in sent:
            self._head, sent = sent, b""
        elif type(event) is h11.Data:
            self.response, self._head = self._head and self._head + sent, b""
            return self.response or sent
        return sent


_MESSAGE = b'{"error_code":503,"message":"Too many connections: try again later"}'

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class _Connection(H11Protocol):
    """Uvicorn's connection with timeouts; uvicorn itself waits for a client for ever.

    The timeout for the first request starts with the connection; for a later one, with its first
    byte. The keep-alive timeout covers idle connections. The timeout for an answer starts when the
    write buffer is full. A repeated request with an unchanged answer is served from the cache
    (`response_cache`), without parser and application.
    """

    def __init__(self, limits: HttpLimits, cache: ResponseCache, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        most = self.config.h11_max_incomplete_event_size or 0
        self.conn: _HttpParser = _HttpParser(h11.SERVER, most)
        self._limits = limits
        self._cache = cache
        self._question: tuple[bytes, Cacheability] | None = None
        """Request that is being answered, if its answer may be cached."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._cached_at = 0.0
        """Loop time of the last answer from the cache; uvicorn does not see these requests."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        # At the maximum uvicorn refuses requests. Connections far enough above it are closed here.
        most = self._limits.connections_max
        if len(self.connections) < most + at_once(most):
            super().connection_made(transport)
            self._start("head", self._limits.head_patience_ms)
        else:
            self.transport = transport
            transport.write(_FULL)
            transport.close()

    def data_received(self, received: bytes) -> None:
        if self.transport.is_closing():  # TLS passes on bytes that it decrypted before the close
            return
        # In state IDLE, the next byte begins a request. In another state, it may belong to the body
        # of a request that was answered before its body had ended.
        is_idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if is_idle and self.timeout_keep_alive_task is not None and not self.flow.write_paused:
            peer = self.client[0] if self.client else None
            answer = self._cache.find(received, self.server_state.default_headers, peer)
            if answer is not None:
                self._cached_at = self.loop.time()
                self.transport.write(answer)
                return
        super().data_received(received)
        if self.cycle is None or self.cycle.response_complete:
            self._start("head", self._limits.head_patience_ms)
            return
        self._stop("head")
        # The cache compares raw bytes, so it keeps only bytes that are exactly one request.
        is_whole = self.conn.their_state is h11.DONE and not self.conn.trailing_data[0]
        if is_idle and is_whole and self.scope["method"] == "GET":
            self._question = received, Cacheability()
            # The application reads its scope after this turn.
            self.scope["extensions"] = {EXTENSION: self._question[1]}  # type: ignore[dict-item]

    def on_response_complete(self) -> None:
        # In state DONE the connection stays open. In other states the answer has announced that the
        # connection ends, so it must not be cached.
        if self._question is not None and self.conn.our_state is h11.DONE:
            self._cache.keep(*self._question, self.conn.response, self.cycle.default_headers)
        self._question, self.conn.response = None, b""
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("answer", self._limits.answer_patience_ms)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("answer")

    def timeout_keep_alive_handler(self) -> None:
        left_s = self._cached_at + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:  # the connection was used meanwhile
            again = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(left_s, again)
            return
        super().timeout_keep_alive_handler()
        # The buffer may still be sent, but not for ever.
        self._start("answer", self._limits.answer_patience_ms)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("head")
        self._stop("answer")
        super().connection_lost(exc)

    def _should_upgrade(self) -> bool:
        """Return False: no other protocol is served. Java's client offers HTTP/2 in this way.

        Uvicorn's method would log two warnings for each such request.
        """
        return False

    def _start(self, timer: str, patience_ms: int) -> None:
        """Close the connection after this time, unless the timer is stopped or runs already."""
        if timer not in self._timers:
            after_s = patience_ms / 1_000
            self._timers[timer] = self.loop.call_later(after_s, self.transport.abort)

    def _stop(self, timer: str) -> None:
        if timer in self._timers:
            self._timers.pop(timer).cancel()
