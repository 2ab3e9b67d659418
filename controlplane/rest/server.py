"""Serving an ASGI application from a running event loop, on a socket that is ours."""

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
from starlette.types import ASGIApp

from controlplane.observe import Logger
from controlplane.rest.connections import at_once, connection_class
from controlplane.rest.ending import Ending
from controlplane.rest.security.settings import HttpLimits

HEADS_HELD = 8
"""How many times the longest head that is answered is read, so that its refusal can be told; what
is longer still ends the connection."""


CONNECTIONS_WAITING = 2_048
"""Connections that the system lets wait to be accepted."""

_OUT_OF_FILES = "socket.accept() out of system resource"
"""The message of asyncio where a connection cannot be accepted. It tries again in a second."""

_OVER_LIMIT = "Exceeded concurrency limit."
"""The line of uvicorn for each request that it refuses because of too many connections."""

FULL_TOLD_EVERY_S = 60
"""Seconds between two log lines about connections that are not accepted, or are refused."""


class NoListener(Exception):
    """An address cannot be listened on. The message says where, and why."""

    def __init__(self, host: str, port: int, failure: OSError) -> None:
        self.wrong_host = isinstance(failure, socket.gaierror) or failure.errno in _OF_HOSTS
        """Whether the host is to blame, and not the port."""
        why = "this machine has no such address" if self.wrong_host else _reason(failure)
        if isinstance(failure, socket.gaierror):
            why = f"{host!r} is no address, and no name that is known here"
        super().__init__(f"cannot listen on {host}:{port} ({why})")


_OF_HOSTS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
"""Failures of a socket because of its host: other machines' addresses, IPv6 where there is none."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free.

    Raises:
        NoListener: not on this address.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((host, port), family=family)
    except OSError as failure:
        raise NoListener(host, port, failure) from None
    # Connections inherit it; asyncio sets it only on sockets that name their protocol. Without it
    # the body of an answer waits until its head has been acknowledged, for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _reason(failure: OSError) -> str:
    """Why, without Python's own repetition of the address."""
    return (failure.strerror or str(failure)).partition(" (")[0]


def url_of(listening: socket.socket, *, encrypted: bool = False) -> str:
    """The address under which a listening socket is reached."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Server(uvicorn.Server):
    """Whoever embeds the server owns the signals."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, with room for connections that wait to be accepted.

        To the event loop the backlog is also the number of connections to accept in one turn.
        """
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(CONNECTIONS_WAITING)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Seldom:
    """True at the first call, and again once `FULL_TOLD_EVERY_S` have passed since."""

    def __init__(self) -> None:
        self._last_s = -math.inf

    def __call__(self) -> bool:
        now_s = monotonic()
        if now_s - self._last_s <= FULL_TOLD_EVERY_S:
            return False
        self._last_s = now_s
        return True


class _FewRefusals(logging.Filter):
    """Passes few of the lines that uvicorn logs, one for each request over `limit_concurrency`."""

    def __init__(self) -> None:
        super().__init__()
        self._seldom = _Seldom()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged."""
        return record.msg != _OVER_LIMIT or self._seldom()


def tell_of_full(logger: Logger) -> None:
    """Log connections that cannot be accepted or are refused in one line, however many there are.

    This becomes the exception handler of the running event loop.
    """
    seldom = _Seldom()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") != _OUT_OF_FILES:
            loop.default_exception_handler(context)
        elif seldom():
            reason = f"{context.get('exception')}: raise `ulimit -n`, or lower http.connections.max"
            logger.warning("connections_not_accepted", reason=reason)

    asyncio.get_running_loop().set_exception_handler(handle)
    logging.getLogger("uvicorn.error").addFilter(_FewRefusals())


@asynccontextmanager
async def serving(
    app: ASGIApp,
    listening: socket.socket,
    limits: HttpLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator["asyncio.Task[None]"]:
    """Serve while the block runs, encrypted if `tls` says how.

    The task ends early only if the server fails.
    """
    limits = limits or HttpLimits()
    config = uvicorn.Config(
        Ending(app),
        backlog=at_once(limits.connections_max),
        http=connection_class(limits),
        access_log=False,
        h11_max_incomplete_event_size=HEADS_HELD * limits.head_max_bytes,
        lifespan="off",
        limit_concurrency=limits.connections_max,
        log_config=None,
        proxy_headers=False,  # whoever connects is who he is: `auth.proxy.addresses` builds on it
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
    """Whole seconds, as uvicorn takes them; at least one."""
    return max(1, round(duration_ms / 1_000))
