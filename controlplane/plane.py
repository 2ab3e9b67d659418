"""A control plane inside of any asyncio program: open a log, run commands, ask, watch.

    async with ControlPlane.open("sqlite:///state.db") as plane:
        await plane.execute(StopConnector("orders"))

There is no global state: as many planes as one likes fit into one process, each on a log of its
own.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from controlplane.asof import read_history
from controlplane.clock import now_ms
from controlplane.controller import Alone, Controller, Limits, Outside, Stepped, World
from controlplane.controller.traces import command_of
from controlplane.core.commands import AnyCommand, Asked, SetLoggerLevel, size_of
from controlplane.core.context import Context, Worker
from controlplane.core.decide.sinks import group_of
from controlplane.core.diff import Change
from controlplane.core.history import History
from controlplane.core.plan import GroupOffsets, Outcome, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import KIP, Profile, resolve
from controlplane.core.state import ClusterState, Topics, check_topics
from controlplane.event_loop import apart
from controlplane.follower import Follower, Notices
from controlplane.follower import Limits as FollowerLimits
from controlplane.logs.log import Log, LogError, Named, OneWriter
from controlplane.logs.memory import MemoryLog
from controlplane.logs.missing import missing_for_writer, renamed
from controlplane.logs.names import check_ours, path_of
from controlplane.observe import Logger, logger
from controlplane.rest.app import App
from controlplane.rest.calls import Part, Service
from controlplane.rest.loggers import LOGGER, Loggers
from controlplane.settings.checking import check_settings
from controlplane.upkeep import UpkeepSettings, keep_looking_after, look_after_at_last
from controlplane.watching import Watching


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """With how many partitions the topics of a new log are made; those of Connect's defaults."""

    offsets: int = 25
    status: int = 5


class Refusal(Exception):
    """A command was refused, and nothing was written. The message is Connect's wording."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.sentence)
        self.rejected = rejected


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a control plane works. The defaults suit one process with one file."""

    profile: str = KIP
    """The release as which it reads and writes."""
    worker: Worker = Worker()
    administered: bool = True
    """Whether `app` has the endpoints that administer, too (KIP-495); see `Service.part`."""
    topics: Topics = Topics()
    partitions: Partitions = Partitions()
    exactly_once: bool = False
    limits: Limits = Limits()
    follower: FollowerLimits = FollowerLimits()
    """Its `gather_ms` is 0, whatever is told: one writer's records come in the order in which they
    were written, and who gave a command waits until they have been read."""
    upkeep: UpkeepSettings = UpkeepSettings()
    catalogue: str | None = None
    """A file of connector classes. It is not read where `Surroundings.plugins` has them."""
    trust_unknown_classes: bool = False
    """Whether a class that nobody has declared is taken to be there; a worker refuses it."""


class Surroundings(NamedTuple):
    """What a control plane finds around itself; tests and other programs bring their own."""

    plugins: Plugins | None = None
    """The connector classes there are. None: Kafka's own, those of installed packages, and those of
    the catalogue that the settings name (`controlplane.plugins`)."""
    outside: Outside = Alone()
    notices: Notices | None = None
    now_ms: Callable[[], int] = now_ms
    new_id: Callable[[], str] = lambda: str(uuid4())
    stepped: Stepped | None = None
    """Called behind every step of every plan; what it raises ends the command there."""
    loggers: Loggers | None = None
    """Which loggers `/admin/loggers` shows and sets. None: some of its own, so that the logging of
    the program around it is left alone."""


class _Known(NamedTuple):
    """What a plane was opened with."""

    around: Surroundings
    context: Context
    loggers: Loggers
    part: Part


class ControlPlane:
    """One cluster's control plane, and the only writer of its log."""

    def __init__(
        self, log: Log, controller: Controller, follower: Follower, known: "_Known"
    ) -> None:
        self._log = log
        self._controller = controller
        self._follower = follower
        self._around, self._context, self._loggers, self._part = known
        self._watching = Watching(follower, log, self._context.profile)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        where: str | Log,
        settings: Settings | None = None,
        around: Surroundings | None = None,
    ) -> AsyncIterator["ControlPlane"]:
        """Open a log (`sqlite:///state.db`, `memory:`, or one that is open) and become its writer.

        A log that is not there yet is made, with its topics. In a log with records, a topic with a
        name of the settings' own must be there (see `missing_for_writer`). While an embedded log is
        open here, no other control plane, and no command line, can write it. What an earlier
        process has left unfinished is ended before this returns.

        Raises:
            LogError: the log cannot be used.
            Unloadable: a connector of an installed package cannot be loaded.
            UnknownRelease: there is no such profile.
            SettingsError, SharedTopic: a setting cannot be used, or not with another one.
        """
        settings, around = settings or Settings(), around or Surroundings()
        check_settings(settings)
        check_topics(settings.topics)
        loggers = around.loggers or Loggers(around.now_ms)
        notices = around.notices or _telling(loggers)
        context = _context(settings, around, notices)
        async with AsyncExitStack() as stack:
            log = await _opened(where, stack)
            await _make_topics(log, settings)
            follower = Follower(
                log,
                topics=settings.topics,
                exactly_once=context.worker.exactly_once_source,
                limits=msgspec.structs.replace(settings.follower, gather_ms=0),
                notices=notices,
            )
            await stack.enter_async_context(follower)
            world = World(around.now_ms, around.outside, notices, around.stepped)
            controller = await Controller.start(log, follower, context, world, settings.limits)
            stack.enter_context(follower.keeping(context.profile))
            part = Part.ALL if settings.administered else Part.PUBLIC
            plane = cls(log, controller, follower, _Known(around, context, loggers, part))
            stack.push_async_callback(
                lambda: look_after_at_last(log, plane.state, settings.upkeep, notices)
            )
            stack.callback(plane._watching.end)
            stack.push_async_callback(controller.close)
            upkeep = keep_looking_after(
                log, lambda: plane.state, around.now_ms, settings.upkeep, notices
            )
            stack.push_async_callback(_ended, asyncio.create_task(upkeep, name="upkeep"))
            yield plane

    @property
    def state(self) -> ClusterState:
        """What is known now; it never changes afterwards. `views` shows it to people."""
        return self._controller.state

    @property
    def failure(self) -> LogError | None:
        """Why no command is carried out any more: another process has become the log's writer."""
        return self._controller.failure

    async def trouble(self) -> LogError | None:
        """Why no command can be carried out just now; None: one could be."""
        return await self._controller.trouble()

    @property
    def log(self) -> Log:
        """Where it is all written; reading it disturbs nobody."""
        return self._log

    @property
    def service(self) -> Service:
        """What Connect's REST API is answered from; see `app`."""
        return Service(
            self._follower,
            self._context.profile,
            self._context.plugins,
            commands=self,
            cluster_id=self._log.cluster_id if isinstance(self._log, Named) else None,
            worker=self._context.worker,
            log=self._log,
            watching=self._watching,
            loggers=self._loggers,
            part=self._part,
        )

    @cached_property
    def app(self) -> App:
        """Connect's REST API as an ASGI application, to be served or mounted anywhere.

            Starlette(routes=[Mount("/connect", plane.app)])

        It answers for as long as the plane is open, and asks nobody who he is: see
        `controlplane.rest.security`.
        """
        return App(self.service, None if self._around.notices else _telling(self._loggers))

    async def state_at(self, moment: str, profile: str | None = None) -> ClusterState:
        """What was known at a moment: `config@57`, a time, or a vector of end offsets.

        Raises:
            TypeError: the moment or the profile is no text.
            UnknownMoment: the log has nothing there.
            UnknownRelease: there is no such profile.
        """
        _check_text("a moment", moment)
        if profile is not None:
            _check_text("a profile", profile)
        reader = self.state.profile if profile is None else Profile.of(profile)
        return (await self._follower.state_at(moment, reader)).state

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None = None, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """A dry run: which records would be written, in which order, or why it is refused.

        Nothing is written. A connector's hook is asked, as Kafka asks it before it writes; it may
        change another system. With `believe_hooks` no hook in Python is called: each is taken to
        agree, and `Plan.assumed` says so.
        """
        plain = await _plain(command)
        return await self._controller.plan(plain, profile, believe_hooks=believe_hooks)

    async def execute(
        self, command: AnyCommand, *, principal: str = "embedded", key: str | None = None
    ) -> Outcome:
        """Run a command; returns when all that it wrote has been read back.

        `key` is an idempotency key: the same one again gets the same outcome, and the command is
        run once. Cancelling this leaves no command half-done.

        Raises:
            TypeError: it is no command, or holds what no command can; or `principal` or `key` are
                no text.
            ValueError: the key is empty.
            Refusal: it is refused, and nothing was written.
            TimedOut, TooMany, LogError: it cannot be said how, or whether, it ends.
        """
        ended = await self.carry_out(command, principal=principal, key=key)
        if isinstance(ended, Rejected):
            raise Refusal(ended)
        return ended

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str = "embedded",
        key: str | None = None,
        profile: Profile | None = None,
    ) -> Outcome | Rejected:
        """The same, with the refusal as a value, and as a worker of any release does it."""
        _check_names(principal, key)
        asked = Asked(
            command=await _plain(command),
            command_id=self._around.new_id() if key is None else key,
            at_ms=self._around.now_ms(),
            principal=principal,
            keyed=key is not None,
        )
        ended = await self._controller.execute(asked, profile)
        if isinstance(command, SetLoggerLevel) and isinstance(ended, Outcome):
            self._loggers.obey(command, profile or self._context.profile)
        return ended

    def command_of(self, key: str) -> AnyCommand | None:
        """The command that was accepted under an idempotency key, as far as it is remembered.

        Raises:
            TypeError: the key is no text.
        """
        _check_text("a key", key)
        trace = self.state.commands.get(key)
        return None if trace is None else command_of(trace)

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """What the consumer group of a sink connector has committed.

        Raises:
            OutsideFailed: it cannot be asked.
        """
        config = self.state.config.connectors.get(connector, {})
        group = group_of(connector, config, self._context)
        return await self._around.outside.group_offsets(group)

    async def history(self, connector: str) -> History:
        """All that the log tells of a connector: its records, and what each of them did.

        Raises:
            TypeError: the name of a connector is text.
        """
        _check_text("the name of a connector", connector)
        return await read_history(self._log, self.state, connector)

    async def watch(self) -> AsyncGenerator[Change, None]:
        """Every change of what is known from now on, whoever wrote it, with its record.

        Ends when the plane is closed. Only connectors that a record is about are looked at, so
        watching costs what is written.

        Raises:
            TooSlow: so many changes wait to be taken (`CHANGES_WAITING`) that the next is lost.
        """
        async with aclosing(self._watching.changes()) as seen:
            async for one in seen:
                yield one.change


def _telling(loggers: Loggers) -> Logger:
    """Tells on standard error by the level of our logger: what went wrong, if nobody has set it."""
    ours = loggers.named(LOGGER)
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.WARNING)
    return logger(level=ours)


def _context(settings: Settings, around: Surroundings, notices: Notices) -> Context:
    """What decisions depend on, as the settings say."""
    found = resolve(settings.profile)
    if found.warning is not None:
        notices.warning("release_not_known", reason=found.warning)
    support = settings.exactly_once or settings.worker.exactly_once_source
    return Context(
        profile=found.profile,
        worker=msgspec.structs.replace(settings.worker, exactly_once_source=support),
        plugins=_plugins(settings, around),
    )


def _plugins(settings: Settings, around: Surroundings) -> Plugins:
    """The classes that the program brings, or else those that can be found."""
    plugins = around.plugins
    if plugins is None:
        from controlplane.plugins import installed  # noqa: PLC0415 - reads a large file

        plugins = installed(Path(settings.catalogue) if settings.catalogue else None)
    return plugins.trusting_unknown() if settings.trust_unknown_classes else plugins


def _check_names(principal: object, key: object) -> None:
    """Who asks, and the key under which a command is run once.

    Raises:
        TypeError: they are no text.
        ValueError: the key is empty, as that of everybody who has none.
    """
    _check_text("a principal", principal)
    if key is not None:
        _check_text("a key", key)
    if key == "":
        raise ValueError("an idempotency key must not be empty: leave it out, or use a new one")


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, and not {value!r}")


async def _plain(command: AnyCommand) -> AnyCommand:
    """The command as it is read back from the command topic: lists are tuples, mappings dicts.

    Raises:
        TypeError: it is no command, or holds what cannot be data.
    """
    if not isinstance(command, AnyCommand):
        raise TypeError(f"{command!r} is no command: make one of those in controlplane.commands")
    try:
        return await apart(partial(_converted, command), size_of(command))
    except (TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise TypeError(f"{type(command).__name__} cannot hold this: {error}") from None


def _converted(command: AnyCommand) -> AnyCommand:
    built_in = _in_lists(msgspec.to_builtins(command, enc_hook=_dict_of))
    return msgspec.convert(built_in, type(command))  # the union would be looked up each time


def _in_lists(built_in: Any) -> Any:
    """Without tuples, wherever they are: they would not be equal to what is read from a log."""
    if isinstance(built_in, dict):
        return {key: _in_lists(value) for key, value in built_in.items()}
    if isinstance(built_in, list | tuple):
        return [_in_lists(value) for value in built_in]
    return built_in


def _dict_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no data")


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait until it is gone."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _opened(where: str | Log, stack: AsyncExitStack) -> Log:
    """A log that is closed with the stack, unless somebody else has opened it.

    An embedded log has one control plane at a time.
    """
    if not isinstance(where, str):
        if isinstance(where, OneWriter):
            stack.enter_context(where.writer_lock())
        return where
    check_ours(where)
    log: Log
    if where == "memory:":
        log = MemoryLog()
    else:
        from controlplane.logs.sqlite import SqliteLog  # noqa: PLC0415 - only who needs it

        log = await SqliteLog.open(path_of(where))
        stack.push_async_callback(log.close)
        stack.enter_context(log.writer_lock())
        return log
    stack.push_async_callback(log.close)
    return log


async def _make_topics(log: Log, settings: Settings) -> None:
    """Make the topics that are not there; those that are keep their partitions.

    Raises:
        LogNotUsable: the log has records, and a name of a topic is probably misspelt.
    """
    topics, partitions = settings.topics, settings.partitions
    await missing_for_writer(log, topics, named=renamed(topics), may_lack_configs=True)
    there = await log.topics()
    wanted = {
        topics.config: 1,
        topics.offsets: partitions.offsets,
        topics.status: partitions.status,
        topics.commands: 1,
    }
    for topic, number in wanted.items():
        if topic not in there:
            await log.create_topic(topic, number)
