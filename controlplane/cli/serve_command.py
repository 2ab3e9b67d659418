"""`controlplane serve`: Connect's REST API over a log, until Ctrl-C."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import click
import msgspec

from controlplane.cli.curl_examples import LATER, find_contrast, lines
from controlplane.clock import now_ms
from controlplane.core import views
from controlplane.core.context import Context
from controlplane.core.plugins import UNKNOWN_TYPE, Plugins
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import count, safe
from controlplane.garbage_collection import freeze_long_lived
from controlplane.logger_levels import LOGGER, Loggers
from controlplane.logs.log import ReadableLog
from controlplane.logs.log_factory import open_log
from controlplane.logs.names import SQLITE, NoSuchLog, is_cluster, is_embedded
from controlplane.logs.topic_checks import split_config
from controlplane.observe import LOG_FORMATS, LogFormat, Logger, LogSettings, Passing, logger
from controlplane.plane import ControlPlane, Surroundings
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.read_only_service import reading_service
from controlplane.rest import service as rest
from controlplane.rest.endpoints.table import EndpointSet
from controlplane.rest.http.connections import make_room
from controlplane.rest.http.server import NoListener, listen, serving, tell_of_full, url_of
from controlplane.rest.requests import COMPAT
from controlplane.rest.security.middleware import Protection
from controlplane.rest.security.settings import HttpLimits
from controlplane.rest.stack import Front
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.listeners import Address, admin_listen_address, listen_address
from controlplane.settings.parts import FOLLOWER, LOG
from controlplane.settings.plane import plane_settings
from controlplane.settings.worker import decision_settings
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import (
    LogOptions,
    log_options,
    plugins_option,
    read_plugins,
    read_profile,
    trust_option,
)
from controlplane.terminal.option_names import named_option
from controlplane.terminal.output import note, remark_by, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.writable_log import written


class ServeOptions(msgspec.Struct, frozen=True):
    """Options of `serve`: the log and how to answer from it."""

    where: str
    reading: LogOptions
    dialect: Profile
    plugins: Plugins
    exactly_once: bool
    follow: bool
    quiet: bool
    log_format: LogFormat
    read_only: bool

    @property
    def commands(self) -> bool:
        """True if commands are executed, that is if this process writes the log."""
        embedded = not is_cluster(self.where) and is_embedded(self.where)
        return self.follow and not self.read_only and embedded


@click.command()
@click.argument("log", shell_complete=complete_files)
@click.option(
    "--follow/--no-follow",
    default=True,
    help="Follow the log as it grows, or serve its present state. [default: --follow]",
)
@click.option("--host", help="Address to listen on. [default: from `listeners`, or 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0: any free one. [default: from `listeners`, or 8083]",
)
@named_option(
    "--release",
    "dialect",
    former=("--dialect", "--profile"),
    default=KIP,
    show_default=True,
    metavar="RELEASE",
    help="Release to answer as if a request has no profile=.",
)
@click.option("--exactly-once", is_flag=True, help="Read as a worker with exactly-once support.")
@click.option(
    "--read-only", is_flag=True, help="Refuse commands. [default: for logs that cannot be written]"
)
@click.option("--quiet", is_flag=True, help="Print no line per request or command.")
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    is_eager=True,
    callback=lambda _context, _option, chosen: _remark_as(chosen),
    help="Format of log lines on standard error. [default: from `log.format`, or logfmt]",
)
@plugins_option
@trust_option
@log_options
def serve(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    log: str,
    follow: bool,
    host: str | None,
    port: int | None,
    dialect: str,
    exactly_once: bool,
    read_only: bool,
    quiet: bool,
    log_format: LogFormat | None,
    trust_unknown_classes: bool,
    plugins: Path | None,
    reading: LogOptions,
) -> None:
    """Serve Kafka Connect's REST API from LOG, as a worker of any release would.

    An embedded log (sqlite:///state.db, made if it is not there) is served in full: this becomes
    the one process that carries out its commands. kafka://host:port and a file of records are
    read. Every endpoint takes profile=RELEASE and as_of=MOMENT (config@57, a time, a vector of end
    offsets); /compat/RELEASE/ in front of a path speaks as that release does.
    """
    support = exactly_once or reading.settings.exactly_once
    spoken = read_profile(dialect, exactly_once=support)
    written = log_format or reading.configuration.settings(LogSettings, LOG).format
    _remark_as(written)
    known = read_plugins(plugins, reading.settings, trusting=trust_unknown_classes)
    service = ServeOptions(log, reading, spoken, known, support, follow, quiet, written, read_only)
    of_listeners = _told_to_us(log, reading.configuration)
    protection = Protection.told(reading.configuration, of_listeners)
    try:
        where = _address(log, reading.configuration, host, port)
        bound = listen(where.host, where.port)
        protection = protection._replace(hosts=(*protection.hosts, where.host))
    except NoListener as failed:
        advice = "give an address of this machine with --host" if failed.wrong_host else _PORT
        raise InputRefused(f"{failed}: {advice}") from None
    with (
        bound,
        _administering(log, reading.configuration) as apart,
        suppress(asyncio.CancelledError),
    ):
        asyncio.run(_serve(service, protection, bound, apart))


_PORT = "choose another port with --port"


def _remark_as(log_format: LogFormat | None) -> LogFormat | None:
    """Write remarks as log events where each line of standard error is to be JSON."""
    if log_format == "json":
        lines = logger(log_format=log_format)
        remark_by(lambda text: lines.warning("remark", text=text))
    return log_format


def _address(log: str, told: Configuration, host: str | None, port: int | None) -> Address:
    """Address to listen on: the flags, else the worker's settings."""
    if host is not None and port is not None:
        return Address(host, port)
    usual = _told_to_us(log, told).make(WorkerSettings, listen_address)
    return Address(
        usual.host if host is None else host,
        usual.port if port is None else port,
    )


def _told_to_us(log: str, told: Configuration) -> Configuration:
    """Settings of our listeners: in a cluster's file `listeners` are its workers' own."""
    return told.only(lambda source: source.is_ours) if is_cluster(log) else told


@contextmanager
def _administering(log: str, told: Configuration) -> Iterator[socket.socket | None]:
    """Open the socket of the admin listener, if the settings have one."""
    where = _told_to_us(log, told).make(WorkerSettings, admin_listen_address)
    if where is None:
        yield None
        return
    try:
        apart = listen(where.host, where.port)
    except NoListener as failed:
        advice = "an address of this machine" if failed.wrong_host else "another port"
        raise InputRefused(f"admin.listeners: {failed}: name {advice} there") from None
    with apart:
        yield apart


async def _serve(
    service: ServeOptions, protection: Protection, bound: socket.socket, apart: socket.socket | None
) -> None:
    """Serve until a signal cancels this."""
    sys.setswitchinterval(SWITCH_S)
    _end_on_signals()
    loggers = _of_this_process(service)
    own = logger(level=loggers.named(LOGGER), log_format=service.log_format)
    front = Front(protection, service.dialect, own)
    opened = _commanding if service.commands else _following
    limits, tls = _within_files(protection.limits), protection.tls
    front.check()
    tell_of_full(front.logger)
    async with AsyncExitStack() as stack:
        known, log = await stack.enter_async_context(opened(service, front.logger, loggers))
        app = front.before(known)
        server = await stack.enter_async_context(serving(app, bound, limits, tls))
        if apart is not None:
            admin = front.before(known._replace(part=EndpointSet.ADMIN))
            await stack.enter_async_context(serving(admin, apart, limits, protection.admin_tls))
        url = url_of(bound, encrypted=tls is not None)
        if not protection.auth.asks:
            _warn_of_strangers(service, bound, apart)
        await _announce(service, log, known.follower, url)
        freeze_long_lived()
        await server


def _warn_of_strangers(
    service: ServeOptions, bound: socket.socket, apart: socket.socket | None
) -> None:
    """Say so where more than this machine can reach what asks nobody who he is."""
    may = "do everything" if service.commands else "read everything, configs with their secrets"
    for one, what in ((bound, may), (apart, "set the levels of loggers")):
        host = None if one is None else one.getsockname()[0]
        if host is not None and not ip_address(host).is_loopback:
            note(
                f"Warning: whoever reaches {host} may {what}: tell who may come in with "
                "auth.password.file, auth.token.file or auth.proxy.header"
            )


def _within_files(limits: HttpLimits) -> HttpLimits:
    """The limits, with as many connections as the system has files for."""
    able = make_room(limits.connections_max)
    if able < limits.connections_max:
        note(
            f"Warning: the system lets this process hold {able} connections, fewer than "
            f"http.connections.max={limits.connections_max}: raise `ulimit -n`, or lower the "
            "setting"
        )
    return msgspec.structs.replace(limits, connections_max=able)


SWITCH_S = 0.001
"""Longest time for which a thread with long work keeps the interpreter from the event loop."""

QUIET_LIBRARIES = ("aiokafka", "uvicorn")
"""Libraries that say more than anybody wants to know, unless he asks for it."""


def _of_this_process(service: ServeOptions) -> Loggers:
    """Python's own loggers: what they are told is told as all is here, at the usual levels."""
    logging.root.addHandler(Passing(logger(log_format=service.log_format)))
    loggers = Loggers(now_ms, logging.root.manager)
    logging.root.setLevel(logging.INFO)
    for name in QUIET_LIBRARIES:
        loggers.named(name).setLevel(logging.WARNING)
    loggers.named(LOGGER).setLevel(logging.WARNING if service.quiet else logging.INFO)
    return loggers


def _end_on_signals() -> None:
    """Let Ctrl-C and `kill` cancel the task that serves: everything is closed on the way out."""
    task = asyncio.current_task()
    assert task is not None
    for asked in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(asked, task.cancel)


_READ = "serve the log with --read-only"


@asynccontextmanager
async def _commanding(
    service: ServeOptions, tell: Logger, loggers: Loggers
) -> AsyncIterator[tuple[rest.Service, ReadableLog]]:
    """Be the control plane of an embedded log."""
    settings = plane_settings(service.reading.configuration, profile=service.dialect.release)
    if service.exactly_once:
        settings = msgspec.structs.replace(settings, exactly_once=True)
    around = Surroundings(plugins=service.plugins, notices=tell, loggers=loggers)
    async with written(service.where, service.reading, _READ) as (log, missing):
        _warn(service, missing)
        async with ControlPlane.open(log, settings, around) as plane:
            _warn(service, split_config(settings.topics, await log.topics()))
            yield plane.service, log


@asynccontextmanager
async def _following(
    service: ServeOptions, tell: Logger, loggers: Loggers
) -> AsyncIterator[tuple[rest.Service, ReadableLog]]:
    """Read a log that others write."""
    reading, exactly_once = service.reading, service.exactly_once
    to_us = _told_to_us(service.where, reading.configuration).settings(WorkerSettings)
    try:
        found = await open_log(service.where, reading.opening(exactly_once=exactly_once))
    except NoSuchLog as missing:
        raise NoSuchLog(f"{missing}{_made_by(service)}") from None
    try:
        _warn(service, found.problems)
        worker = reading.configuration.make(WorkerSettings, decision_settings)
        worker = msgspec.structs.replace(worker, exactly_once_source=exactly_once)
        context = Context(profile=service.dialect, worker=worker, plugins=service.plugins)
        part = EndpointSet.ALL if to_us.admin_listeners is None else EndpointSet.PUBLIC
        async with reading_service(
            found,
            reading.topics,
            context,
            live=service.follow,
            limits=reading.configuration.settings(FollowerLimits, FOLLOWER),
            notices=tell,
            loggers=loggers,
            part=part,
        ) as known:
            yield known, found.log
    finally:
        await found.log.close()


def _made_by(service: ServeOptions) -> str:
    """Advice on how `serve` creates a log at this path; empty if it creates none."""
    where = service.where
    if service.read_only or not service.follow:
        return ". --read-only and --no-follow make no log" if where.startswith(SQLITE) else ""
    return f". `controlplane serve {SQLITE}/{where}` makes a new log there"


def _warn(service: ServeOptions, problems: Iterable[str]) -> None:
    for problem in problems:
        note(f"{safe(service.where)}: {safe(problem)}")


CLASSES_NAMED = 5
"""Number of unknown classes that are named at start-up."""


def _note_unknown_classes(service: ServeOptions, state: ClusterState) -> None:
    """Say which connectors cannot be changed as long as their classes are not declared."""
    configs = state.config.connectors.values()
    used = {str(config.get("connector.class")) for config in configs}
    unknown = sorted(name for name in used if service.plugins.type_of(name) == UNKNOWN_TYPE)
    if unknown and not service.plugins.trusting:
        more = "" if len(unknown) <= CLASSES_NAMED else ", …"
        note(
            f"{safe(service.where)}: connectors use classes that are not declared: "
            f"{safe(', '.join(unknown[:CLASSES_NAMED]))}{more}. Changes of their configs are "
            "refused: declare the classes with --plugins, or use --trust-unknown-classes"
        )


async def _announce(
    service: ServeOptions, log: ReadableLog, follower: rest.States, url: str
) -> None:
    """Say where what is served, and what to try, as soon as the log has been read."""
    state = await follower.state(service.dialect)
    connectors = count(len(views.connectors(state)), "connector")
    contrast = await find_contrast(log, service.reading.topics, follower.ends)
    say(f"{safe(service.where)}: {connectors}, answered as {state.profile.release} on {url}")
    release = LATER if state.profile.release == KIP else state.profile.release
    say(f"Tools that expect Kafka Connect take {url}{COMPAT}{release}")
    if state.unreadable:
        records = count(state.unreadable_count, "record")
        note(
            f"{safe(service.where)}: not taken: {records} of configs and statuses, or more; "
            "`controlplane inspect` names them all, those of offsets too"
        )
    if service.commands:
        _note_unknown_classes(service, state)
    say("Ctrl-C ends it. To try:")
    for line in lines(url, state, contrast):
        say(f"  {line}")
    sys.stdout.flush()
