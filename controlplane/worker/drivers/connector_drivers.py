"""Drivers of connectors: one interface to both forms of the author's code.

The author writes a `SourceConnector` or `SinkConnector`, which have the methods of Kafka's classes.
Or the author writes one class for connector and tasks, a `Source` or `Sink`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from controlplane.connect.errors import ConnectError
from controlplane.connect.sink import Sink, SinkConnector
from controlplane.connect.source import ResolvedConfig, Source, SourceConnector
from controlplane.notices import Notices
from controlplane.worker.connector_classes import AnyConnectorClass
from controlplane.worker.drivers.author_thread import AuthorThread


class ConnectorRequests(NamedTuple):
    """Requests of a running connector to the runtime. Callable from any thread."""

    reconfigure: Callable[[], None]
    fail: Callable[[BaseException], None]


class RunningConnector:
    """Services for a running connector (`ConnectorContext`)."""

    def __init__(
        self, name: str, resolved: Callable[[], ResolvedConfig], requests: ConnectorRequests
    ) -> None:
        self._name = name
        self._resolved = resolved
        self._config: ResolvedConfig = {}
        self._requests = requests

    def resolve(self) -> None:
        """Ask config providers for the config; called in the connector's thread: they may hang.

        Raises:
            ConnectError: a provider fails.
        """
        self._config = self._resolved()

    @property
    def name(self) -> str:
        """Name of the connector, as in the REST API."""
        return self._name

    @property
    def config(self) -> ResolvedConfig:
        """A copy of the connector's config."""
        return dict(self._config)

    def request_reconfiguration(self) -> None:
        """Ask the runtime for new task configs; callable from any thread."""
        self._requests.reconfigure()

    def fail(self, error: object) -> None:
        """Report that the connector cannot go on; an `error` that is no exception is quoted."""
        if not isinstance(error, BaseException):
            error = ConnectError(f"The connector reported a failure that is no exception: {error}")
        self._requests.fail(error)


class ConnectorDriver(Protocol):
    """Calls the author's code of one connector."""

    @property
    def config(self) -> ResolvedConfig:
        """A copy of the connector's config, once `make` has resolved it."""
        ...

    async def make(self) -> None:
        """Make the author's object, unless it exists."""
        ...

    async def start(self) -> None:
        """Make the connector unless it exists, and start it."""
        ...

    async def task_configs(self, limit: int) -> list[dict[str, str | None]]:
        """Ask the running connector for task configs."""
        ...

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the connector's thread, and return its result."""
        ...

    async def stop(self) -> None:
        """Stop the connector: call its `stop`, or end its `watch`."""
        ...

    def end_watch(self) -> None:
        """End the author's `watch`: the connector has failed, or stops."""
        ...

    def abandon(self) -> None:
        """End the threads of the connector, and do not wait for them: its code may hang."""
        ...


class ClassicDriver:
    """Runs a `SourceConnector` or `SinkConnector`, in a thread of its own."""

    def __init__(
        self,
        connector: type[SourceConnector | SinkConnector],
        context: RunningConnector,
        notices: Notices,
    ) -> None:
        self._class = connector
        self._connector: SourceConnector | SinkConnector | None = None
        self._context = context
        self._thread = AuthorThread(f"connector {context.name}", notices)

    @property
    def config(self) -> ResolvedConfig:
        """A copy of the connector's config, once `make` has resolved it."""
        return self._context.config

    async def make(self) -> None:
        """Make the connector in its own thread, unless it exists."""
        if self._connector is None:
            await self._thread.call(self._context.resolve)
            connector = await self._thread.call(self._class)
            await self._thread.call(setattr, connector, "context", self._context)
            self._connector = connector

    async def start(self) -> None:
        """Make the connector unless it exists, and call its `start`."""
        await self.make()
        assert self._connector is not None
        await self._thread.call(self._connector.start, self._context.config)

    async def task_configs(self, limit: int) -> list[dict[str, str | None]]:
        """Call the connector's `task_configs`, and check the result."""
        assert self._connector is not None
        check = partial(checked_configs, f"{self._class.__name__}.task_configs")
        return await self._thread.checked_call(check, self._connector.task_configs, limit)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the connector's thread, and return its result."""
        return await self._thread.call(function, *arguments)

    async def stop(self) -> None:
        """Call the connector's `stop`; returns when it has returned."""
        assert self._connector is not None
        await self._thread.call(self._connector.stop)

    def end_watch(self) -> None:
        """Do nothing: as in Kafka, the author's code hears nothing of a failure."""

    def abandon(self) -> None:
        """End the thread, and do not wait for it; cancel calls that are in an `await`."""
        self._thread.abandon()


class OneClassDriver:
    """Runs the connector's side of a `Source` or `Sink`: `split` and `watch`."""

    def __init__(
        self, connector: type[Source | Sink], context: RunningConnector, notices: Notices
    ) -> None:
        self._class = connector
        self._connector: Source | Sink | None = None
        self._context = context
        self._thread = AuthorThread(f"connector {context.name}", notices)
        self._watch: tuple[AuthorThread, asyncio.Future[Any]] | None = None

    @property
    def config(self) -> ResolvedConfig:
        """A copy of the connector's config, once `make` has resolved it."""
        return self._context.config

    async def make(self) -> None:
        """Make the connector in its own thread, unless it exists."""
        if self._connector is None:
            await self._thread.call(self._context.resolve)
            self._connector = await self._thread.call(self._class)

    async def start(self) -> None:
        """Begin to watch, in another thread than that of `split`."""
        await self.make()
        self.end_watch()
        assert self._connector is not None
        base = Source if issubclass(self._class, Source) else Sink
        if self._class.watch is base.watch:
            return
        thread = AuthorThread(f"watch {self._context.name}")
        watching = thread.submit_wait(self._connector.watch, self._context)
        watching.add_done_callback(self._watched)
        self._watch = thread, watching

    def _watched(self, watching: "asyncio.Future[Any]") -> None:
        if not watching.cancelled() and (failure := watching.exception()) is not None:
            self._context.fail(failure)

    async def task_configs(self, limit: int) -> list[dict[str, str | None]]:
        """Call `split`, and check the result."""
        assert self._connector is not None
        check = partial(checked_configs, f"{self._class.__name__}.split")
        return await self._thread.checked_call(
            check, self._connector.split, self._context.config, limit
        )

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the connector's thread, and return its result."""
        return await self._thread.call(function, *arguments)

    async def stop(self) -> None:
        """End `watch`; the author's class has no other code to stop."""
        self.end_watch()

    def end_watch(self) -> None:
        """Cancel the author's `watch`, and end its thread; a plain `def` runs until it returns."""
        if self._watch is not None:
            (thread, watching), self._watch = self._watch, None
            watching.cancel()
            # Callbacks run in the order of their addition: `watch` is cancelled first, and then its
            # thread ends.
            watching.add_done_callback(lambda _: thread.abandon())

    def abandon(self) -> None:
        """End both threads, and do not wait for them; cancel calls that are in an `await`."""
        self._thread.abandon()
        if self._watch is not None:
            self._watch[0].abandon()


def driver_of(
    connector: AnyConnectorClass, context: RunningConnector, notices: Notices
) -> ConnectorDriver:
    """Return the driver for a connector of either form; its `make` creates the connector.

    `notices`: receives warnings about calls that do not return.
    """
    if issubclass(connector, Source | Sink):
        return OneClassDriver(connector, context, notices)
    return ClassicDriver(connector, context, notices)


def checked_configs(method: str, configs: Any) -> list[dict[str, str | None]]:
    """Return plain copies of the task configs that a method of the author has returned.

    Raises:
        ConnectError: they are no list of maps of text.
    """
    if not isinstance(configs, Sequence) or isinstance(configs, str | bytes):
        raise ConnectError(
            f"{method} returned {type(configs).__name__} instead of a list of task configs"
        )
    return [_checked_config(method, config) for config in configs]


def _checked_config(method: str, config: Any) -> dict[str, str | None]:
    if not isinstance(config, Mapping):
        raise ConnectError(f"{method} returned {type(config).__name__} instead of a task config")
    plain: dict[str, str | None] = {}
    for key, value in config.items():
        if not isinstance(key, str) or not (value is None or isinstance(value, str)):
            raise ConnectError(
                f"{method} returned a task config whose {key!r} is "
                f"{type(value).__name__}: keys and values must be text"
            )
        plain[str.__str__(key)] = None if value is None else str.__str__(value)
    return plain
