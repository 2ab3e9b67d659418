"""Opening of the service of an attached cluster, for `serve`.

Commands go to the workers of that cluster. The trail is a log of our own with every such command.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx

from controlplane.attached.attached_service import attached_service
from controlplane.attached.cluster_check import identify_cluster
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import AttachedSurroundings
from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_connections import WorkerConnections, uses_proxy
from controlplane.cli.serve.attached_options import AttachedOptions
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.client.http.connection import over_network, tls_of
from controlplane.controller import CommandLimits
from controlplane.core.text.safe_text import safe
from controlplane.logger_levels import Loggers
from controlplane.logs.log import Log
from controlplane.logs.log_factory import open_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.names import check_ours, path_of
from controlplane.logs.sqlite import SqliteLog
from controlplane.notices import Notices
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.read_only.read_only_service import read_only_settings
from controlplane.rest.service import Service
from controlplane.settings.prefixes import CONTROLLER, UPKEEP
from controlplane.settings.security import Secret
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import LogOptions, read_plugins
from controlplane.terminal.output import note

MEMORY = "memory:"
"""Trail in memory, which is lost when the process ends."""


@asynccontextmanager
async def attached(  # noqa: PLR0913 - parts, by name
    where: str,
    reading: LogOptions,
    options: AttachedOptions,
    *,
    exactly_once: bool,
    notices: Notices,
    loggers: Loggers,
) -> AsyncIterator[Service]:
    """Open the service of an attached cluster.

    Raises:
        LogError: brokers, workers or trail cannot be used, or are not of one cluster.
        InputRefused: a URL, the credentials or the certificates cannot be used.
        SettingsError: a setting is invalid.
    """
    settings = options.settings
    upkeep = reading.configuration.settings(UpkeepSettings, UPKEEP)
    commands_waiting = reading.configuration.settings(CommandLimits, CONTROLLER).commands_waiting
    async with AsyncExitStack() as stack:
        workers, connections = _clients(settings)
        for worker in workers.values():
            await stack.enter_async_context(worker)
        for kept_open in connections.values():
            stack.callback(kept_open.close)
        client = ConnectClient(workers, settings, connections)

        def note_wait(silent: Mapping[str, str]) -> None:
            names = ", ".join(f"{name} ({why})" for name, why in silent.items())
            patience_s = settings.patience_ms / 1_000
            note(f"No worker answers yet; waiting up to {patience_s:g} s: {safe(names)}")

        cluster = await identify_cluster(client, options.release, note_wait)
        opened = await open_log(where, reading.opening(exactly_once=exactly_once))
        await stack.enter_async_context(opened)
        warn = partial(_warn, where)
        for problem in (*opened.problems, *cluster.notes):
            warn(problem)
        trail = await _trail(settings, stack)
        served = read_only_settings(
            where,
            reading.configuration,
            cluster.profile,
            read_plugins(None, reading.settings),
            exactly_once=exactly_once,
        )
        around = AttachedSurroundings(
            notices, limits=settings, upkeep=upkeep, commands_waiting=commands_waiting, note=warn
        )
        yield await stack.enter_async_context(
            attached_service(
                opened,
                served,
                client=client,
                cluster=cluster,
                trail_log=trail,
                around=around,
                loggers=loggers,
            )
        )


def _warn(where: str, problem: str) -> None:
    note(f"Warning: {safe(where)}: {safe(problem)}")


def _clients(
    settings: ConnectSettings,
) -> tuple[dict[str, httpx.AsyncClient], dict[str, WorkerConnections]]:
    """HTTP client of each worker, and direct connections to each worker that needs no proxy.

    Both are keyed by the worker's URL without credentials.

    Raises:
        InputRefused: a URL, the credentials or the certificates cannot be used.
    """
    clients = {}
    connections = {}
    ca_file = Path(settings.ca_file) if settings.ca_file else None
    user, token = _text(settings.user), _text(settings.token)
    credentials = ClusterAddress("", user, token, ca_file).with_password()
    for url in settings.url:
        address = credentials._replace(where=url)
        if not address.is_url:
            raise InputRefused(
                f"{address.without_login} is no URL of a worker: write http://host:8083"
            )
        worker = over_network(address, "--connect-url")
        worker.timeout = httpx.Timeout(
            settings.answer_timeout_ms / 1_000, connect=settings.connect_timeout_ms / 1_000
        )
        name = address.without_login.rstrip("/")
        clients[name] = worker
        if not uses_proxy(worker.base_url):
            connections[name] = WorkerConnections(worker, tls_of(address))
    return clients, connections


def _text(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


async def _trail(settings: ConnectSettings, stack: AsyncExitStack) -> Log:
    """Open the trail, as its one writer."""
    if settings.trail is None or settings.trail == MEMORY:
        note(
            "Warning: commands are recorded in memory, and forgotten when this process ends: name "
            "a file with --trail sqlite:///trail.db"
        )
        return MemoryLog()
    check_ours(settings.trail)
    log = await SqliteLog.open(path_of(settings.trail))
    stack.push_async_callback(log.close)
    stack.enter_context(log.writer_lock())
    return log
