"""Running worker of a scenario: reads, decides and writes as its release, and may be the leader.

The leader is a `Controller`, as in a service: the one writer, which completes the unfinished
commands of its predecessor. The other workers write only the records that any worker may write.
They have no epoch, and write no entry in the command topic.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from controlplane.core.entry import Position
from controlplane.core.fold import Fold
from controlplane.core.order import Ends, entries_of, in_order
from controlplane.core.plan import Outcome, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import Log, ReadableLog
from controlplane.scenario.worker_releases import Worker


class Crashed(Exception):
    """The worker is killed, as by `kill -9`. The message is the last step that it has done."""


class OnDemandReader:
    """Reader of one worker; each call reads the log to its end.

    No record is read twice, as in a running worker: a later compaction has no effect on it. New
    records are folded in the order of `core.order`.
    """

    def __init__(self, log: ReadableLog, fold: Fold) -> None:
        self._log = log
        self._fold = fold
        self._ends: dict[str, Sequence[int]] = {}

    @property
    def ends(self) -> Mapping[str, Sequence[int]]:
        """End offsets up to which the log has been read, by topic and partition."""
        return dict(self._ends)

    async def read(self) -> ClusterState:
        """Read to the end; return the state there."""
        ends = await self._log.ends(await self._log.topics())
        batches = [batch async for batch in self._log.read(ends, self._ends, ends)]
        self._fold.apply_all(in_order(entries_of(batches)))
        for topic, parts in ends.items():
            for partition, end in enumerate(parts):
                self._fold.advance(topic, partition, end)
        self._ends = dict(ends)
        return self._fold.snapshot()

    async def state(self, profile: Profile) -> ClusterState:
        """State at the end of the log; a worker reads as one release only."""
        assert profile is self._fold.profile
        return await self.read()

    def present(self, profile: Profile) -> ClusterState:
        """State at the last read; reads nothing."""
        assert profile is self._fold.profile
        return self._fold.snapshot()

    async def follow(self, topics: Iterable[str]) -> None:
        """Do nothing: every topic is read."""
        del topics

    async def wait_for_records(self, positions: Sequence[Position]) -> None:
        """Read to the end, which is past these positions."""
        del positions
        await self.read()

    async def wait_for(self, ends: Ends) -> None:
        """Read to the end, which lies at or after these ends."""
        del ends
        await self.read()


class WorkerEnvironment(NamedTuple):
    """Environment that the workers of a scenario share."""

    log: Log
    topics: Topics
    plugins: Plugins
    outside: ExternalActions
    now_ms: Callable[[], int]
    numbers: "count[int]"
    """Counter for the ids of commands: they are the same in every run."""


class RunningWorker:
    """Worker from its start to its end; calls `stepped` after each step of a plan."""

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

    async def lead(self, repaired: Callable[..., None]) -> None:
        """Become the leader, and complete unfinished commands; calls `repaired` for each.

        Raises:
            Crashed: this worker was killed meanwhile.
        """
        around = self._around
        world = WriterEnvironment(around.now_ms, around.outside, _Repairs(repaired), self._stepped)
        self._controller = await Controller.start(
            around.log, self._reader, self._context, world, CommandLimits()
        )

    async def follow(self) -> None:
        """Stop leading; the worker keeps its state."""
        if self._controller is not None:
            await self._controller.close()
            self._controller = None

    async def execute(self, command: AnyCommand) -> Outcome | Rejected:
        """Run a command to its end.

        Raises:
            Crashed: the worker was killed meanwhile.
        """
        state, around = await self.read(), self._around
        request = CommandRequest(
            command=command,
            command_id=f"command-{next(around.numbers)}",
            at_ms=around.now_ms(),
        )
        if self._controller is not None:
            return await self._controller.execute(request)
        decision = await Decider(self._context, around.outside).decided(state, command)
        if isinstance(decision, Rejected):
            return decision
        return await self._execution.perform(request, decision)

    async def refusal(self, command: AnyCommand) -> Rejected | None:
        """The refusal of a command, decided from the log alone; None: the log gives no refusal."""
        decision = decide(await self.read(), command, self._context)
        return decision if isinstance(decision, Rejected) else None

    @property
    def _execution(self) -> PlanExecution:
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
            writing,
            around.outside,
            commands_topic=None,
            now_ms=around.now_ms,
            hooks=ExecutionHooks(self._stepped),
        )


class _Repairs:
    """Logger of a controller that passes on its repairs."""

    def __init__(self, repaired: Callable[..., None]) -> None:
        self._repaired = repaired

    def info(self, event: str, **facts: Any) -> None:
        """Ignore the end of a command: its caller gets the outcome."""

    def warning(self, event: str, **facts: Any) -> None:
        """Pass on how a command of an earlier leader ended, or that it stays unfinished."""
        del event
        self._repaired(**facts)
