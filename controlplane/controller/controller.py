"""The single writer: read log → fold → publish; command → decide → append → read back → answer."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from controlplane.controller import command_log
from controlplane.controller.admission import (
    CommandLimits,
    ConnectorLocks,
    RefusalQuota,
    SharedAction,
)
from controlplane.controller.command_job import Ended, Job, looks_first, queue_of, subject_of
from controlplane.controller.decision import Decider
from controlplane.controller.external import ExternalActions
from controlplane.controller.log_retry import retried
from controlplane.controller.log_view import LogView, topics_concerned
from controlplane.controller.log_writer import LogWriter
from controlplane.controller.messages import not_written, timed_out
from controlplane.controller.plan_execution import (
    ExecutionHooks,
    NotDone,
    NotTakenBack,
    PlanExecution,
    StepListener,
    unseen,
)
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
)
from controlplane.core.context import Context
from controlplane.core.decide.assumptions import IMPORT_AGAIN, partition_assumptions
from controlplane.core.decide.recovery import ReportedFailure, recover
from controlplane.core.plan import Plan, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, CommandTrace
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.log import Fenced, ImportedLog, Log, LogError, LogUnavailable, ProbedLog
from controlplane.projection.notices import Notices

PROBE_S = 1.0
"""Time that a write without a change may take until the log counts as unavailable."""

Clock = Callable[[], int]


class TimedOut(Exception):
    """The asker was kept waiting for too long. The command goes on, and may still succeed."""


class Closed(LogUnavailable):
    """The controller ends; it did not carry the command out, or not to its end."""


class NotWritten(LogUnavailable):
    """The log was away for too long. What had begun is ended when it is back."""


class WriterEnvironment(NamedTuple):
    """Environment of a controller: clock, actions outside of the logs, listeners."""

    now_ms: Clock
    outside: ExternalActions
    notices: Notices
    stepped: StepListener | None = None


class Controller:
    """Runs commands on one log, as the only one who does. Made by `start`.

    Commands of one connector run in order. Who asks gets an answer when the last record of the
    command has been read back; who goes away leaves no command half-done.
    """

    def __init__(
        self,
        log: Log,
        reader: LogView,
        deciding: Decider,
        world: WriterEnvironment,
        limits: CommandLimits,
    ) -> None:
        self._log = log
        self._reader = reader
        self._deciding = deciding
        self._world = world
        self._limits = limits
        self._performing: PlanExecution
        self._traced = False
        """True if the log has a command topic."""
        self._epoch = 0
        self._turns = ConnectorLocks(limits.commands_waiting)
        self._refusals = RefusalQuota(limits.refusals_per_minute, world.now_ms())
        self._running: dict[str, Job] = {}
        self._doubtful: dict[str, dict[str, ReportedFailure]] = {}
        """Commands that may be half done, by queue, with the failures that were answered."""
        self._healing: asyncio.Task[None] | None = None
        self._read_to_end = SharedAction(self._read_on)
        self._claiming = asyncio.Lock()
        self._closed = False
        self.failure: Fenced | None = None
        """The reason why no command is carried out: another process has become the writer."""

    @classmethod
    async def start(
        cls,
        log: Log,
        reader: LogView,
        context: Context,
        world: WriterEnvironment,
        limits: CommandLimits,
    ) -> "Controller":
        """Become the one writer, and end what an earlier one has left unfinished.

        Raises:
            LogUnavailable: the log cannot be written.
        """
        made = cls(log, reader, Decider(context, world.outside), world, limits)
        await made._take_over()
        return made

    async def claim(self) -> None:
        """Become the one writer again after another one has taken over (`failure`).

        Commands under way end first: they are fenced, or answer. Until this returns, further ones
        are refused. Nothing happens as long as this controller knows of no other writer.

        Raises:
            Fenced: another writer has taken over meanwhile.
            LogUnavailable: the log cannot be written, and another process may still be the writer.
        """
        async with self._claiming:
            self._check_open()
            if self.failure is None:
                return
            await self._end_of_commands()
            try:
                await self._take_over()
            except Fenced as failure:
                self.failure = failure
                raise
            self.failure = None
            self._world.notices.info("log_claimed")

    async def _take_over(self) -> None:
        """Claim the log, read it to its end, end what any writer has left unfinished.

        In this order: once the log is claimed, no older writer appends anything behind the end.
        """
        self._epoch = await self._log.claim()
        state = await self._reader.state(self._deciding.context.profile)
        self._traced = state.topics.commands in await self._log.topics()
        writing = LogWriter(
            self._log,
            self._reader,
            epoch=self._epoch,
            offsets_topic=state.topics.offsets,
            limits=self._limits,
            now_ms=self._world.now_ms,
        )
        self._performing = PlanExecution(
            writing,
            self._world.outside,
            state.topics.commands if self._traced else None,
            self._world.now_ms,
            ExecutionHooks(self._world.stepped or unseen, self._is_there),
        )
        await self._read_to_end()
        told = {
            command: failed
            for queue in self._doubtful.values()
            for command, failed in queue.items()
        }
        self._doubtful.clear()
        await self._settle(lambda _: True, told)

    async def _is_there(self, connector: str) -> bool:
        """True if the log has a connector of this name by now, whoever made it."""
        await self._read_to_end()
        return connector in self.state.config.connectors

    def _step_down(self, failure: Fenced) -> None:
        """Carry out no command from now on. Reading goes on; `claim` takes the log back."""
        if self.failure is None:
            self._world.notices.warning("log_fenced", reason=str(failure))
        self.failure = failure

    def _check_writer(self) -> None:
        if self.failure is not None:
            raise Fenced(str(self.failure))

    @property
    def state(self) -> ClusterState:
        """Present state; it contains every command that has been answered."""
        state = self._reader.present(self._deciding.context.profile)
        assert state is not None  # asked for at the start
        return state

    async def trouble(self) -> LogError | None:
        """The reason why no command can be written now; None if one can."""
        if self.failure is None and isinstance(self._log, ProbedLog):
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._log.check_writable(self._epoch)
            except Fenced as failure:
                self._step_down(failure)
            except LogError as error:
                return error
            except TimeoutError:
                return LogUnavailable(f"The log has not taken a write for {PROBE_S:g} s")
        return self.failure

    async def plan(
        self, command: AnyCommand, profile: Profile | None = None, *, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """Plan a command as `execute` would; write nothing.

        Hooks are called, as Kafka calls them before it writes, unless they are believed: some
        change systems outside.
        """
        self._check_open()
        state = await self._knowing(command, profile)
        decided = await self._deciding.decided(state, command, believe_hooks=believe_hooks)
        if isinstance(decided, Plan) and isinstance(self._log, ImportedLog):
            topics = await self._log.assumed_partitions()
            assumed = *decided.assumed, *partition_assumptions(decided, state, topics, IMPORT_AGAIN)
            return msgspec.structs.replace(decided, assumed=assumed)
        return decided

    async def execute(self, asked: CommandRequest, profile: Profile | None = None) -> Ended:
        """Run a command to its end, once: the same id again gets the same answer.

        It is done as a worker of the profile's release does it; None: of the release as which this
        controller was started. Cancelled while it waits for its turn, it has not begun; later, it
        is run to its end.

        Raises:
            TooMany: too many commands wait.
            TimedOut: it takes longer than an asker is kept waiting.
            Fenced: another writer has taken over, and this controller has stepped down (`claim`).
                What had begun is ended by the other one.
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
        await self._end_of_commands()
        self._deciding.close()

    async def _end_of_commands(self) -> None:
        """Wait for the commands under way; healing is given up."""
        tasks: list[asyncio.Task[Any]] = [job.task for job in self._running.values()]
        if self._healing is not None:
            self._healing.cancel()
            tasks.append(self._healing)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("Worker is shutting down")

    # --- one command --------------------------------------------------------------------------

    def _known(self, asked: CommandRequest) -> Ended | None:
        trace = self.state.commands.get(asked.command_id)
        if trace is None or trace.accepted is None:
            return None
        if not command_log.is_of(trace, asked.command):
            return self._conflict(asked)
        return command_log.ended(trace)

    def _conflict(self, asked: CommandRequest) -> Rejected:
        """A key that stands for another command; the command topic has that one under it."""
        refused = command_log.other_command(asked)
        self._tell(Job(asked, None), refused, records=0)
        return refused

    def _begin(self, asked: CommandRequest, profile: Profile | None) -> Job:
        job = Job(asked, profile)
        job.task = asyncio.create_task(self._run(job), name=f"command {asked.command_id}")
        self._running[asked.command_id] = job
        job.task.add_done_callback(lambda _: self._running.pop(asked.command_id))
        return job

    async def _run(self, job: Job) -> Ended:
        asked = job.asked
        async with self._turns.turn(queue_of(asked.command)):
            job.since_ms = self._world.now_ms()
            try:
                self._check_writer()
                await self._settle_doubt(queue_of(asked.command))
                known = self._known(asked)
                if known is not None:  # it was this one that was in doubt
                    return known
                ended = await self._decide_and_perform(job)
                self._tell(job, ended, self._performing.written(asked))
            except LogError as failure:
                if isinstance(failure, Fenced):
                    self._step_down(failure)
                self._tell(job, failure, self._performing.written(asked))
                raise
            finally:
                self._performing.written(asked)
            return ended

    async def _decide_and_perform(self, job: Job) -> Ended:
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
            self._doubt(asked, ReportedFailure(told, step))
            raise NotWritten(told) from failure

    async def _looked_up(self, job: Job) -> ClusterState:
        """The state that a command is decided on."""
        if looks_first(job.asked.command):
            await self._read_to_end()  # foreign hands write, too
        return await self._knowing(job.asked.command, job.profile)

    async def _knowing(self, command: AnyCommand, profile: Profile | None = None) -> ClusterState:
        """The state as a release knows it, with all in it that the command may concern."""
        await self._reader.follow(topics_concerned(self.state, command))
        return self.state if profile is None else await self._reader.state(profile)

    def _tell(self, job: Job, ended: Ended | LogError, records: int) -> None:
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
            **subject_of(asked.command),
            principal=asked.principal,
            outcome=outcome,
            reason=reason,
            records=records,
            command_id=asked.command_id,
            took_ms=self._world.now_ms() - job.since_ms,
        )

    # --- what was left unfinished -------------------------------------------------------------

    def _doubt(self, asked: CommandRequest, failed: ReportedFailure) -> None:
        """A command may be half-done: end it before the next one of its queue, or sooner."""
        self._doubtful.setdefault(queue_of(asked.command), {})[asked.command_id] = failed
        if self._healing is None or self._healing.done():
            self._healing = asyncio.create_task(self._heal(), name="commands left unfinished")

    def _leave_half(self, asked: CommandRequest, left: NotTakenBack) -> None:
        """A command failed, and has to be taken back later: what lies outside is away."""
        if asked.command_id not in self._doubtful.get(queue_of(asked.command), ()):
            self._world.notices.warning(
                "command_not_taken_back",
                command=asked.command.__struct_config__.tag,
                **subject_of(asked.command),
                reason=str(left),
                command_id=asked.command_id,
            )
        self._doubt(asked, ReportedFailure(left.failed.sentence, left.step))

    async def _heal(self) -> None:
        """End what was left half-done as soon as the log is back, unless another took it over."""
        try:
            while self._doubtful:
                await asyncio.sleep(self._limits.retry_last_ms / 1_000)
                for queue in sorted(self._doubtful):
                    with suppress(LogUnavailable):
                        async with self._turns.turn(queue):
                            await self._settle_doubt(queue)
        except Fenced as failure:
            self._step_down(failure)

    async def _settle_doubt(self, queue: str) -> None:
        """End what may have been left half-done while the log was away.

        Raises:
            NotTakenBack: that cannot be done yet; nothing may begin before.
        """
        if queue not in self._doubtful:
            return
        await self._read_to_end()
        told = self._doubtful[queue]
        left = await self._settle(lambda asked: queue_of(asked.command) == queue, told)
        if left is not None:
            raise left
        del self._doubtful[queue]

    async def _settle(
        self, concerned: Callable[[CommandRequest], bool], told: Mapping[str, ReportedFailure]
    ) -> NotTakenBack | None:
        """End every unfinished command that is concerned, the oldest first; what cannot be yet."""
        left = None
        traced = (trace for trace in self.state.commands.values() if trace.unfinished)
        for trace in list(traced):
            asked = command_log.asked_of(trace)
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

    async def _end(
        self, asked: CommandRequest, trace: CommandTrace, failed: ReportedFailure | None
    ) -> None:
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
            **subject_of(asked.command),
            ending=found.ending.value,
            records=self._performing.written(asked),
            reason=redacted_refusal(found.rejected.sentence) if found.rejected else None,
            command_id=asked.command_id,
        )

    async def _read_on(self) -> None:
        """Wait until everything that lies in the log now has been folded.

        Raises:
            LogUnavailable: it takes longer than the log may be away (`write_patience_ms`).
        """
        ends = await self._log.ends(self._reader.ends)
        patience_ms = self._limits.write_patience_ms
        try:
            async with asyncio.timeout(patience_ms / 1_000):
                await self._reader.wait_for(ends)
        except TimeoutError:
            text = f"The log could not be read to its end in {patience_ms / 1_000:g} s"
            raise LogUnavailable(text) from None
