"""A log that nobody serves, served within this process for one command.

It is opened as little as is needed: who only asks, or only wants to know what would be written,
leaves the log to its writer, if it has one; who changes something becomes its one writer, unless a
service has the log open: then one speaks to the service.
"""

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx

from controlplane.client.http.cluster_address import ClusterAccess
from controlplane.client.http.transport import AppTransport
from controlplane.core.context import Context
from controlplane.core.releases.profiles import KIP, resolve
from controlplane.logs.log_factory import open_log
from controlplane.logs.names import check_file, check_ours, is_cluster, path_of
from controlplane.plane import ControlPlane
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.read_only_service import reading_service
from controlplane.rest.app import App
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.environment import WORKER_FILE
from controlplane.settings.plane import plane_settings
from controlplane.settings.prefixes import FOLLOWER
from controlplane.settings.worker import decision_settings
from controlplane.terminal.log_options import LogOptions, read_plugins
from controlplane.terminal.output import note
from controlplane.terminal.worker_options import configured
from controlplane.terminal.writable_log import written


@asynccontextmanager
async def in_process(where: str, need: ClusterAccess) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a log that is served as long as this is open.

    Raises:
        LogError: it cannot be opened.
        SettingsError: the environment tells what cannot be used.
    """
    file = os.environ.get(WORKER_FILE)
    told = configured(Path(file) if file else None, {}, ())
    async with _opened(where, told, need) as app:
        transport = AppTransport(app, _somebody())
        async with httpx.AsyncClient(transport=transport, base_url="http://log") as client:
            yield client


def _somebody() -> str:
    """Name of the user for the audit trail."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know its user by number only
        return f"user {os.getuid()}"


def _opened(
    where: str, told: Configuration, need: ClusterAccess
) -> AbstractAsyncContextManager[App]:
    """Open the log as far as the command needs it.

    Raises:
        LogNotUsable: there is no such log, and the command makes none.
    """
    if need is ClusterAccess.WRITE and not is_cluster(where):
        check_file(path_of(where))
    return _written(where, told) if need in _WRITING else _read(where, told, need)


_ASK = "ask it (--cluster URL)"
_WRITING = (ClusterAccess.WRITE, ClusterAccess.CREATE)


@asynccontextmanager
async def _written(where: str, told: Configuration) -> AsyncIterator[App]:
    """Answers as the one writer of the log, which is made if it is not there."""
    check_ours(where)
    reading = LogOptions(told, told.settings(WorkerSettings))
    async with written(where, reading, _ASK) as (log, missing):
        for problem in missing:
            note(f"{where}: {problem}")
        async with ControlPlane.open(log, plane_settings(told)) as plane:
            yield plane.app


@asynccontextmanager
async def _read(where: str, told: Configuration, need: ClusterAccess) -> AsyncIterator[App]:
    """Answers from a log that others may write."""
    reading = LogOptions(told, told.settings(WorkerSettings))
    exactly_once = reading.settings.exactly_once
    found = await open_log(where, reading.opening(exactly_once=exactly_once))
    try:
        for problem in found.problems:
            note(f"{where}: {problem}")
        profile, plugins = resolve(KIP).profile, read_plugins(None, reading.settings)
        context = Context(
            profile=profile, worker=told.make(WorkerSettings, decision_settings), plugins=plugins
        )
        async with reading_service(
            found,
            reading.topics,
            context,
            live=need is ClusterAccess.FOLLOW,
            limits=told.settings(FollowerLimits, FOLLOWER),
        ) as service:
            yield App(service)
    finally:
        await found.log.close()
