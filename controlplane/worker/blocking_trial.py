"""Trials of connectors in tests without `async`: a thread with its own event loop runs them.

A trial is a connector that runs on a log in memory.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from threading import Thread
from typing import Any, Protocol, Self, TypeVar

from controlplane.connect.transforms import Predicate, Transformation
from controlplane.core.commands import AnyCommand
from controlplane.core.entry import Entry
from controlplane.core.plan import Outcome
from controlplane.core.records import Status
from controlplane.worker.connector_classes import AnyConnectorClass
from controlplane.worker.trial import ConnectorTrial, trial

T = TypeVar("T")


class BlockingTrial:
    """A running connector, with blocking forms of the methods of `ConnectorTrial`."""

    def __init__(self, running: ConnectorTrial, trials: "BlockingTrials") -> None:
        self._running = running
        self._trials = trials

    def records(self, topic: str, count: int) -> Sequence[Entry]:
        """Wait for this number of records in a topic; return all that it has then.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the records do
                not come.
        """
        return self._trials.call(self._running.records(topic, count))

    def offsets(self, expected: Mapping[str, Any] | None = None) -> list[tuple[Any, Any]]:
        """Return the committed offsets of a source; wait until `expected` is one of them.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the offset does
                not come.
        """
        return self._trials.call(self._running.offsets(expected))

    def produce(self, topic: str, values: Iterable[str | None]) -> None:
        """Write records without a key for a sink; None is a tombstone."""
        self._trials.call(self._running.produce(topic, values))

    def consumed(self, topic: str, offset: int) -> None:
        """Wait until a sink has committed an offset of a topic's first partition.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the commit does
                not come.
        """
        self._trials.call(self._running.consumed(topic, offset))

    def status(self, state: str, *tasks: str) -> Status:
        """Wait until the connector and its tasks are reported in these states.

        Returns the status of the connector.

        Raises:
            AssertionError: they do not reach these states.
        """
        return self._trials.call(self._running.status(state, *tasks))

    def execute(self, command: AnyCommand) -> Outcome:
        """Run a command of the control plane. The connector of a trial is called `trial`.

        Raises:
            Refusal: the command is refused, in Kafka's words.
        """
        return self._trials.call(self._running.plane.execute(command))


class StartTrial(Protocol):
    """Starts a connector of a class. `changes` replace fields of the trial's `RuntimeSettings`.

    `plugins`: transformations and predicates that the config may name.
    """

    def __call__(
        self,
        connector: AnyConnectorClass,
        config: Mapping[str, str],
        /,
        *,
        plugins: Iterable[type[Transformation | Predicate]] = (),
        **changes: Any,
    ) -> BlockingTrial:
        """Start the connector.

        Raises:
            Refusal: the config is invalid, in Kafka's words.
        """
        ...


class BlockingTrials:
    """Context manager that starts trials; the end of its block stops them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="trials", daemon=True)
        self._end = asyncio.Event()
        self._trial_tasks: list[asyncio.Task[None]] = []

    def start(
        self,
        connector: AnyConnectorClass,
        config: Mapping[str, str],
        /,
        *,
        plugins: Iterable[type[Transformation | Predicate]] = (),
        **changes: Any,
    ) -> BlockingTrial:
        """Start a connector on a log in memory.

        Raises:
            Refusal: the config is invalid, in Kafka's words.
        """
        return BlockingTrial(
            self.call(self._started(connector, config, {"plugins": plugins, **changes})), self
        )

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _started(
        self, connector: AnyConnectorClass, config: Mapping[str, str], options: dict[str, Any]
    ) -> ConnectorTrial:
        started: asyncio.Future[ConnectorTrial] = self._loop.create_future()

        async def live() -> None:
            """Open and close the trial in one task."""
            try:
                async with trial(connector, config, **options) as running:
                    started.set_result(running)
                    await self._end.wait()
            except Exception as failure:
                if started.done():
                    raise
                started.set_exception(failure)

        self._trial_tasks.append(self._loop.create_task(live()))
        return await started

    async def _ended(self) -> None:
        self._end.set()
        await asyncio.gather(*self._trial_tasks)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self._ended())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
