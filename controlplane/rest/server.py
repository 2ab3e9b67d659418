"""Serving an ASGI application from a running event loop, on a socket that is ours."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

CONNECTIONS_LIMIT = 1_000
"""Connections at once; further ones are told 503. Each may hold a request that waits for a log."""

IDLE_S = 75
"""How long a connection may rest between two requests: longer than a scrape interval."""

SHUTDOWN_S = 1
"""How long answers under way may take once the service is to end."""


class PortTaken(Exception):
    """The address cannot be listened on. The message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free.

    Raises:
        PortTaken: not this address.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((host, port), family=family)
    except OSError as failure:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({_reason(failure)}): choose another with --port"
        ) from None


def _reason(failure: OSError) -> str:
    """Why, without Python's own repetition of the address."""
    return (failure.strerror or str(failure)).partition(" (")[0]


def url_of(listening: socket.socket) -> str:
    """The address under which a listening socket is reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Whoever embeds the server owns the signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator["asyncio.Task[None]"]:
    """Serve while the block runs. The task ends early only if the server fails."""
    config = uvicorn.Config(
        app,
        access_log=False,
        lifespan="off",
        limit_concurrency=CONNECTIONS_LIMIT,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        timeout_keep_alive=IDLE_S,
        ws="none",
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve([listening]), name="server")
    try:
        yield task
    finally:
        server.should_exit = True
        await task
