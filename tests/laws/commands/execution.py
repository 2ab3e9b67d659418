"""Execution of a history: a control plane runs commands, crashes at given steps and restarts."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from controlplane.controller import CommandLimits, StepListener
from controlplane.controller.admission import CommandAnswer
from controlplane.core.commands import AnyCommand, CommandRequest
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import Step
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.log import Fenced, Log, LogUnavailable, Record
from controlplane.plane import ControlPlane, Partitions, Refusal, Settings, Surroundings
from tests.controller.scene import COMMANDS, CONFIG, OFFSETS, STATUS, Crash
from tests.laws.commands.events import (
    OWN,
    CommandEvent,
    Committed,
    ConcurrentCommands,
    Event,
    ForeignWrite,
    TakeOver,
)
from tests.laws.commands.storage import FaultInjection, LogOpener
from tests.laws.commands.world import Groups, Hooks, Kafka, LawClock, Unheard, plugins
from tests.patience import NEVER_RETRIED

PARTITIONS = Partitions(offsets=3, status=2)
TOPICS = {CONFIG: 1, STATUS: 2, OFFSETS: 3, OWN: 3, COMMANDS: 1}
"""All topics, with their numbers of partitions."""

PATIENT = CommandLimits(retry_first_ms=1, retry_last_ms=60_000, end_delay_ms=60_000)
"""Limits for short outages: each command waits for the log, and no background retry runs.

Without a next command, the end of a command is written when the process ends.
"""

IMPATIENT = replace(NEVER_RETRIED, retry_last_ms=60_000, end_delay_ms=60_000)
"""Limits with a retry pause above the patience: a failed write is not retried."""

_command_id: ContextVar[str] = ContextVar("command_id", default="")
"""Id of the command that this task executes without an idempotency key; empty: any id."""


def _new_id() -> str:
    return _command_id.get() or str(uuid4())


class Fuse:
    """A `stepped` hook that crashes the process after a number of steps."""

    def __init__(self) -> None:
        self._steps: deque[int] = deque()
        self._blown = False

    def set(self, steps: Iterable[int]) -> None:
        """Set the number of steps before each crash; counting begins again after a restart."""
        self._steps, self._blown = deque(steps), False

    def mend(self) -> None:
        """Let the next process run: steps raise Crash only after the next number of steps."""
        self._blown = False

    async def __call__(self, _asked: CommandRequest, step: Step) -> None:
        """Count a step; raise Crash once the fuse has blown."""
        if self._steps and not self._blown:
            self._steps[0] -= 1
            if self._steps[0] == 0:
                self._steps.popleft()
                self._blown = True
        if self._blown:
            raise Crash(step.name)


class SimulatedCluster:
    """A log and its surroundings, which outlive the processes."""

    def __init__(
        self,
        profile: Profile,
        *,
        exactly_once: bool = False,
        limits: CommandLimits = PATIENT,
        now_ms: int | None = None,
        groups: Groups | None = None,
    ) -> None:
        self.profile, self.exactly_once, self.limits = profile, exactly_once, limits
        self.clock = LawClock() if now_ms is None else LawClock(now_ms)
        self.kafka = Kafka(self.clock, groups)
        self.hooks = Hooks()
        self.plugins = plugins(self.hooks)
        self.fuse = Fuse()
        self.stepped: StepListener = self.fuse

    @asynccontextmanager
    async def plane(self, log: Log) -> AsyncIterator[ControlPlane]:
        """Open a process of the cluster."""
        settings = Settings(
            profile=self.profile.release,
            partitions=PARTITIONS,
            exactly_once=self.exactly_once,
            limits=self.limits,
        )
        around = Surroundings(
            plugins=self.plugins,
            outside=self.kafka,
            notices=Unheard(),
            now_ms=self.clock,
            new_id=_new_id,
            stepped=self.stepped,
        )
        async with ControlPlane.open(log, settings, around) as plane:
            yield plane


class AnsweredCommand(NamedTuple):
    """A command and its answer; None: the outcome is unknown."""

    command: AnyCommand
    command_id: str
    began_ms: int
    ended_ms: int
    answer: CommandAnswer | None
    hooks: int | None
    """Number of calls of the connector's hook; None: unknown after concurrent commands."""
    away: bool = False
    """True if the answer is missing because of the log's outage, not of a crash."""
    keyed: bool = True
    """True if the command has an idempotency key, so that the log keeps its whole answer."""


class Died(NamedTuple):
    """The end of a process, and the state after the next one has recovered."""

    at_ms: int
    back: ClusterState
    """State of the next process after its recovery."""


class Displaced(NamedTuple):
    """Result of a command on a plane whose writer epoch another process has taken over."""

    noticed: bool
    """True if the old process learned that it is no longer the writer."""
    records: tuple[int, int]
    """Numbers of records in the log before and after the command."""


class RunJournal(NamedTuple):
    """Effects of a history outside of the log."""

    answered: list[AnsweredCommand]
    died: list[Died]
    displaced: list[Displaced]


async def live(place: LogOpener, events: Iterable[Event], cluster: SimulatedCluster) -> RunJournal:
    """Execute these events in sequence, from process to process."""
    living = Living(events, cluster)
    while not living.is_over:
        async with place() as log:
            await living.one_process(log)
    async with place() as log, cluster.plane(log) as plane:  # recovery ends commands in doubt
        living.journal.died.append(Died(cluster.clock(), plane.state))
    return living.journal


async def entries_in(log: Log) -> list[Entry]:
    """All entries of a log, in the order of writing."""
    topics = await log.topics()
    return in_order(entries_of([batch async for batch in log.read(topics)]))


class _Again(NamedTuple):
    """A repeated command: the client got no answer, or does not trust it."""

    command: AnyCommand
    command_id: str


class Living:
    """A history during its execution."""

    def __init__(
        self,
        events: Iterable[Event],
        cluster: SimulatedCluster,
        name: str = "c",
        tell: Callable[[AnsweredCommand], None] = lambda _: None,
    ) -> None:
        self.journal = RunJournal([], [], [])
        self.is_over = False
        self._events = iter(events)
        self._again: deque[_Again] = deque()
        self._died_ms: int | None = None
        """Time of death of the last process, until the next one starts."""
        self._cluster = cluster
        self._ids = (f"{name}{number}" for number in count())
        self._tell = tell

    async def one_process(self, log: Log) -> None:
        """Run a process until it dies, is displaced, or all events are done.

        The connectors' own topic exists before any connector: its records may be older.
        """
        assert isinstance(log, FaultInjection)
        log.killed = False
        await log.create_topic(OWN, PARTITIONS.offsets)
        try:
            async with self._cluster.plane(log) as plane:
                self._is_back(plane)
                while (event := self._next()) is not None:
                    await self._happens(plane, log, event)
                    if isinstance(event, TakeOver):
                        return
                self.is_over = True
        except Crash:
            self._died_ms = self._died_ms or self._cluster.clock()
            self._cluster.fuse.mend()

    def _next(self) -> "Event | _Again | None":
        return self._again.popleft() if self._again else next(self._events, None)

    def _is_back(self, plane: ControlPlane) -> None:
        """Note the state after recovery, which ends before the plane is open."""
        self._cluster.fuse.set(())
        if self._died_ms is not None:
            self.journal.died.append(Died(self._died_ms, plane.state))
            self._died_ms = None

    async def _happens(self, plane: ControlPlane, log: Log, event: Event | _Again) -> None:
        match event:
            case CommandEvent():
                await self._ask(plane, log, event)
            case _Again():
                await self._execute(plane, event.command, event.command_id)
            case ConcurrentCommands():
                await self._ask_together(plane, event.commands)
            case ForeignWrite():
                await self._write(plane, log, event)
            case Committed():
                self._cluster.kafka.commit(event.group, "t", event.partition, event.offset)
            case TakeOver():
                await self._take_over(plane, log, event.command)

    async def _ask(self, plane: ControlPlane, log: Log, event: CommandEvent) -> None:
        assert isinstance(log, FaultInjection)
        command_id = next(self._ids)
        again = (command_id if same else next(self._ids) for same in event.retried)
        self._again.extend(_Again(event.command, repeated_id) for repeated_id in again)
        self._cluster.fuse.set(event.crashes)
        self._cluster.kafka.trouble, log.outage = event.trouble, event.outage
        try:
            await self._execute(plane, event.command, command_id, keyed=bool(event.retried))
        except Crash:
            log.killed = True
            raise
        finally:
            self._cluster.kafka.trouble = log.outage = None
        self._cluster.fuse.set(())

    async def _ask_together(self, plane: ControlPlane, commands: Iterable[AnyCommand]) -> None:
        first = len(self.journal.answered)
        await asyncio.gather(
            *(self._execute(plane, command, next(self._ids), keyed=False) for command in commands)
        )
        self.journal.answered[first:] = [
            answered._replace(hooks=None) for answered in self.journal.answered[first:]
        ]

    async def _execute(
        self, plane: ControlPlane, command: AnyCommand, command_id: str, *, keyed: bool = True
    ) -> None:
        """Execute a command; a command without a key may be answered before its end is recorded."""
        clock, hooks = self._cluster.clock, self._cluster.hooks
        began_ms, calls = clock(), hooks.calls
        answer: CommandAnswer | None = None
        away = False
        before = _command_id.set(command_id)
        try:
            answer = await plane.execute(command, key=command_id if keyed else None)
        except Refusal as refusal:
            answer = refusal.rejected
        except LogUnavailable:
            away = True
        finally:
            _command_id.reset(before)
            answered = AnsweredCommand(
                command, command_id, began_ms, clock(), answer, hooks.calls - calls, away, keyed
            )
            self.journal.answered.append(answered)
            self._tell(answered)

    async def _write(self, plane: ControlPlane, log: Log, event: ForeignWrite) -> None:
        """Write a foreign record; wait for it only if its topic is followed."""
        ends = await log.ends([event.topic])
        place = event.topic, partition_of(event.key, len(ends[event.topic]))
        record = Record(*place, self._cluster.clock(), event.key, event.value)
        positions = await log.append([record])
        if event.topic in plane.follower.ends:
            await plane.follower.wait_for_records(positions)

    async def _take_over(self, plane: ControlPlane, log: Log, command: AnyCommand) -> None:
        async with self._cluster.plane(log):
            before, noticed = len(await entries_in(log)), False
            try:
                await plane.execute(command)
            except Fenced:
                noticed = True
            after = len(await entries_in(log))
            self.journal.displaced.append(Displaced(noticed, (before, after)))
