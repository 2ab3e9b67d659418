"""Serving an ASGI application from a running event loop, on a socket that is ours."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from controlplane.rest.connections import connection_class
from controlplane.rest.security.settings import HttpLimits

HEADS_HELD = 8
"""How many times the longest head that is answered is read, so that its refusal can be told; what
is longer still ends the connection."""


class PortTaken(Exception):
    """The address cannot be listened on. The message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free.

    Raises:
        PortTaken: not this address.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((host, port), family=family)
    except OSError as failure:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({_reason(failure)}): choose another with --port"
        ) from None
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
        app,
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
