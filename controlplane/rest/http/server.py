"""HTTP server: serves an ASGI application in a running event loop, on a given socket."""

import asyncio
import errno
import logging
import math
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from controlplane.observe import Logger
from controlplane.rest.errors import ShuttingDown
from controlplane.rest.http.connections import at_once, connection_factory
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.messages import read_request, response

HEAD_READ_FACTOR = 8
"""Multiple of the head limit up to which a head is read, so that its refusal can be sent. A longer
head ends the connection."""

CONNECTIONS_WAITING = 2_048
"""Backlog of the listening socket."""

CANCELLED_WITHIN_S = 1.0
"""Maximum seconds that the shutdown waits for the end of cancelled requests."""

_OUT_OF_FILES = "socket.accept() out of system resource"
"""Message of asyncio when a connection cannot be accepted. asyncio retries after a second."""

_OVER_LIMIT = "Exceeded concurrency limit."
"""Log line of uvicorn for each request that it refuses because of too many connections."""

REFUSALS_LOGGED_EVERY_S = 60
"""Minimum seconds between two log lines about refused connections."""


class NoListener(Exception):
    """An address cannot be listened on. The message names the address and the reason."""

    def __init__(self, host: str, port: int, failure: OSError) -> None:
        self.wrong_host = isinstance(failure, socket.gaierror) or failure.errno in _HOST_ERRORS
        """True if the host is the cause, and not the port."""
        why = "this machine has no such address" if self.wrong_host else _reason(failure)
        if isinstance(failure, socket.gaierror):
            why = f"{host!r} is neither an address nor a known name"
        super().__init__(f"cannot listen on {host}:{port} ({why})")


_HOST_ERRORS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""Socket errors that are caused by the host: another machine's address, or IPv6 without support."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free port.

    Raises:
        NoListener: the address cannot be used.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((host, port), family=family)
    except UnicodeError as failure:  # the host cannot be encoded as a domain name
        raise NoListener(host, port, socket.gaierror(str(failure))) from None
    except OSError as failure:
        raise NoListener(host, port, failure) from None
    # Connections inherit TCP_NODELAY; asyncio sets it only on sockets that name their protocol.
    # Without it, the body of an answer waits for 40 ms, until its head has been acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _reason(failure: OSError) -> str:
    """Return the reason without Python's repetition of the address."""
    return (failure.strerror or str(failure)).partition(" (")[0]


def url_of(listening: socket.socket, *, encrypted: bool = False) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Server(uvicorn.Server):
    """Uvicorn server without signal handlers: the embedding program handles signals."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen again, with a long backlog.

        `serving` gives uvicorn a short `backlog`, because the event loop accepts that many
        connections per turn.
        """
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(CONNECTIONS_WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Cancel what exceeds the timeout, and cut off clients that do not read their answer.

        The end of a cancelled answer cannot be sent to such a client.
        """
        await super().shutdown(sockets)
        for connection in self.server_state.connections.copy():
            if isinstance(connection, H11Protocol) and connection.flow.write_paused:
                connection.transport.abort()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks.copy(), timeout=CANCELLED_WITHIN_S)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _RateLimit:
    """Rate limit: true at the first call, and again after `REFUSALS_LOGGED_EVERY_S`."""

    def __init__(self) -> None:
        self._last_s = -math.inf

    def __call__(self) -> bool:
        now_s = monotonic()
        if now_s - self._last_s <= REFUSALS_LOGGED_EVERY_S:
            return False
        self._last_s = now_s
        return True


def log_refused_connections(logger: Logger) -> None:
    """Log refused connections and requests at a limited rate.

    This becomes the exception handler of the running event loop. It also filters uvicorn's lines.
    """
    may_log, may_log_request = _RateLimit(), _RateLimit()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") != _OUT_OF_FILES:
            loop.default_exception_handler(context)
        elif may_log():
            reason = f"{context.get('exception')}: raise `ulimit -n`, or lower http.connections.max"
            logger.warning("connections_not_accepted", reason=reason)

    asyncio.get_running_loop().set_exception_handler(handle)
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: record.msg != _OVER_LIMIT or may_log_request()
    )


class ShutdownResponder:
    """Answers cancelled requests in Connect's words; the server cancels them at its timeout."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application (ASGI). If it is cancelled, send an error, or end a begun answer."""
        started = ended = False

        async def sending(message: Message) -> None:
            nonlocal started, ended
            started = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if not started:
                refusal = ShuttingDown(compat=read_request(scope).compat)
                await response(refusal.answer(), scope["method"])(scope, receive, send)
            elif not ended:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def serving(
    app: ASGIApp,
    listening: socket.socket,
    limits: HttpLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator["asyncio.Task[None]"]:
    """Serve while the block runs, with TLS if given.

    The task ends early only if the server fails.
    """
    limits = limits or HttpLimits()
    config = uvicorn.Config(
        ShutdownResponder(app),
        backlog=at_once(limits.connections_max),
        http=connection_factory(limits),
        access_log=False,
        h11_max_incomplete_event_size=HEAD_READ_FACTOR * limits.head_max_bytes,
        lifespan="off",
        limit_concurrency=limits.connections_max,
        log_config=None,
        proxy_headers=False,  # `auth.proxy.addresses` needs the real peer address
        server_header=False,
        ssl_context_factory=None if tls is None else lambda *_: tls,
        timeout_graceful_shutdown=_seconds(limits.shutdown_ms),
        timeout_keep_alive=_seconds(limits.idle_ms),
        ws="none",
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([listening]), name="server")
    try:
        yield task
    finally:
        server.should_exit = True
        await task


def _seconds(duration_ms: int) -> int:
    """Round to whole seconds for uvicorn; at least one."""
    return max(1, round(duration_ms / 1_000))
