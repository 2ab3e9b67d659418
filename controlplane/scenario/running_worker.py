"""A worker of a scenario that runs: it reads, decides and writes as its release, and may lead.

Whoever leads is a `Controller`, the same as in a service: the one writer, who ends what an earlier
one has left unfinished. All others decide and write for themselves the few things that any worker
may write, without an epoch and without a word in the command topic.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

from controlplane.controller import CommandLimits, Controller, StepListener, WriterEnvironment
from controlplane.controller.decision import Decider
from controlplane.controller.external import ExternalActions
from controlplane.controller.plan_execution import ExecutionHooks, LogWriter, PlanExecution
from controlplane.core.commands import AnyCommand, CommandRequest
from controlplane.core.context import Context
from controlplane.core.context import DecisionSettings as Settings
from controlplane.core.decide import decide
from controlplane.core.fold import Fold
from controlplane.core.plan import Outcome, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import Log
from controlplane.scenario.on_demand_reader import OnDemandReader
from controlplane.scenario.workers import Worker


class Crashed(Exception):
    """A worker ends here, as by `kill -9`. The message is the step behind which it does."""


class WorkerEnvironment(NamedTuple):
    """Environment that the workers of a scenario share."""

    log: Log
    topics: Topics
    plugins: Plugins
    outside: ExternalActions
    now_ms: Callable[[], int]
    numbers: "count[int]"
    """Ids of commands, which must not vary."""


class RunningWorker:
    """A worker from its start to its end. `stepped` is told of each step that it has done."""

    def __init__(self, worker: Worker, around: WorkerEnvironment, stepped: StepListener) -> None:
        self.worker = worker
        self._around = around
        self._stepped = stepped
        fold = Fold(worker.profile, topics=around.topics, exactly_once=worker.exactly_once)
        self._reader = OnDemandReader(around.log, fold)
        settings = Settings(exactly_once_source=worker.exactly_once)
        self._context = Context(profile=worker.profile, worker=settings, plugins=around.plugins)
        self._controller: Controller | None = None

    @property
    def leads(self) -> bool:
        """True if this worker is the leader."""
        return self._controller is not None

    async def read(self) -> ClusterState:
        """State at the end of the log."""
        return await self._reader.read()

    async def lead(self, told: Callable[..., None]) -> None:
        """Become the leader, and end what the one before has left unfinished: `told` of each.

        Raises:
            Crashed: that was the end of this one, too.
        """
        around = self._around
        world = WriterEnvironment(around.now_ms, around.outside, _Repairs(told), self._stepped)
        self._controller = await Controller.start(
            around.log, self._reader, self._context, world, CommandLimits()
        )

    async def follow(self) -> None:
        """Lead no more."""
        if self._controller is not None:
            await self._controller.close()
            self._controller = None

    async def execute(self, command: AnyCommand) -> Outcome | Rejected:
        """Run a command to its end.

        Raises:
            Crashed: the worker has not come to its end.
        """
        state, around = await self.read(), self._around
        asked = CommandRequest(
            command=command,
            command_id=f"command-{next(around.numbers)}",
            at_ms=around.now_ms(),
        )
        if self._controller is not None:
            return await self._controller.execute(asked)
        decision = await Decider(self._context, around.outside).decided(state, command)
        if isinstance(decision, Rejected):
            return decision
        return await self._performing.perform(asked, decision)

    async def refusal(self, command: AnyCommand) -> Rejected | None:
        """The refusal of a command, without questions to the world; None if it is accepted."""
        decision = decide(await self.read(), command, self._context)
        return decision if isinstance(decision, Rejected) else None

    @property
    def _performing(self) -> PlanExecution:
        around = self._around
        writing = LogWriter(
            around.log,
            self._reader,
            epoch=None,
            offsets_topic=around.topics.offsets,
            limits=CommandLimits(),
            now_ms=around.now_ms,
        )
        return PlanExecution(
            writing, around.outside, None, around.now_ms, ExecutionHooks(self._stepped)
        )


class _Repairs:
    """Listens to a controller for what it repairs."""

    def __init__(self, told: Callable[..., None]) -> None:
        self._told = told

    def info(self, event: str, **facts: Any) -> None:
        """A command has ended: whoever asked for it is answered."""

    def warning(self, event: str, **facts: Any) -> None:
        """A command of an earlier leader has been ended: `command_recovered`."""
        del event
        self._told(**facts)
