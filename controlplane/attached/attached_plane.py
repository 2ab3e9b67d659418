"""Control plane of an existing Connect cluster: it sends commands to the workers' REST API.

Each command is planned, recorded in the trail, sent to a worker, and answered with that worker's
answer. The records of the worker are then compared with the plan. Nothing is ever written to the
topics of the cluster.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from controlplane.attached.command_trail import (
    REFUSED,
    Trail,
    answer_of,
    progress_of,
)
from controlplane.attached.connect_client import (
    NOTHING_DONE,
    ConnectClient,
    ConnectRequest,
    NoWorkerAnswers,
    OutcomeUnknown,
)
from controlplane.attached.execution import (
    AcceptedCommand,
    AttachedAnswer,
    AttachedSurroundings,
    CommandExecution,
    connector_of,
)
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.interrupted_commands import (
    ENDED_LATER,
    UNDER_WAY,
    UNKNOWN_OUTCOME,
    CutOffCommands,
    ending_of,
    is_success,
)
from controlplane.attached.plan_comparison import Comparison, comparison_facts
from controlplane.attached.planner import ClusterPlanner, WorkerGroups
from controlplane.attached.queued_request import BLOCKED_LOOK_S, QueuedRequest
from controlplane.controller.admission import QueueLocks, job_to_join, queue_of, subject_of
from controlplane.controller.controller import Closed, TimedOut
from controlplane.core.codec import command_log
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
    CreateConnector,
    PatchConfig,
    RestoreConnector,
)
from controlplane.core.plan import GroupOffsets, Plan, Reason, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.projection.upkeep import repeat_run
from controlplane.rest.errors import WorkerAnswer

PROBE_S = 5
"""Longest time in seconds for each probe of the health check: of the trail, and of a worker."""


class AttachedPlane:
    """Steers one Connect cluster (`rest.service.Commands` and `Workers`)."""

    def __init__(
        self,
        client: ConnectClient,
        planner: ClusterPlanner,
        log: LogFollowUp,
        trail: Trail,
        around: AttachedSurroundings,
    ) -> None:
        """Use `open`, which ends the unfinished commands of an earlier process."""
        self._client = client
        self._planner = planner
        self._log = log
        self._trail = trail
        self._around = around
        self._execution = CommandExecution(client, planner, log, trail, around.stepped)
        self._locks = locks = QueueLocks(around.commands_waiting)
        self._cut_off = CutOffCommands(self._execution, log, trail, around, locks)
        self._idle = log.idle
        self._running: dict[str, QueuedRequest] = {}
        self._closed = False
        limits = around.limits
        # The longest case of one request: attempts in vain, then no answer, then a look-up in a log
        # that cannot be read.
        longest_ms = 2 * limits.patience_ms + limits.answer_timeout_ms + limits.records_ms
        self._patience_s = longest_ms / 1_000

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        client: ConnectClient,
        planner: ClusterPlanner,
        log: LogFollowUp,
        trail: Trail,
        around: AttachedSurroundings,
    ) -> AsyncIterator["AttachedPlane"]:
        """Steer a cluster within the block.

        Background tasks end commands that a crash cut off, and remove old records of the trail. The
        follower must have loaded the planner's release.
        """
        plane = cls(client, planner, log, trail, around)
        background = [*plane._cut_off.begin(), plane._begin_upkeep()]
        try:
            yield plane
        finally:
            for task in background:
                task.cancel()
            await plane._close(*background)

    def _begin_upkeep(self) -> "asyncio.Task[None]":
        around, trail = self._around, self._trail

        def retain() -> Awaitable[object]:
            return trail.retain(around.now_ms(), around.upkeep.retention)

        repeated = repeat_run(retain, around.upkeep, around.notices)
        return asyncio.create_task(repeated, name="trail upkeep")

    async def _close(self, *extra_tasks: "asyncio.Task[None]") -> None:
        """Refuse new commands, and cancel those that have not begun; wait for the others."""
        self._closed = True
        for job in self._running.values():
            if not job.begun:
                job.task.cancel()
        self._cut_off.close()
        self._idle.begin()
        tasks = [job.task for job in self._running.values()]
        await asyncio.gather(*tasks, *extra_tasks, return_exceptions=True)

    # --- rest.service.Commands --------------------------------------------------------------------

    @property
    def failure(self) -> LogError | None:
        """Always None: no failure of an attached plane is permanent."""
        return None

    async def trouble(self) -> LogError | None:
        """Return the reason why no command can be carried out; None if one can."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self._trail.check_writable()
        except LogError as failure:
            return failure
        except TimeoutError:
            return LogUnavailable(f"The trail did not complete a write probe in {PROBE_S} s")
        names = ", ".join(self._client.names)
        try:
            async with asyncio.timeout(PROBE_S):
                answer = await self._client.send(ConnectRequest("GET", "/"))
        except (NoWorkerAnswers, TimeoutError):
            return LogUnavailable(f"No worker of {names} answers")
        if not answer.is_success:
            return LogUnavailable(f"A worker of {names} answers GET / with status {answer.status}")
        return None

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """Plan a command as the cluster would carry it out.

        A worker validates a new config with the connector classes that are installed there.
        """
        del profile, believe_hooks
        refused = await self._planner.validated(command)
        if refused is not None:
            return refused
        plan = await self._planner.plan(await self._log.state_at_end(), command)
        if isinstance(plan, Plan) and isinstance(command, PatchConfig | RestoreConnector):
            return await self._planner.validated_plan(plan, command.connector)
        return plan

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str,
        key: str | None,
        profile: Profile | None,
    ) -> AttachedAnswer:
        """Carry out a command by requests to the workers; return the worker's answer.

        A cancelled call cancels its command only if the command has not begun and has no other
        caller.

        Raises:
            TooMany: too many commands wait.
            TimedOut: there is no answer within the longest time that one request to the workers
                takes. The command goes on. A command is refused instead if it waits for one that
                cannot be ended.
            LogError: the trail cannot be written, and nothing was done.
        """
        del profile
        request = CommandRequest(
            command=command,
            command_id=self._around.new_id() if key is None else key,
            at_ms=self._around.now_ms(),
            principal=principal,
            keyed=key is not None,
        )
        job = self._running.get(request.command_id)
        if job is not None:
            job = await job_to_join(self._running, request.command_id)
        if self._closed:
            raise Closed("Worker is shutting down")
        if job is None:
            earlier = self._earlier(request)
            if earlier is not None:
                return earlier
            job = self._begin(request)
        elif not command_log.are_equal(job.request.command, request.command):
            return command_log.other_command(request)
        return await self._answer_of(job)

    def command_of(self, key: str) -> AnyCommand | None:
        """Return the command that was accepted under an idempotency key, while it is kept."""
        trace = self._trail.commands.get(key)
        return None if trace is None else command_log.command_of(trace)

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """Read the committed offsets of a sink connector from a worker."""
        return await WorkerGroups(self._client, connector).group_offsets("")

    async def pass_on(self, method: str, target: str, body: bytes | None) -> WorkerAnswer:
        """Send a request that changes nothing to any worker; return its answer."""
        return await self._client.send(ConnectRequest(method, target, body=body))

    # --- one command ------------------------------------------------------------------------------

    async def _answer_of(self, job: QueuedRequest) -> AttachedAnswer:
        """Wait for the answer to a command; callers with the same key share it."""
        job.callers += 1
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + self._patience_s
        wait_s = self._around.limits.patience_ms / 1_000
        try:
            while now_s() < end_s:
                answer = await job.answer_within(wait_s) or self._refuse_blocked(job)
                if answer is not None:
                    return answer
                wait_s = BLOCKED_LOOK_S
            raise TimedOut("Request timed out; it goes on, and may still succeed")
        except asyncio.CancelledError:
            if job.callers == 1 and not job.begun:
                job.task.cancel()
            raise
        finally:
            job.callers -= 1

    def _refuse_blocked(self, job: QueuedRequest) -> Rejected | None:
        """Refuse a command that waits for one that cannot be ended yet; None: it goes on."""
        refused = None if job.begun else self._cut_off.refusal(job.request.command)
        if refused is not None and not job.answer.done():  # else another caller has done so
            job.answer_callers(refused, self._around.now_ms())
            self._report(job, refused, None)
            job.task.cancel()
        return refused

    def _earlier(self, request: CommandRequest) -> AttachedAnswer | None:
        """Answer of the command that had this id before; None: it is new.

        A command without an idempotency key gets a generated id, and its answer is not kept. If a
        client later sends this id as a key, the request is refused. Otherwise the command would run
        a second time.
        """
        trace = self._trail.commands.get(request.command_id)
        if trace is None or trace.accepted is None:
            return None
        if not command_log.is_of(trace, request.command):
            return command_log.other_command(request)
        answer = answer_of(trace)
        if answer is None and trace.unfinished:
            return Rejected(Reason.CONFLICT, UNDER_WAY.format(request.command_id))
        return answer or command_log.other_command(request)

    def _begin(self, request: CommandRequest) -> QueuedRequest:
        job = QueuedRequest(request)
        if self._locks.is_held(queue_of(request.command)):
            # The connector's earlier command may hold the lock while it waits for an idle moment.
            # This call ends that wait, so that the new command gets the lock sooner.
            self._idle.begin()
        job.task = asyncio.create_task(self._run(job), name=f"command {request.command_id}")
        self._running[request.command_id] = job
        job.task.add_done_callback(lambda task: self._ended(job, task))
        return job

    def _ended(self, job: QueuedRequest, task: "asyncio.Task[None]") -> None:
        """Forget a command that has ended; without an answer, its callers get the error."""
        self._running.pop(job.request.command_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and job.begun:
            warn = self._around.notices.warning
            warn("command_cut_off", command_id=job.request.command_id, reason=str(error))
        if not job.answer.done():
            job.answer.set_exception(error or Closed("Worker is shutting down"))
            job.answer.exception()  # marks it as retrieved: no caller may be left

    async def _run(self, job: QueuedRequest) -> None:
        """Hold the lock of the connector until the command's records are compared with the plan.

        The answer leaves before the record *finished* is written. If the process is killed before
        that record, its next start looks the command up in the cluster's log.
        """
        request, queue = job.request, queue_of(job.request.command)
        async with self._locks.turn(queue):
            job.begun = True
            job.since_ms = self._around.now_ms()
            plan = await self._planned(request.command)
            refused = await self._own_refusal(request, plan)
            if refused is not None:
                job.answer_callers(refused, self._around.now_ms())
                self._report(job, refused, None)
                return
            accepted = AcceptedCommand(request, plan, self._log.ends)
            await self._trail.accepted(request, plan, accepted.since)
            try:
                # The records usually appear before the worker answers, and are folded meanwhile.
                with self._log.hastened():
                    answer = await self._answer(accepted)
            except (LogUnavailable, OutcomeUnknown) as failure:
                await self._end_later(job, failure)
                return
            have_appeared, is_read = await self._answered_and_folded(job, accepted, answer)
            is_likely = have_appeared and is_success(answer) and is_read is not False
            if is_likely and not (self._locks.is_awaited(queue) or self._closed):
                # The comparison is likely to find no difference, and no caller waits for it.
                await self._idle.wait()
            comparison = await self._compared(accepted, answer, is_read=is_read)
        # The next command of the connector may run from here on. In the trail, the record
        # *finished* of this command must precede the next command's records. So nothing is
        # awaited before `finished` queues its record; the trail keeps the order of appends.
        facts = comparison_facts(comparison, self._log.present.topics)
        facts |= ending_of(answer)
        await self._record_end(request, answer, facts)
        self._report(job, answer, comparison)

    async def _answered_and_folded(
        self, job: QueuedRequest, accepted: AcceptedCommand, answer: AttachedAnswer
    ) -> tuple[bool, bool | None]:
        """Answer the callers, and wait for the fold.

        If the records are likely to appear soon, reads wait for them instead of the callers.
        Returns True if all planned records have appeared, and `is_read` for `_compared`.
        """
        plan, since = accepted.plan, accepted.since
        is_expected = is_success(answer) and self._log.expects_records(plan)
        if self._log.has_appeared(plan, since) or not is_expected:
            have_appeared = await self._log.folded(plan, since)
            job.answer_callers(answer, self._around.now_ms())
            return have_appeared, None
        with self._log.states.folding():
            job.answer_callers(answer, self._around.now_ms())
            await self._idle.delivered()
            have_appeared = await self._log.folded(plan, since)
        return have_appeared, await self._log.read_requests_on() if have_appeared else None

    async def _record_end(
        self, request: CommandRequest, answer: AttachedAnswer, facts: Mapping[str, Any]
    ) -> None:
        """Record that a command has ended, once the trail can be written: a disk may be full.

        Callers that repeat the command get its answer meanwhile.

        Raises:
            LogUnavailable: the plane closes; the next process ends the command.
        """
        ended_ms, has_warned = self._around.now_ms(), False
        while True:
            try:
                await self._trail.finished(request, ended_ms, answer, facts)
            except LogUnavailable as failure:
                if self._closed:
                    raise
                if not has_warned:
                    self._cut_off.warn_not_ended(request, failure)
                has_warned = True
                await asyncio.sleep(self._around.limits.retry_ms / 1_000)
            else:
                return

    async def _planned(self, command: AnyCommand) -> Plan | Rejected:
        """Plan of a command, or its refusal; the workers decide in either case."""
        return await self._planner.plan(self._log.present, command)

    async def _own_refusal(self, request: CommandRequest, plan: Plan | Rejected) -> Rejected | None:
        """Refuse a command that no worker of this cluster can carry out; None: the workers decide.

        No release of Kafka accepts initial offsets, so this program checks them itself. An undo
        whose config the workers refuse would stop half way, so its config is validated first.
        """
        command = request.command
        refused = self._planner.lacking(command)
        if isinstance(command, CreateConnector) and command.initial_offsets is not None:
            invalid = await self._planner.validated(command) if refused is None else None
            refused = refused or invalid or (plan if isinstance(plan, Rejected) else None)
        elif isinstance(command, RestoreConnector) and refused is None:
            if isinstance(plan, Plan):
                with suppress(NoWorkerAnswers):  # then the first request fails in the same way
                    plan = await self._planner.validated_plan(plan, command.connector)
            refused = plan if isinstance(plan, Rejected) else None
        if refused is not None:
            await self._trail.refused(request, refused)
        return refused

    async def _answer(self, accepted: AcceptedCommand) -> AttachedAnswer:
        """Send the requests of a command; an unknown outcome is looked up in the cluster's log.

        Raises:
            LogUnavailable, OutcomeUnknown: the first of several requests was sent; it is unknown
                how many were done.
        """
        # Wakes comparisons of earlier commands: they run while this task awaits a worker's answer.
        self._idle.begin()
        try:
            return await self._execution.perform(accepted)
        except (LogUnavailable, OutcomeUnknown) as failure:
            if self._step(accepted.request):
                raise
            if isinstance(failure, OutcomeUnknown):
                return await self._looked_up(accepted, str(failure))
            return Rejected(Reason.FAILED, str(failure))

    def _step(self, request: CommandRequest) -> str:
        """Name of the last request that was begun; empty if none was, or if there is only one."""
        return progress_of(self._trail.commands[request.command_id]).step

    async def _end_later(self, job: QueuedRequest, failure: Exception) -> None:
        """Tell the callers that their command is cut off; end it as soon as the workers answer.

        The lock of the connector is held meanwhile, so no later command runs on a half done one.
        """
        why = str(failure).removesuffix(NOTHING_DONE)  # untrue: earlier requests were done
        job.answer.set_result(Rejected(Reason.FAILED, ENDED_LATER.format(why)))
        await self._cut_off.end_with_retries(job.request, failure)

    async def _looked_up(self, accepted: AcceptedCommand, why: str) -> AttachedAnswer:
        """Answer of a command whose outcome no worker has reported, from the cluster's log."""
        plan, command = accepted.plan, accepted.request.command
        if isinstance(plan, Plan) and any(step.records for step in plan.steps):
            comparison = await self._log.compared(plan, accepted.since, connector_of(command))
            if comparison is not None and comparison.proves_plan:
                return plan.outcome
        return Rejected(Reason.FAILED, UNKNOWN_OUTCOME.format(why))

    async def _compared(
        self, accepted: AcceptedCommand, answer: AttachedAnswer, *, is_read: bool | None
    ) -> Comparison | None:
        """Compare the records since acceptance with the plan; None: the log cannot be read.

        A worker may write, and then fail. So a failed command is compared with its plan if planned
        records are there, and otherwise with an empty plan.
        """
        plan = accepted.plan if isinstance(accepted.plan, Plan) else Plan(())
        connector = connector_of(accepted.request.command)
        if is_success(answer):
            return await self._log.compared(plan, accepted.since, connector, is_read=is_read)
        comparison = await self._log.compared(plan, accepted.since, connector, await_missing=False)
        if comparison is None or comparison.records:
            return comparison
        return await self._log.compared(Plan(()), accepted.since, connector)

    def _report(
        self, job: QueuedRequest, answer: AttachedAnswer, comparison: Comparison | None
    ) -> None:
        """Write the one line about a command to the log of the service."""
        command = job.request.command
        outcome, reason = "done", None
        if isinstance(answer, Rejected):
            outcome = ending_of(answer).get("ended", answer.reason.value)
            reason = redacted_refusal(answer.sentence)
        elif isinstance(answer, WorkerAnswer) and not answer.is_success:
            outcome = REFUSED if answer.is_refusal else command_log.FAILED
            reason = redacted_refusal(answer.message or "")
        facts = comparison_facts(comparison, self._log.present.topics)
        self._around.notices.info(
            "command",
            command=command.__struct_config__.tag,
            **subject_of(command),
            principal=job.request.principal,
            outcome=outcome,
            reason=reason,
            compared=facts["compared"],
            differences=facts.get("differences"),
            command_id=job.request.command_id,
            took_ms=job.took_ms,
        )
