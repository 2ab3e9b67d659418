"""The single writer: read log → fold → publish; command → decide → append → read back → answer."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from controlplane.controller import traces
from controlplane.controller.deciding import Deciding
from controlplane.controller.limits import Limits
from controlplane.controller.outside import Outside
from controlplane.controller.performing import (
    Around,
    NotDone,
    NotTakenBack,
    Performing,
    Stepped,
    unseen,
)
from controlplane.controller.reading import Reader, topics_concerned
from controlplane.controller.refusals import Refusals
from controlplane.controller.retrying import retried
from controlplane.controller.together import Together
from controlplane.controller.turns import Turns
from controlplane.controller.wording import not_written, timed_out
from controlplane.controller.writing import Writing
from controlplane.core.assumptions import IMPORT_AGAIN, of_partitions
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    Asked,
    ConnectorCommand,
    CreateConnector,
    PatchConfig,
    ResetOffsets,
    SetLoggerLevel,
)
from controlplane.core.context import Context
from controlplane.core.plan import Outcome, Plan, Rejected
from controlplane.core.profiles import Profile
from controlplane.core.recover import Failed, recover
from controlplane.core.redact import redacted_refusal
from controlplane.core.state import ClusterState, CommandTrace
from controlplane.follower import Notices
from controlplane.logs.log import Copied, Fenced, Log, LogError, LogUnavailable, Probed

Ended = Outcome | Rejected

CHANGES_WHAT_IS_THERE = PatchConfig, AlterOffsets, ResetOffsets
"""Commands that start from what lies in the log: none of it may be missed."""


def _looks_first(command: AnyCommand) -> bool:
    """Whether what others have written by now is read before it is decided."""
    with_offsets = isinstance(command, CreateConnector) and command.initial_offsets is not None
    return with_offsets or isinstance(command, CHANGES_WHAT_IS_THERE)


PROBE_S = 1.0
"""Time that a write without a change may take until the log counts as unavailable."""

Clock = Callable[[], int]

NOBODY_TOLD: Mapping[str, Failed] = MappingProxyType({})
"""Of commands that an earlier process has left."""


class TimedOut(Exception):
    """The asker was kept waiting for too long. The command goes on, and may still succeed."""


class Closed(LogUnavailable):
    """The controller ends; it did not carry the command out, or not to its end."""


class NotWritten(LogUnavailable):
    """The log was away for too long. What had begun is ended when it is back."""


class World(NamedTuple):
    """What a controller is given of the world: time, what lies outside of the logs, who listens."""

    now_ms: Clock
    outside: Outside
    notices: Notices
    stepped: Stepped | None = None


class _Parts(NamedTuple):
    """How a controller decides and performs, whether the log has a command topic, its epoch."""

    deciding: Deciding
    performing: Performing
    traced: bool
    epoch: int


class Controller:
    """Runs commands on one log, as the only one who does. Made by `start`.

    Commands of one connector run in order. Who asks gets an answer when the last record of the
    command has been read back; who goes away leaves no command half-done.
    """

    def __init__(
        self, log: Log, reader: Reader, parts: "_Parts", world: World, limits: Limits
    ) -> None:
        self._log = log
        self._reader = reader
        self._deciding, self._performing, self._traced, self._epoch = parts
        self._world = world
        self._limits = limits
        self._turns = Turns(limits.commands_waiting)
        self._refusals = Refusals(limits.refusals_per_minute, world.now_ms())
        self._running: dict[str, _Job] = {}
        self._doubtful: dict[str, dict[str, Failed]] = {}
        """By queue: commands that may be half-done, and what their askers were told."""
        self._healing: asyncio.Task[None] | None = None
        self._read_to_end = Together(self._read_on)
        self._closed = False
        self.failure: Fenced | None = None
        """Why no command can be carried out any more: somebody else has become the writer."""

    @classmethod
    async def start(
        cls, log: Log, reader: Reader, context: Context, world: World, limits: Limits
    ) -> "Controller":
        """Become the one writer, and end what an earlier one has left unfinished.

        Raises:
            LogUnavailable: the log cannot be written.
        """
        epoch = await log.claim()
        state = await reader.state(context.profile)
        traced = state.topics.commands in await log.topics()
        writing = Writing(
            log,
            reader,
            epoch=epoch,
            offsets_topic=state.topics.offsets,
            limits=limits,
            now_ms=world.now_ms,
        )
        topic = state.topics.commands if traced else None
        made: Controller

        async def is_there(connector: str) -> bool:
            await made._read_to_end()
            return connector in made.state.config.connectors

        around = Around(world.stepped or unseen, is_there)
        performing = Performing(writing, world.outside, topic, world.now_ms, around)
        deciding = Deciding(context, world.outside)
        made = cls(log, reader, _Parts(deciding, performing, traced, epoch), world, limits)
        await made._read_to_end()  # the epoch is ours: nothing comes from an older writer any more
        await made._settle(lambda _: True)
        return made

    @property
    def state(self) -> ClusterState:
        """What is known now: everything that has been answered is in it."""
        state = self._reader.present(self._deciding.context.profile)
        assert state is not None  # asked for at the start
        return state

    async def trouble(self) -> LogError | None:
        """Why no command can be carried out just now; None: one could be."""
        if self.failure is None and isinstance(self._log, Probed):
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._log.check_writable(self._epoch)
            except Fenced as failure:
                self.failure = failure
            except LogError as error:
                return error
            except TimeoutError:
                return LogUnavailable(f"The log has not taken a write for {PROBE_S:g} s")
        return self.failure

    async def plan(
        self, command: AnyCommand, profile: Profile | None = None, *, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """What would be done for a command, as `execute` would do it. Nothing is written.

        Hooks are called, as Kafka calls them before it writes, unless they are believed: some
        change systems outside.
        """
        self._check_open()
        state = await self._knowing(command, profile)
        decided = await self._deciding.decided(state, command, believe_hooks=believe_hooks)
        if isinstance(decided, Plan) and isinstance(self._log, Copied):
            topics = await self._log.assumed_partitions()
            assumed = *decided.assumed, *of_partitions(decided, state, topics, IMPORT_AGAIN)
            return msgspec.structs.replace(decided, assumed=assumed)
        return decided

    async def execute(self, asked: Asked, profile: Profile | None = None) -> Ended:
        """Run a command to its end, once: the same id again gets the same answer.

        It is done as a worker of the profile's release does it; None: of the release as which this
        controller was started. Cancelled while it waits for its turn, it has not begun; later, it
        is run to its end.

        Raises:
            TooMany: too many commands wait.
            TimedOut: it takes longer than an asker is kept waiting.
            Fenced: another writer has taken over.
            NotWritten: the log could not be written; what had begun is ended later.
        """
        self._check_open()
        job = self._running.get(asked.command_id)
        if job is None:
            known = self._known(asked)
            if known is not None:
                return known
            job = self._begin(asked, profile)
        elif job.asked.command != asked.command:
            return self._conflict(asked)
        job.askers += 1
        spoken = profile or self._deciding.context.profile
        try:
            async with asyncio.timeout(self._limits.request_timeout_ms / 1_000):
                return await asyncio.shield(job.task)
        except TimeoutError:
            told = timed_out(asked.command, spoken, job.since_ms, begun=job.begun)
            raise TimedOut(told) from None
        except asyncio.CancelledError:
            if self._closed and job.task.cancelled():
                self._check_open()
            if job.askers == 1:  # somebody else may wait for the same
                job.abandon()
            raise
        finally:
            job.askers -= 1

    async def close(self) -> None:
        """Let what has begun come to its end; what waits for its turn is dropped."""
        self._closed = True
        for job in self._running.values():
            job.abandon()
        tasks: list[asyncio.Task[Any]] = [job.task for job in self._running.values()]
        if self._healing is not None:
            self._healing.cancel()
            tasks.append(self._healing)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._deciding.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("Worker is shutting down")

    # --- one command --------------------------------------------------------------------------

    def _known(self, asked: Asked) -> Ended | None:
        trace = self.state.commands.get(asked.command_id)
        if trace is None or trace.accepted is None:
            return None
        if not traces.is_of(trace, asked.command):
            return self._conflict(asked)
        return traces.ended(trace)

    def _conflict(self, asked: Asked) -> Rejected:
        """A key that stands for another command; the command topic has that one under it."""
        refused = traces.other_command(asked)
        self._tell(_Job(asked, None), refused, records=0)
        return refused

    def _begin(self, asked: Asked, profile: Profile | None) -> "_Job":
        job = _Job(asked, profile)
        job.task = asyncio.create_task(self._run(job), name=f"command {asked.command_id}")
        self._running[asked.command_id] = job
        job.task.add_done_callback(lambda _: self._running.pop(asked.command_id))
        return job

    async def _run(self, job: "_Job") -> Ended:
        asked = job.asked
        async with self._turns.turn(_queue_of(asked.command)):
            job.since_ms = self._world.now_ms()
            await self._settle_doubt(_queue_of(asked.command))
            known = self._known(asked)
            if known is not None:  # it was this one that was in doubt
                return known
            try:
                ended = await self._decide_and_perform(job)
                self._tell(job, ended, self._performing.written(asked))
            except LogError as failure:
                if isinstance(failure, Fenced):
                    self.failure = failure
                self._tell(job, failure, self._performing.written(asked))
                raise
            finally:
                self._performing.written(asked)
            return ended

    async def _decide_and_perform(self, job: "_Job") -> Ended:
        asked = job.asked
        state = await retried(partial(self._looked_up, job), self._limits)
        decision = await self._deciding.decided(state, asked.command)
        job.begun = True  # up to here nothing has been written
        if isinstance(decision, Rejected):
            if self._traced and self._refusals.admits(asked.at_ms):
                await self._performing.refuse(asked, decision, self._limits.refusal_max_bytes)
            return decision
        try:
            plan = await self._deciding.answered(state, asked.command, decision)
            return await self._performing.perform(asked, plan)
        except NotTakenBack as left:
            self._leave_half(asked, left)
            return left.failed
        except LogUnavailable as failure:
            told = f"{not_written(asked.command)}: {failure}"
            step = failure.step if isinstance(failure, NotDone) else None
            self._doubt(asked, Failed(told, step))
            raise NotWritten(told) from failure

    async def _looked_up(self, job: "_Job") -> ClusterState:
        """The state that a command is decided on."""
        if _looks_first(job.asked.command):
            await self._read_to_end()  # foreign hands write, too
        return await self._knowing(job.asked.command, job.profile)

    async def _knowing(self, command: AnyCommand, profile: Profile | None = None) -> ClusterState:
        """The state as a release knows it, with all in it that the command may concern."""
        await self._reader.follow(topics_concerned(self.state, command))
        return self.state if profile is None else await self._reader.state(profile)

    def _tell(self, job: "_Job", ended: Ended | LogError, records: int) -> None:
        """The one line that a command leaves in the log of the service."""
        asked = job.asked
        outcome, reason = "done", None
        if isinstance(ended, Rejected):
            outcome, reason = ended.reason.value, redacted_refusal(ended.sentence)
        elif isinstance(ended, LogError):
            outcome, reason = "unfinished" if job.begun else "not begun", str(ended)
        self._world.notices.info(
            "command",
            command=asked.command.__struct_config__.tag,
            **_subject(asked.command),
            principal=asked.principal,
            outcome=outcome,
            reason=reason,
            records=records,
            command_id=asked.command_id,
            took_ms=self._world.now_ms() - job.since_ms,
        )

    # --- what was left unfinished -------------------------------------------------------------

    def _doubt(self, asked: Asked, failed: Failed) -> None:
        """A command may be half-done: end it before the next one of its queue, or sooner."""
        self._doubtful.setdefault(_queue_of(asked.command), {})[asked.command_id] = failed
        if self._healing is None or self._healing.done():
            self._healing = asyncio.create_task(self._heal(), name="commands left unfinished")

    def _leave_half(self, asked: Asked, left: NotTakenBack) -> None:
        """A command failed, and has to be taken back later: what lies outside is away."""
        if asked.command_id not in self._doubtful.get(_queue_of(asked.command), ()):
            self._world.notices.warning(
                "command_not_taken_back",
                command=asked.command.__struct_config__.tag,
                **_subject(asked.command),
                reason=str(left),
                command_id=asked.command_id,
            )
        self._doubt(asked, Failed(left.failed.sentence, left.step))

    async def _heal(self) -> None:
        """End what was left half-done as soon as the log is back, unless it is another's then."""
        with suppress(Fenced):
            while self._doubtful:
                await asyncio.sleep(self._limits.retry_last_ms / 1_000)
                for queue in sorted(self._doubtful):
                    with suppress(LogUnavailable):
                        async with self._turns.turn(queue):
                            await self._settle_doubt(queue)

    async def _settle_doubt(self, queue: str) -> None:
        """End what may have been left half-done while the log was away.

        Raises:
            NotTakenBack: that cannot be done yet; nothing may begin before.
        """
        if queue not in self._doubtful:
            return
        await self._read_to_end()
        told = self._doubtful[queue]
        left = await self._settle(lambda asked: _queue_of(asked.command) == queue, told)
        if left is not None:
            raise left
        del self._doubtful[queue]

    async def _settle(
        self, concerned: Callable[[Asked], bool], told: Mapping[str, Failed] = NOBODY_TOLD
    ) -> NotTakenBack | None:
        """End every unfinished command that is concerned, the oldest first; what cannot be yet."""
        left = None
        traced = (trace for trace in self.state.commands.values() if trace.unfinished)
        for trace in list(traced):
            asked = traces.asked_of(trace)
            if asked is None:
                self._leave_alone(trace)
            elif concerned(asked):
                try:
                    await self._end(asked, trace, told.get(asked.command_id))
                except NotTakenBack as failure:
                    self._leave_half(asked, failure)
                    left = failure
        return left

    def _leave_alone(self, trace: CommandTrace) -> None:
        assert trace.accepted is not None
        self._world.notices.warning(
            "command_left_alone",
            command_id=trace.accepted.command_id,
            reason="its record is of a newer version, or damaged: it stays unfinished",
        )

    async def _end(self, asked: Asked, trace: CommandTrace, failed: Failed | None) -> None:
        assert trace.accepted is not None
        state = await self._knowing(asked.command)
        found = recover(state, trace.accepted, self._deciding.context, failed)
        if found.rejected is None:
            plan = await self._deciding.answered(state, asked.command, found.plan)
            await self._performing.perform(asked, plan, accepted=True)
        else:  # where it is given up, no step is to be taken back
            await self._performing.take_back(asked, found.plan.steps, found.rejected)
        self._world.notices.warning(
            "command_recovered",
            command=asked.command.__struct_config__.tag,
            **_subject(asked.command),
            ending=found.ending.value,
            records=self._performing.written(asked),
            reason=redacted_refusal(found.rejected.sentence) if found.rejected else None,
            command_id=asked.command_id,
        )

    async def _read_on(self) -> None:
        """Wait until everything that lies in the log now has been folded."""
        await self._reader.wait_for(await self._log.ends(self._reader.ends))


class _Job:
    """A command under way."""

    task: "asyncio.Task[Ended]"

    def __init__(self, asked: Asked, profile: Profile | None) -> None:
        self.asked = asked
        self.profile = profile
        """The release as which it is done, where that is another one than the controller's."""
        self.askers = 0
        self.begun = False
        """Whether anything may have been written."""
        self.since_ms = asked.at_ms
        """Since when it waits, or since when it has been under way."""

    def abandon(self) -> None:
        """Nobody waits for it any more: if it has not begun, it never will."""
        if not self.begun:
            self.task.cancel()


def _subject(command: AnyCommand) -> dict[str, str]:
    """What a command is about, for a line of the log."""
    if isinstance(command, SetLoggerLevel):
        return {"namespace": command.namespace, "logger_level": command.level}
    return {"connector": command.connector}


def _queue_of(command: AnyCommand) -> str:
    """Commands with the same answer run in order."""
    return f"connector {command.connector}" if isinstance(command, ConnectorCommand) else ""
