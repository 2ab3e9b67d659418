"""Serves a log within this process, for one command.

A command that reads, or plans a change, opens the log for reading, beside its writer. A changing
command becomes the log's one writer. It is refused while a service has the log open: the command
must then be sent to that service. A dry run of a command that would create the log plans on an
empty log in memory.
"""

import getpass
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx

from controlplane.client.http.cluster_address import ClusterAccess
from controlplane.client.http.transport import AppTransport
from controlplane.core.releases.profiles import KIP, resolve
from controlplane.core.state import Topics
from controlplane.logger_levels import LOGGER, separate_hierarchy
from controlplane.logs.log import LogNotUsable
from controlplane.logs.log_factory import open_log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.names import check_file, check_ours, is_cluster, is_embedded, path_of
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.files import companions_of
from controlplane.logs.sqlite.writer_lock import LogHeld, check_not_held
from controlplane.observe import logger
from controlplane.plane import ControlPlane
from controlplane.plane_settings import plane_settings
from controlplane.read_only.read_only_service import (
    read_only_settings,
    reading_service,
)
from controlplane.rest.app import App
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.environment import WORKER_FILE
from controlplane.terminal.log_options import LogOptions, read_plugins
from controlplane.terminal.output import note
from controlplane.terminal.worker_options import configured
from controlplane.terminal.writable_log import open_writable


@asynccontextmanager
async def in_process(where: str, need: ClusterAccess) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a log within this context; yields an HTTP client of it.

    Raises:
        LogError: the log cannot be opened.
        SettingsError: a setting in the environment, or in the worker's file, is invalid.
    """
    file = os.environ.get(WORKER_FILE)
    settings = configured(Path(file) if file else None, {}, ())
    async with _opened(where, settings, need) as app:
        transport = AppTransport(app, _user_name())
        async with httpx.AsyncClient(transport=transport, base_url="http://log") as client:
            yield client


def _user_name() -> str:
    """Name of the user, for the audit trail."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know its user by number only
        return f"user {os.getuid()}"


def _opened(
    where: str, settings: Configuration, need: ClusterAccess
) -> AbstractAsyncContextManager[App]:
    """Open the log as far as the command needs it.

    Raises:
        LogNotUsable: there is no such log, and the command creates none; or another process writes
            it.
    """
    if need is ClusterAccess.WRITE and not is_cluster(where):
        check_file(path_of(where))
    if need in _WRITING and not is_cluster(where):
        _check_embedded(where)
    if need is ClusterAccess.PLAN_AS_WRITER:
        check_ours(where)
        _check_not_held(path_of(where))
    if need is ClusterAccess.PLAN_CREATION and not is_cluster(where):
        path = path_of(where)
        if not path.exists():
            return _empty_in_memory(path, settings)
    return (
        _opened_for_writing(where, settings)
        if need in _WRITING
        else _opened_for_reading(where, settings, need)
    )


def _check_not_held(path: Path) -> None:
    """Raise `LogHeld` if another process is the control plane of the log."""
    try:
        check_not_held(path)
    except LogHeld as held:
        raise LogHeld(held.path, held.process, _ASK) from None


def _check_embedded(where: str) -> None:
    """Raise `LogNotUsable` for a dump: it can only be read. A missing or empty file is no dump."""
    path = path_of(where)
    has_content = path.is_file() and path.stat().st_size > 0
    if has_content and not is_embedded(where):
        raise LogNotUsable(
            f"{where} is no embedded log, so commands cannot change it. Preview the change with "
            "--dry-run, or copy its records into an embedded log with `controlplane import`"
        )


_ASK = "ask it (--cluster URL)"
"""Advice if another process is the control plane of the log."""
_WRITING = (ClusterAccess.WRITE, ClusterAccess.CREATE)


@asynccontextmanager
async def _opened_for_writing(where: str, settings: Configuration) -> AsyncIterator[App]:
    """Open a log as its one writer.

    A missing log is created. Its file is removed again if every command was refused.
    """
    check_ours(where)
    is_new = not path_of(where).exists()
    reading = LogOptions(settings, settings.settings(WorkerSettings))
    async with open_writable(where, reading, _ASK) as (log, missing):
        for problem in missing:
            note(f"{where}: {problem}")
        async with ControlPlane.open(log, plane_settings(settings)) as plane:
            try:
                yield _app_of(plane)
            finally:
                if is_new and not await _has_changes(log, reading.topics):
                    # The plane still holds the writer's lock: no other process has changed the log.
                    for file in (log.path, *companions_of(log.path)):
                        file.unlink(missing_ok=True)


async def _has_changes(log: SqliteLog, topics: Topics) -> bool:
    """True if a log has a record of a change.

    The topic of commands does not count: refused commands are recorded there, too.
    """
    ends = await log.ends([topics.config, topics.offsets, topics.status])
    return any(any(partitions) for partitions in ends.values())


def _app_of(plane: ControlPlane) -> App:
    """Application of a plane. It logs only problems, whatever level a command sets."""
    level = separate_hierarchy().getLogger(LOGGER)
    level.setLevel(logging.WARNING)
    return App(plane.service, logger(level=level))


@asynccontextmanager
async def _empty_in_memory(path: Path, settings: Configuration) -> AsyncIterator[App]:
    """Open an empty log in memory, for plans on a log that does not exist yet.

    Raises:
        LogNotUsable: the directory of the log does not exist either.
    """
    if not path.parent.is_dir():
        raise LogNotUsable(f"{path} cannot be created: there is no directory {path.parent}")
    note(f"{path} does not exist: the plan is for a new log")
    async with ControlPlane.open(MemoryLog(), plane_settings(settings)) as plane:
        yield _app_of(plane)


@asynccontextmanager
async def _opened_for_reading(
    where: str, settings: Configuration, need: ClusterAccess
) -> AsyncIterator[App]:
    """Open a log for reading; others may write it."""
    reading = LogOptions(settings, settings.settings(WorkerSettings))
    exactly_once = reading.settings.exactly_once
    opened = await open_log(where, reading.opening(exactly_once=exactly_once))
    try:
        for problem in opened.problems:
            note(f"{where}: {problem}")
        profile, plugins = resolve(KIP).profile, read_plugins(None, reading.settings)
        service_settings = read_only_settings(
            where, settings, profile, plugins, exactly_once=exactly_once
        )
        live = need is ClusterAccess.FOLLOW
        async with reading_service(opened, service_settings, live=live) as service:
            yield App(service)
    finally:
        await opened.log.close()
