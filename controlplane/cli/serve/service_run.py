"""Serving of an open log over HTTP, until SIGINT, SIGTERM or SIGHUP."""

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from ipaddress import ip_address
from typing import NamedTuple

import msgspec

from controlplane.cli.serve.serve_options import ServeOptions
from controlplane.event_loop import cancel_on_signals, now_ms
from controlplane.garbage_collection import freeze_long_lived
from controlplane.logger_levels import LOGGER, Loggers
from controlplane.logs.log import ReadableLog
from controlplane.observe import Logger, RepeatedWarnings, StdlibLogBridge, logger
from controlplane.rest.http.connections import make_room
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.http.server import (
    NoListener,
    listen,
    log_refused_connections,
    serving,
    url_of,
)
from controlplane.rest.middleware_stack import MiddlewareStack
from controlplane.rest.security.middleware import Protection
from controlplane.rest.service import Service
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.listeners import Address, admin_listen_address, listen_address
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.output import note

OpenService = Callable[
    [ServeOptions, Logger, Loggers], AbstractAsyncContextManager[tuple[Service, ReadableLog]]
]


Announce = Callable[[ServeOptions, ReadableLog, Service, str], Awaitable[None]]
"""Says that a service answers at a URL."""


class ListenOptions(NamedTuple):
    """Flags about the address to listen on; None: as the settings say."""

    host: str | None
    port: int | None


def serve_until_signal(
    service: ServeOptions,
    listeners: Configuration,
    flags: ListenOptions,
    opened: OpenService,
    announce: Announce,
) -> None:
    """Open a log and serve it until SIGINT, SIGTERM or SIGHUP.

    `announce` is called once requests are answered.

    Raises:
        InputRefused: the address cannot be listened on.
    """
    protection = Protection.from_configuration(service.reading.configuration, listeners)
    try:
        address = _address(listeners, flags)
        bound = listen(address.host, address.port)
        protection = protection._replace(hosts=(*protection.hosts, address.host))
    except NoListener as failed:
        advice = "give an address of this machine with --host" if failed.wrong_host else _PORT
        raise InputRefused(f"{failed}: {advice}") from None
    with (
        bound,
        _admin_socket(listeners) as admin,
        suppress(asyncio.CancelledError),
    ):
        worker_id = f"{address.host}:{bound.getsockname()[1]}"
        service = msgspec.structs.replace(service, worker_id=worker_id)
        asyncio.run(_serve(service, protection, _Sockets(bound, admin), opened, announce))


class _Sockets(NamedTuple):
    """Sockets of the main listener and of that for administrators."""

    main: socket.socket
    admin: socket.socket | None


_PORT = "choose another port with --port"


def _address(listeners: Configuration, flags: ListenOptions) -> Address:
    """Address to listen on: the flags, else the worker's settings."""
    host, port = flags
    if host is not None and port is not None:
        return Address(host, port)
    configured = listeners.make(WorkerSettings, listen_address)
    return Address(
        configured.host if host is None else host,
        configured.port if port is None else port,
    )


@contextmanager
def _admin_socket(listeners: Configuration) -> Iterator[socket.socket | None]:
    """Open the socket of the admin listener, if the settings have one."""
    address = listeners.make(WorkerSettings, admin_listen_address)
    if address is None:
        yield None
        return
    try:
        admin = listen(address.host, address.port)
    except NoListener as failed:
        advice = "an address of this machine" if failed.wrong_host else "another port"
        raise InputRefused(f"admin.listeners: {failed}: name {advice} there") from None
    with admin:
        yield admin


async def _serve(
    service: ServeOptions,
    protection: Protection,
    sockets: _Sockets,
    opened: OpenService,
    announce: Announce,
) -> None:
    """Serve until a signal cancels this."""
    bound, admin = sockets
    sys.setswitchinterval(SWITCH_S)
    cancel_on_signals()
    loggers = _configured_loggers(service)
    own = logger(level=loggers.named(LOGGER), log_format=service.log_format)
    front = MiddlewareStack(protection, service.dialect, own)
    limits, tls = _within_file_limit(protection.limits), protection.tls
    front.check()
    log_refused_connections(front.logger)
    async with AsyncExitStack() as stack:
        rest_service, log = await stack.enter_async_context(opened(service, front.logger, loggers))
        app = front.application(rest_service)
        server = await stack.enter_async_context(serving(app, bound, limits, tls))
        if admin is not None:
            admin_app = front.application(rest_service.admin_only())
            await stack.enter_async_context(serving(admin_app, admin, limits, protection.admin_tls))
        url = url_of(bound, encrypted=tls is not None)
        if not protection.auth.is_configured:
            _warn_if_open(service, bound, admin)
        await announce(service, log, rest_service, url)
        freeze_long_lived()
        # Unlike `await server`, a signal does not cancel the server: it first ends its requests.
        await asyncio.wait([server])
        server.result()


def _warn_if_open(service: ServeOptions, bound: socket.socket, admin: socket.socket | None) -> None:
    """Warn if other machines can reach a listener without authentication."""
    steers = service.runs_commands or service.attached is not None
    may = "do everything" if steers else "read everything, configs with their secrets"
    for listener, permission in ((bound, may), (admin, "set the levels of loggers")):
        host = None if listener is None else listener.getsockname()[0]
        if host is not None and not ip_address(host).is_loopback:
            note(
                f"Warning: every client that reaches {host} may {permission}: require credentials "
                "with auth.password.file, auth.token.file or auth.proxy.header"
            )


def _within_file_limit(limits: HttpLimits) -> HttpLimits:
    """The limits, with at most as many connections as the system allows open files."""
    possible = make_room(limits.connections_max)
    if possible < limits.connections_max:
        note(
            f"Warning: the system lets this process hold {possible} connections, fewer than "
            f"http.connections.max={limits.connections_max}: raise `ulimit -n`, or lower the "
            "setting"
        )
    return msgspec.structs.replace(limits, connections_max=possible)


SWITCH_S = 0.001
"""Longest time in seconds that a busy thread keeps the interpreter from the event loop."""

QUIET_LIBRARIES = ("aiokafka", "uvicorn", "httpx")
"""Libraries whose INFO messages are left out; a request to `/admin/loggers` can turn them on."""


def _configured_loggers(service: ServeOptions) -> Loggers:
    """Python's loggers, whose records become log events of this service."""
    bridge = StdlibLogBridge(logger(log_format=service.log_format))
    bridge.addFilter(RepeatedWarnings("aiokafka"))
    logging.root.addHandler(bridge)
    loggers = Loggers(now_ms, logging.root.manager)
    logging.root.setLevel(logging.INFO)
    for name in QUIET_LIBRARIES:
        loggers.named(name).setLevel(logging.WARNING)
    loggers.named(LOGGER).setLevel(logging.WARNING if service.quiet else logging.INFO)
    return loggers
