"""Control plane for any asyncio program: open a log, run commands, query, watch.

    async with ControlPlane.open("sqlite:///state.db") as plane:
        await plane.execute(StopConnector("orders"))

There is no global state: one process can open several planes, each on its own log.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple
from uuid import uuid4

import msgspec

from controlplane.controller import (
    CommandLimits,
    Controller,
    ExternalActions,
    StepListener,
    WriterEnvironment,
)
from controlplane.controller.external import sink_offsets, sink_progress, with_remote_offsets
from controlplane.controller.writer_environment import LevelSetter
from controlplane.core.codec.command_log import command_of
from controlplane.core.commands import AnyCommand, CommandRequest, as_stored, size_of
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.plan import GroupOffsets, Outcome, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import KIP, Profile, resolve
from controlplane.core.state import ClusterState, Topics, check_topics
from controlplane.core.views.diff import Change
from controlplane.core.views.group_progress import GroupProgress
from controlplane.core.views.history import History
from controlplane.event_loop import OwnLoop, cancel, in_thread_if_large, now_ms
from controlplane.logger_levels import LOGGER, Loggers
from controlplane.logs.cluster_topics import create_topics
from controlplane.logs.log import HasClusterId, HasWriterLock, Log, LogError
from controlplane.logs.memory import MemoryLog
from controlplane.logs.names import check_ours, path_of
from controlplane.notices import HarmlessNotices, Notices
from controlplane.observe import Logger, logger
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.past_states import read_history
from controlplane.projection.upkeep import UpkeepSettings, repeat_upkeep, store_last_snapshots
from controlplane.settings.kinds import check_settings

if TYPE_CHECKING:
    from controlplane.rest.app import App
    from controlplane.rest.service import Commands, Service, WorkerMetrics


_PartitionCount = Literal[-1] | Annotated[int, msgspec.Meta(ge=1)]


class Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """Partition counts for the topics of a new log; the defaults are Connect's.

    -1: on Kafka the brokers' default. An embedded log refuses to create a topic with -1.
    """

    offsets: _PartitionCount = 25
    status: _PartitionCount = 5


class Refusal(Exception):
    """A command was refused, or has failed and is taken back. The message is Connect's wording."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.sentence)
        self.rejected = rejected


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a control plane. The defaults suit one process with one file."""

    profile: str = KIP
    """Release whose behaviour the plane follows."""
    worker: DecisionSettings = DecisionSettings()
    administered: bool = True
    """True if `app` includes the endpoints for administrators (KIP-495)."""
    topics: Topics = Topics()
    partitions: Partitions = Partitions()
    exactly_once: bool = False
    limits: CommandLimits = CommandLimits()
    follower: FollowerLimits = FollowerLimits()
    """Limits of following the log. `gather_ms` is ignored: the plane does not gather entries for
    some ms to put them in order. The entries of its only writer arrive in order, and gathering them
    would delay each command."""
    upkeep: UpkeepSettings = UpkeepSettings()
    catalogue: str | None = None
    """File that lists connector classes; ignored if `Surroundings.plugins` is set."""
    trust_unknown_classes: bool = False
    """True to accept undeclared classes; a worker refuses them."""


class Surroundings(NamedTuple):
    """Dependencies of a control plane; tests and embedding programs replace them."""

    plugins: Plugins | None = None
    """Available connector classes. None: Kafka's own, those of installed packages, and those of the
    configured catalogue (`controlplane.plugins`)."""
    outside: ExternalActions | None = None
    """Systems outside of Connect's topics. None: the consumer groups of an embedded log; no systems
    if the log is not embedded (`default_actions`)."""
    notices: Notices | None = None
    now_ms: Callable[[], int] = now_ms
    new_id: Callable[[], str] = lambda: str(uuid4())
    stepped: StepListener | None = None
    """Called after each step of a plan; an exception ends the command there."""
    loggers: Loggers | None = None
    """Loggers of `/admin/loggers`. None: a separate set, so the embedding program keeps its own."""


class _ResolvedSettings(NamedTuple):
    """Settings and surroundings of a plane, with every default filled in."""

    around: Surroundings
    context: Context
    loggers: Loggers
    administered: bool
    notices: Notices


class ControlPlane:
    """One cluster's control plane, and the only writer of its log."""

    def __init__(
        self, log: Log, controller: Controller, follower: Follower, resolved: "_ResolvedSettings"
    ) -> None:
        self._log = log
        self._controller = controller
        self.follower = follower
        self._around, self.context, self._loggers, self._administered, self.notices = resolved
        self.now_ms = self._around.now_ms
        self._watching = ChangeFeed(follower, log, self.context.profile)
        self._loop = OwnLoop()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        where: str | Log,
        settings: Settings | None = None,
        around: Surroundings | None = None,
    ) -> AsyncIterator["ControlPlane"]:
        """Open a log (`sqlite:///state.db`, `memory:`, or an open `Log`) and become its writer.

        A missing log is created with its topics. If an embedded log has records, each topic whose
        name in the settings is not the default must exist (`missing_for_writer`). Otherwise the
        name is probably misspelt. Exception: if the log lacks `connect-commands`, the command topic
        of the settings is created. An imported log, for example, has no command topic.
        On Kafka, opening fails if Connect's topics have records but the command topic has none
        (`check_own_topics`). While an embedded log is open here, no other control plane or command
        line can write it. An earlier process's unfinished commands end before this returns, unless
        they are unreadable or cannot be undone.

        Raises:
            LogError: the log cannot be used.
            Unloadable: a connector of an installed package cannot be loaded.
            CatalogueError: the configured file cannot be read, or is no catalogue.
            UnknownRelease: there is no such profile.
            SettingsError, SharedTopic: a setting is invalid, or contradicts another one.
        """
        settings, around = settings or Settings(), around or Surroundings()
        check_settings(settings)
        check_topics(settings.topics)
        loggers = around.loggers or Loggers(around.now_ms)
        notices = HarmlessNotices(around.notices) if around.notices else _default_logger(loggers)
        context = _context(settings, around, notices)
        # Order of closing: upkeep, controller, watchers, last snapshots, follower, lock, log.
        async with AsyncExitStack() as stack:
            log = await opened_log(where, stack)
            if isinstance(log, HasWriterLock):  # an embedded log has one control plane at a time
                stack.enter_context(log.writer_lock())
            counts = settings.partitions
            await create_topics(log, settings.topics, offsets=counts.offsets, status=counts.status)
            follower = Follower(
                log,
                topics=settings.topics,
                exactly_once=context.worker.exactly_once_source,
                limits=msgspec.structs.replace(settings.follower, gather_ms=0),
                notices=notices,
            )
            await stack.enter_async_context(follower)
            set_level = _level_setter(loggers, context.profile)
            outside, stepped = around.outside, around.stepped
            world = WriterEnvironment(around.now_ms, outside, notices, stepped, set_level)
            controller = await Controller.start(log, follower, context, world, settings.limits)
            stack.enter_context(follower.pinned(context.profile))
            resolved = _ResolvedSettings(around, context, loggers, settings.administered, notices)
            plane = cls(log, controller, follower, resolved)
            stack.push_async_callback(
                lambda: store_last_snapshots(log, plane._own_state, settings.upkeep, notices)
            )
            stack.callback(plane._watching.end)
            stack.push_async_callback(controller.close)
            upkeep = repeat_upkeep(log, plane._own_state, around.now_ms, settings.upkeep, notices)
            stack.push_async_callback(cancel, asyncio.create_task(upkeep, name="upkeep"))
            yield plane

    @property
    def state(self) -> ClusterState:
        """Current state; it is immutable. Use `views` to render it."""
        return self._controller.state

    def _own_state(self) -> ClusterState | None:
        """Return the state, or None once this plane knows that it is fenced."""
        return self.state if self.failure is None else None

    @property
    def failure(self) -> LogError | None:
        """Failure that stopped all commands: another process has become the log's writer.

        The plane runs no more commands. It continues to read, and may `claim` the log again.
        """
        return self._controller.failure

    async def claim(self) -> None:
        """Become the writer again after another one has taken over (`failure`), and fence that one.

        First this plane's running commands end: they are fenced, or succeed. Then the plane takes
        over and ends the commands that any writer has left unfinished. Nothing happens while this
        plane knows of no other writer.

        Raises:
            Fenced: another writer has taken over meanwhile.
            LogError: the log cannot be written; `claim` again later.
        """
        await self._controller.claim()

    async def write_ends(self) -> None:
        """Write "finished" records that are missing; on Kafka, answers do not wait for them."""
        await self._controller.write_ends()

    async def trouble(self) -> LogError | None:
        """Return the error that a command would get now; None if the log is available."""
        return await self._controller.trouble()

    @property
    def log(self) -> Log:
        """The log; reading it is safe at any time."""
        return self._log

    @property
    def epoch(self) -> int:
        """Epoch of this writer. A worker that appends with this epoch is fenced with the writer."""
        return self._controller.epoch

    @property
    def service(self) -> "Service":
        """Service of Connect's REST API; see `app`."""
        return self.compose_service()

    def compose_service(
        self, commands: "Commands | None" = None, metrics: "WorkerMetrics | None" = None
    ) -> "Service":
        """Build the service. By default this plane runs its commands, and it has no `metrics`."""
        from controlplane.rest.endpoints.router import EndpointSet  # noqa: PLC0415 - see `app`
        from controlplane.rest.service import compose  # noqa: PLC0415

        return compose(
            self.follower,
            self._log,
            self.context,
            commands=self if commands is None else commands,
            groups=self,
            cluster_id=self._log.cluster_id if isinstance(self._log, HasClusterId) else None,
            watching=self._watching,
            loggers=self._loggers,
            endpoint_set=EndpointSet.ALL if self._administered else EndpointSet.PUBLIC,
            worker_metrics=metrics,
        )

    @cached_property
    def app(self) -> "App":
        """Connect's REST API as an ASGI application, to serve or mount anywhere.

            Starlette(routes=[Mount("/connect", plane.app)])

        It answers while the plane is open, and has no authentication: see
        `controlplane.rest.security`. HTTP is imported here, so a plane without HTTP starts fast.
        """
        from controlplane.rest.app import App  # noqa: PLC0415

        return App(self.service, None if self._around.notices else _default_logger(self._loggers))

    async def state_at(self, moment: str, profile: str | None = None) -> ClusterState:
        """Return the state at a moment: `config@57`, a time, or a vector of end offsets.

        Raises:
            TypeError: the moment or the profile is no text.
            UnknownMoment: the text is no moment, or the log has no record there.
            UnknownRelease: there is no such profile.
        """
        _check_text("a moment", moment)
        if profile is not None:
            _check_text("a profile", profile)
        reader = self.state.profile if profile is None else Profile.of(profile)
        return (await self.follower.state_at(moment, reader)).state

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None = None, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """Plan a command (dry run): the records in their order, or the refusal.

        Nothing is written. A connector's hook is called, as Kafka does before it writes; the hook
        may change another system. With `believe_hooks`, no hook in Python is called: each is
        assumed to agree, and `Plan.assumed` lists that.
        """
        plain = await _normalized(command)
        return await self._controller.plan(plain, profile, believe_hooks=believe_hooks)

    async def execute(
        self, command: AnyCommand, *, principal: str = "embedded", key: str | None = None
    ) -> Outcome:
        """Run a command; return once all its records have been read back.

        `key`: idempotency key. A repeated key gets the same outcome, and the command runs once. A
        cancelled call leaves no command half done.

        Raises:
            TypeError: `command` is no command or holds invalid data, or `principal` or `key` is no
                text.
            ValueError: the key is empty.
            Refusal: the command is refused, or has failed and is taken back.
            TooMany: too many commands wait; this call has not begun the command.
            TimedOut, LogError: the outcome is unknown.
        """
        answer = await self.carry_out(command, principal=principal, key=key)
        if isinstance(answer, Rejected):
            raise Refusal(answer)
        return answer

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str = "embedded",
        key: str | None = None,
        profile: Profile | None = None,
    ) -> Outcome | Rejected:
        """Run a command as a worker of any release; return a refusal instead of raising it.

        Errors are those of `execute`, without `Refusal`.
        """
        self._loop.check()
        _check_names(principal, key)
        request = CommandRequest(
            command=await _normalized(command),
            command_id=self._around.new_id() if key is None else key,
            at_ms=self._around.now_ms(),
            principal=principal,
            keyed=key is not None,
        )
        return await self._controller.execute(request, profile)

    def command_of(self, key: str) -> AnyCommand | None:
        """Return the command accepted under an idempotency key; None: it is unknown or unreadable.

        Raises:
            TypeError: the key is no text.
        """
        _check_text("a key", key)
        trace = self.state.commands.get(key)
        return None if trace is None else command_of(trace)

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """Read the committed offsets of a sink connector's consumer group.

        Raises:
            ExternalActionFailed: no broker answers, or it refuses.
        """
        return await sink_offsets(self.state, connector, self.context, self._controller.outside)

    async def with_remote_offsets(self, state: ClusterState, connector: str) -> ClusterState:
        """Return a state with a source's remote offsets; see `external.with_remote_offsets`."""
        return await with_remote_offsets(state, connector, self.context, self._controller.outside)

    async def group_progress(self, connector: str) -> GroupProgress:
        """Read the committed offsets of a sink's consumer group, with the lag in each partition.

        A partition's end is unknown if neither a cluster nor an embedded log has the partition.

        Raises:
            ExternalActionFailed: no broker answers, or it refuses.
        """
        return await sink_progress(self.state, connector, self.context, self._controller.outside)

    async def history(self, connector: str) -> History:
        """Return the history of a connector: its records, and the changes by each.

        Raises:
            TypeError: the name of the connector is no text.
        """
        _check_text("the name of a connector", connector)
        return await read_history(self._log, self.state, connector)

    async def watch(self) -> AsyncGenerator[Change, None]:
        """Yield each change by any writer, from the first iteration until the plane is closed.

        For each new record, one connector is compared: before the record, and after it.

        Raises:
            TooSlow: more than `CHANGES_WAITING` changes waited.
        """
        async with aclosing(self._watching.changes()) as events:
            async for event in events:
                yield event.change


def _default_logger(loggers: Loggers) -> Logger:
    """Return a logger on standard error; the level of `controlplane` is WARNING by default."""
    ours = loggers.named(LOGGER)
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.WARNING)
    return logger(level=ours)


def _level_setter(loggers: Loggers, own: Profile) -> LevelSetter:
    """Return the function that sets a level in this process; `own` replaces a missing profile."""
    return lambda command, profile: loggers.carry_out(command, profile or own)


def _context(settings: Settings, around: Surroundings, notices: Notices) -> Context:
    """Build the context of decisions from the settings."""
    resolved = resolve(settings.profile)
    if resolved.warning is not None:
        notices.warning("release_not_known", reason=resolved.warning)
    support = settings.exactly_once or settings.worker.exactly_once_source
    return Context(
        profile=resolved.profile,
        worker=msgspec.structs.replace(settings.worker, exactly_once_source=support),
        plugins=_plugins(settings, around),
    )


def _plugins(settings: Settings, around: Surroundings) -> Plugins:
    """Return the plugins of the embedding program, or else those that are installed."""
    plugins = around.plugins
    if plugins is None:
        from controlplane.plugins import installed  # noqa: PLC0415 - reads a large file

        plugins = installed(Path(settings.catalogue) if settings.catalogue else None)
    return plugins.trusting_unknown() if settings.trust_unknown_classes else plugins


def _check_names(principal: object, key: object) -> None:
    """Check the principal and the idempotency key.

    Raises:
        TypeError: one of them is no text.
        ValueError: the key is empty; all callers without a key would share it.
    """
    _check_text("a principal", principal)
    if key is not None:
        _check_text("a key", key)
    if key == "":
        raise ValueError("an idempotency key must not be empty: leave it out, or use a new one")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r}")


async def _normalized(command: AnyCommand) -> AnyCommand:
    """Return the command as the command topic would return it (`as_stored`).

    Raises:
        TypeError: the value is no command, or holds invalid data.
    """
    if not isinstance(command, AnyCommand):
        raise TypeError(f"{command!r} is no command: make one of those in controlplane.commands")
    try:
        return await in_thread_if_large(partial(as_stored, command), size_of(command))
    except (TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise TypeError(f"{type(command).__name__} cannot hold this: {error}") from None


async def opened_log(where: str | Log, stack: AsyncExitStack) -> Log:
    """Open a log, and close it with the stack; a `Log` object is returned and stays open."""
    if not isinstance(where, str):
        return where
    check_ours(where)
    log: Log
    if where == "memory:":
        log = MemoryLog()
    else:
        from controlplane.logs.sqlite import SqliteLog  # noqa: PLC0415 - loaded on demand

        log = await SqliteLog.open(path_of(where))
    stack.push_async_callback(log.close)
    return log
