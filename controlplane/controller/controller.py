"""The single writer: read log → fold → publish; command → decide → append → read back → answer."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgspec

from controlplane.controller.admission import (
    CommandAnswer,
    CommandLimits,
    QueuedCommand,
    QueueLocks,
    RefusalQuota,
    SharedAction,
    job_to_join,
)
from controlplane.controller.command_ends import CommandEnds
from controlplane.controller.command_notices import CommandNotices
from controlplane.controller.commands_in_doubt import CommandsInDoubt
from controlplane.controller.decision import Decider
from controlplane.controller.external import ExternalActions
from controlplane.controller.log_groups import default_actions
from controlplane.controller.log_view import LogView, follow_in_time
from controlplane.controller.messages import not_written, timed_out
from controlplane.controller.plan_execution import (
    ExecutionHooks,
    LogWriter,
    NotAccepted,
    NotDone,
    NotTakenBack,
    PlanExecution,
    no_listener,
    retried,
)
from controlplane.controller.writer_environment import WriterEnvironment
from controlplane.core.codec import command_log
from controlplane.core.commands import AnyCommand, CommandRequest, OffsetsCommand
from controlplane.core.context import Context
from controlplane.core.decide.prediction import IMPORT_AGAIN, partition_assumptions
from controlplane.core.decide.recovery import ReportedFailure, recover
from controlplane.core.plan import Plan, Rejected
from controlplane.core.records import CommandTrace
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.source_partitions import own_offsets_topics
from controlplane.event_loop import cancel_all
from controlplane.logs.log import (
    Fenced,
    ImportedLog,
    Log,
    LogError,
    LogNotUsable,
    LogUnavailable,
    ProbedLog,
    quick_ends,
)

PROBE_S = 1.0
"""Time limit of a probe, which writes no record; a slower log counts as unavailable."""


class TimedOut(Exception):
    """The caller has waited for its maximum time. The command goes on and may still succeed."""


class Closed(LogUnavailable):
    """The control plane is closed: the command is refused, or cancelled before it began."""


class NotWritten(LogUnavailable):
    """The log was unavailable for too long.

    A command that had begun is ended once the log is available again.
    """


class Controller:
    """Runs commands on one log, as its only writer. Create it with `start`.

    Commands of one connector run in order. A caller gets the answer once the last step of its
    command has been read back. A caller that disconnects never leaves a command half done.
    """

    def __init__(
        self,
        log: Log,
        reader: LogView,
        decider: Decider,
        world: WriterEnvironment,
        limits: CommandLimits,
    ) -> None:
        self._log = log
        self._reader = reader
        self._decider = decider
        self._world = world
        self._notices = CommandNotices(world.notices, world.now_ms)
        self._limits = limits
        self._execution: PlanExecution
        self._traced = False
        """True if the log has a command topic."""
        self._epoch = 0
        self._locks = QueueLocks(limits.commands_waiting)
        self._refusals = RefusalQuota(limits.refusals_per_minute, world.now_ms())
        self._running: dict[str, QueuedCommand] = {}
        self._read_to_end = SharedAction(self._wait_for_end)
        self._unfinished = CommandsInDoubt(
            self._locks,
            limits,
            world.notices,
            read_to_end=self._state_at_end,
            end=self._end,
            fenced=self._step_down,
        )
        self._claiming = asyncio.Lock()
        self._closed = False
        self.failure: Fenced | None = None
        """The reason why no command is run: another process has become the writer."""

    @classmethod
    async def start(
        cls,
        log: Log,
        reader: LogView,
        context: Context,
        world: WriterEnvironment,
        limits: CommandLimits,
    ) -> "Controller":
        """Claim the log, and end the commands that earlier writers left unfinished.

        Raises:
            Fenced: another writer has claimed the log meanwhile.
            LogUnavailable: the log cannot be written.
        """
        outside = world.outside
        if outside is None:
            outside = default_actions(log, lambda: controller.epoch, world.now_ms)
        decider = Decider(context, outside, limits.hook_timeout_ms)
        controller = cls(log, reader, decider, world, limits)
        try:
            await controller._take_over()
        except BaseException:  # the caller gets no controller that it could close
            await cancel_all(controller._unfinished.stop_retrying())
            raise
        return controller

    async def claim(self) -> None:
        """Become the only writer again after another one has taken over (`failure`).

        Running commands end first: they are fenced, or succeed. Until this returns, new commands
        are refused. Nothing happens while this controller knows of no other writer. A cancelled
        call cancels no command.

        Raises:
            Fenced: another writer has taken over meanwhile.
            LogUnavailable: the log cannot be written, and another process may still be the writer.
        """
        async with self._claiming:
            self._check_open()
            if self.failure is None:
                return
            await self._wait_for_commands()
            try:
                await self._take_over()
            except Fenced as failure:
                self.failure = failure
                raise
            self.failure = None
            self._world.notices.info("log_claimed")

    async def _take_over(self) -> None:
        """Claim the log, read it to its end, and end the unfinished commands of any writer.

        The claim comes first: it fences earlier writers, so none appends after the end read here.
        """
        self._epoch = await self._log.claim()
        state = await self._reader.state(self._decider.context.profile)
        self._traced = state.topics.commands in await self._log.topics()
        writer = LogWriter(
            self._log,
            self._reader,
            epoch=self._epoch,
            offsets_topic=state.topics.offsets,
            limits=self._limits,
            now_ms=self._world.now_ms,
        )
        delay_ms, world = self._limits.end_delay_ms, self._world
        ends = CommandEnds(writer, delay_ms, self._end_not_written, self._unfinished.has)
        self._execution = PlanExecution(
            writer,
            self.outside,
            commands_topic=state.topics.commands if self._traced else None,
            now_ms=world.now_ms,
            hooks=ExecutionHooks(world.stepped or no_listener, self._exists, world.set_level),
            ends=ends if self._traced and writer.splits_batches else None,
        )
        await self._unfinished.end_all()

    def _end_not_written(self, requests: Sequence[CommandRequest], failure: LogError) -> None:
        """Keep answered commands in doubt until their ends are in the log."""
        if isinstance(failure, Fenced):
            self._step_down(failure)  # the other writer ends the commands
            return
        for request in requests:
            self._unfinished.add(request, None)

    async def _exists(self, connector: str) -> bool:
        """True if the log now has a connector of this name, created by any writer."""
        return connector in (await self._state_at_end()).config.connectors

    def _step_down(self, failure: Fenced) -> None:
        """Refuse all further commands; keep reading. `claim` takes the log back."""
        if self.failure is None:
            self._world.notices.warning("log_fenced", reason=str(failure))
        self.failure = failure

    @property
    def state(self) -> ClusterState:
        """Current state; it contains all that the answered commands have changed."""
        state = self._reader.present(self._decider.context.profile)
        assert state is not None  # loaded when the log was claimed
        return state

    @property
    def outside(self) -> ExternalActions:
        """External actions of commands, and reader of consumer groups."""
        return self._decider.outside

    @property
    def epoch(self) -> int:
        """Epoch of the last claim."""
        return self._epoch

    async def write_ends(self) -> None:
        """Write the ends of all answered commands, and read them back; see `CommandEnds`."""
        with suppress(LogError):  # later retries, or the next writer, end the commands
            await self._execution.write_ends()

    async def trouble(self) -> LogError | None:
        """Return the reason why no command can be written now; None if the log is available."""
        if self.failure is None and isinstance(self._log, ProbedLog):
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._log.check_writable(self._epoch)
            except Fenced as failure:
                self._step_down(failure)
            except LogError as error:
                return error
            except TimeoutError:
                return LogUnavailable(f"The log did not complete a write probe in {PROBE_S:g} s")
        return self.failure

    async def plan(
        self, command: AnyCommand, profile: Profile | None = None, *, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """Plan a command as `execute` would; write nothing.

        Planning calls the plugins' hooks, as Kafka does before it writes. A hook may change another
        system. With `believe_hooks`, hooks that run code of plugins are assumed to agree instead.

        Raises:
            Closed: also if the controller closes while a hook hangs.
        """
        self._check_open()
        state = await self._state_for(command, profile)
        plan = await self._decider.decided(state, command, believe_hooks=believe_hooks)
        if isinstance(plan, Plan) and isinstance(self._log, ImportedLog):
            topics = await self._log.assumed_partitions()
            assumed = *plan.assumed, *partition_assumptions(plan, state, topics, IMPORT_AGAIN)
            return msgspec.structs.replace(plan, assumed=assumed)
        return plan

    async def execute(
        self, request: CommandRequest, profile: Profile | None = None
    ) -> CommandAnswer:
        """Run a command to its end, once: a repeated command id gets the same answer.

        The command follows the rules of the profile's release; None: the controller's. A cancelled
        call cancels its command only if the command has not begun and has no other caller.

        Raises:
            TooMany: too many commands wait.
            TimedOut: the command takes longer than a caller waits.
            Fenced: another writer has taken over, and this controller has stepped down (`claim`).
                The other writer ends commands that had begun.
            NotWritten: the log could not be written; a command that had begun is ended later.
            LogError: the log could not be read, or refuses a record. A command that had begun is
                ended later.
        """
        job = self._running.get(request.command_id)
        if job is not None:
            job = await job_to_join(self._running, request.command_id)
        self._check_open()
        if job is None:
            # A repeated idempotency key need not wait for its turn. Other command ids never repeat.
            answer = self._earlier_answer(request, self.state) if request.keyed else None
            if answer is not None:
                return answer
            job = self._begin(request, profile)
        elif not command_log.are_equal(job.request.command, request.command):
            return self._conflict(request)
        return await self._answer_of(job, profile or self._decider.context.profile)

    async def _answer_of(self, job: QueuedCommand, profile: Profile) -> CommandAnswer:
        """Wait for the answer to a command; several callers may wait for the same command."""
        job.callers += 1
        try:
            async with asyncio.timeout(self._limits.request_timeout_ms / 1_000):
                # Shielded: the task also serves other callers, and must not stop half-way.
                return await asyncio.shield(job.task)
        except TimeoutError:
            message = timed_out(job.request.command, profile, job.since_ms, begun=job.begun)
            raise TimedOut(message) from None
        except asyncio.CancelledError:
            if self._closed and job.task.cancelled():  # by `close`, not by the caller
                self._check_open()
            if job.callers == 1:
                job.abandon()
            raise
        finally:
            job.callers -= 1

    async def close(self) -> None:
        """Wait for commands that have begun; cancel those that still wait.

        A cancelled call cancels all commands: the next writer ends those that have begun.
        """
        self._closed = True
        for job in self._running.values():
            job.abandon()
        self._decider.close(Closed("Worker is shutting down"))
        try:
            await self._wait_for_commands()
        finally:
            jobs = [job.task for job in self._running.values()]
            ends = self._execution.stop_ends()
            await cancel_all([*jobs, *ends, *self._unfinished.stop_retrying()])

    async def _wait_for_commands(self) -> None:
        """Wait for the running commands; stop retrying the unfinished ones.

        A cancelled call cancels no command.
        """
        if jobs := [job.task for job in self._running.values()]:
            await asyncio.wait(jobs)
        await self.write_ends()
        await cancel_all(self._unfinished.stop_retrying())

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("Worker is shutting down")

    # --- one command --------------------------------------------------------------------------

    def _earlier_answer(self, request: CommandRequest, state: ClusterState) -> CommandAnswer | None:
        """Answer to an earlier command with this id; None: there is none, or it is unfinished."""
        trace = state.commands.get(request.command_id)
        if trace is None or trace.accepted is None:
            return None
        if not command_log.is_of(trace, request.command):
            return self._conflict(request)
        return command_log.ended(trace)

    def _conflict(self, request: CommandRequest) -> Rejected:
        """Refuse an id that belongs to another command; log the refusal, but write no record."""
        rejected = command_log.other_command(request)
        if self._notices.takes_info():
            self._notices.ended(QueuedCommand(request, None), rejected, records=0)
        return rejected

    def _begin(self, request: CommandRequest, profile: Profile | None) -> QueuedCommand:
        job = QueuedCommand(request, profile)
        job.task = asyncio.create_task(self._run(job), name=f"command {request.command_id}")
        self._running[request.command_id] = job
        job.task.add_done_callback(lambda _: self._running.pop(request.command_id))
        return job

    async def _run(self, job: QueuedCommand) -> CommandAnswer:
        """Hold the lock of the queue, end commands in doubt there, then run the command."""
        request = job.request
        ending: CommandAnswer | LogError | None = None
        async with self._locks.turn(job.queue):
            job.since_ms = self._world.now_ms()
            try:
                if self.failure is not None:
                    raise Fenced(str(self.failure))
                if job.queue in self._unfinished.by_queue:
                    await retried(self._read_to_end, self._limits)  # waits for an unavailable log
                    await self._unfinished.end_in(job.queue)
                state = await retried(partial(self._state_to_decide_on, job), self._limits)
                answer = self._earlier_answer(request, state)
                if answer is not None:  # this command itself was in doubt
                    return answer
                answer = ending = await self._decide_and_perform(job, state)
            except LogError as failure:
                if isinstance(failure, Fenced):
                    self._step_down(failure)
                ending = failure
                raise
            finally:
                records = self._execution.take_written_count(request)
                if ending is not None and self._notices.takes_info():
                    self._notices.ended(job, ending, records)
            return answer

    async def _decide_and_perform(self, job: QueuedCommand, state: ClusterState) -> CommandAnswer:
        request = job.request
        decision = await self._decider.decided(state, request.command, complete=True)
        job.begun = True  # from here on, a record may be written
        if isinstance(decision, Rejected):
            await self._record_refusal(request, decision)
            return decision
        try:
            return await self._execution.perform(request, decision, job.profile)
        except NotAccepted as failure:
            with suppress(LogNotUsable):  # the caller gets the first reason
                await self._record_refusal(request, failure.rejected)
            return failure.rejected
        except NotTakenBack as failure:
            self._unfinished.add_not_taken_back(request, failure)
            return failure.failed
        except LogUnavailable as failure:
            message = f"{not_written(request.command)}: {failure}"
            step = failure.step if isinstance(failure, NotDone) else None
            self._unfinished.add(request, ReportedFailure(message, step))
            raise NotWritten(message) from failure
        except Fenced:
            raise  # the other writer ends the command
        except LogError as failure:  # such as a log that refuses the "finished" record
            self._unfinished.add(request, ReportedFailure(str(failure), None))
            raise

    async def _record_refusal(self, request: CommandRequest, rejected: Rejected) -> None:
        """Record a refused command, if the log has a command topic and the quota admits it."""
        if self._traced and self._refusals.admits(self._world.now_ms()):
            await self._execution.refuse(request, rejected, self._limits.refusal_max_bytes)

    async def _end(
        self, request: CommandRequest, trace: CommandTrace, failed: ReportedFailure | None
    ) -> None:
        """End an unfinished command of any writer, as `recover` decides.

        Raises:
            NotTakenBack: its actions outside of the log cannot be taken back yet.
        """
        assert trace.accepted is not None
        state = await self._state_for(request.command)
        recovery = recover(state, trace.accepted, self._decider.context, failed)
        ending, rejected = recovery.ending.value, recovery.rejected
        if rejected is None:
            plan = await self._decider.with_complete_outcome(state, request.command, recovery.plan)
            answer = await self._execution.perform(request, plan, accepted=True)
            if isinstance(answer, Rejected):
                ending, rejected = "failed", answer
        else:
            # `TAKEN_BACK` has steps to undo. `GIVEN_UP` has none: only the failure is recorded.
            await self._execution.take_back(request, recovery.plan.steps, rejected)
        records = self._execution.take_written_count(request)
        self._notices.recovered(request, ending, rejected, records)

    # --- the state that a command depends on ----------------------------------------------------

    async def _state_to_decide_on(self, job: QueuedCommand) -> ClusterState:
        """State for a decision; read to the end of the log if other writers' records matter."""
        if job.depends_on_others:
            reading = self._read_to_end.begin()
            if len(self._running) == 1:  # other commands would change the state meanwhile
                await self._decider.decide_early(self.state, job.request.command)
            await asyncio.shield(reading)
        return await self._state_for(job.request.command, job.profile)

    async def _state_for(self, command: AnyCommand, profile: Profile | None = None) -> ClusterState:
        """State of a release, with every offsets topic that the command may concern."""
        if isinstance(command, OffsetsCommand):
            topics = own_offsets_topics(self.state, command)
            if topics:
                await follow_in_time(self._reader, topics, self._limits.write_patience_ms)
        if profile is None or profile.release == self._decider.context.profile.release:
            return self.state
        return await self._reader.state(profile)

    async def _state_at_end(self) -> ClusterState:
        await self._read_to_end()
        return self.state

    async def _wait_for_end(self) -> None:
        """Wait until every record that is in the log now has been folded.

        Raises:
            LogUnavailable: it takes longer than the log may be away (`write_patience_ms`).
        """
        ends = await quick_ends(self._log)(self._reader.ends)
        patience_ms = self._limits.write_patience_ms
        try:
            async with asyncio.timeout(patience_ms / 1_000):
                await self._reader.wait_for(ends)
        except TimeoutError:
            text = f"The log could not be read to its end in {patience_ms / 1_000:g} s"
            raise LogUnavailable(text) from None
