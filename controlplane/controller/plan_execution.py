"""Execution of plans, step by step: a step appends its records, or acts outside of the log.

The first batch includes the "accepted" record of the command, the last batch its "finished" record.
Batches are atomic, so a plan of one batch is never half done. Each step is read back before the
next one. A crash may follow any step; `recover` then decides the missing steps.

On a log with fast batches (`HasFastBatches`), an append to one partition is much faster than to
several. There, "accepted" and "finished" are batches of their own. A crash may follow these, too,
so "accepted" always includes the plan. Most commands are answered before "finished" is written
(`CommandEnds`).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import NamedTuple, Protocol, TypeVar

from controlplane.controller.admission import CommandLimits
from controlplane.controller.external import ExternalActionFailed, ExternalActions
from controlplane.controller.log_view import LogView, follow_in_time
from controlplane.controller.writer_environment import LevelSetter, StepListener, keep_levels
from controlplane.core.codec import command_log
from controlplane.core.commands import CommandRequest, SetLoggerLevel, size_of
from controlplane.core.decide.recovery import may_end_later
from controlplane.core.entry import Headers, Position
from controlplane.core.plan import Draft, Outcome, Plan, Reason, Rejected, Step
from controlplane.core.releases.profiles import Profile
from controlplane.core.topics.partitioner import partition_of
from controlplane.event_loop import LARGE, backoff, in_thread_if_large
from controlplane.logs.log import (
    Fenced,
    HasFastBatches,
    Log,
    LogNotUsable,
    LogUnavailable,
    ProbedLog,
    Record,
)
from controlplane.logs.offset_rules import partition_count

T = TypeVar("T")

ConnectorExists = Callable[[str], Awaitable[bool]]
"""Returns True if a connector of this name exists now, created by any writer."""


async def _no_other_writer(_connector: str) -> bool:
    """Assume that no other writer has created the connector."""
    return False


async def no_listener(_request: CommandRequest, _step: Step) -> None:
    """Do nothing after a step: the default `StepListener`."""


class ExecutionHooks(NamedTuple):
    """Callbacks before and after the steps of a plan."""

    stepped: StepListener = no_listener
    connector_exists: ConnectorExists = _no_other_writer
    set_level: LevelSetter = keep_levels


class NotDone(LogUnavailable):
    """A step could not be written: the log was unavailable for too long."""

    def __init__(self, step: Step, failure: LogUnavailable) -> None:
        super().__init__(_reason(step, failure))
        self.step = step.name


class NotTakenBack(LogUnavailable):
    """A command failed, and its actions outside of the log cannot be taken back yet.

    It stays unfinished until then. `failed`: the answer to its caller. `step`: the name of the last
    step that began.
    """

    def __init__(self, failed: Rejected, step: Step, why: Rejected) -> None:
        super().__init__(f"actions of a failed command cannot be taken back yet: {why.sentence}")
        self.failed = failed
        self.step = step.name


class NotAccepted(Exception):
    """The log refuses the first batch of a command, so it has no record of the command.

    `rejected`: the answer to its caller.
    """

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.sentence)
        self.rejected = rejected


COMMAND_ID, PRINCIPAL = "controlplane-command-id", "controlplane-principal"
"""Headers of our records in Connect's topics; Java workers ignore them."""


class RequestDrafts(NamedTuple):
    """Records to append for one request. Their headers have the request's command id and user."""

    request: CommandRequest
    drafts: Sequence[Draft]
    begins: bool = False
    """True if they begin a command: ends of earlier commands of its queue must come first."""

    @property
    def headers(self) -> Headers:
        """Headers of each record."""
        return (
            (COMMAND_ID, self.request.command_id.encode("utf-8", "surrogatepass")),
            (PRINCIPAL, self.request.principal.encode("utf-8", "surrogatepass")),
        )


class LateEnds(Protocol):
    """Holds the "finished" records of answered commands for a while; see `CommandEnds`."""

    def add(self, end: RequestDrafts) -> None:
        """Let the end of a command wait for the next append."""
        ...

    async def append_before(self, first: RequestDrafts) -> Sequence[Position]:
        """Append the waiting ends and the first records of a command, in one batch."""
        ...

    async def flush(self) -> Sequence[Position]:
        """Write the ends that wait, and await the appends under way; return all their positions."""
        ...

    def stop(self) -> Sequence["asyncio.Task[Sequence[Position]]"]:
        """Begin no further append; return the appends to cancel (see `CommandEnds.stop`)."""
        ...


class PlanExecution:
    """Executes plans. Without a `commands_topic` it records no commands.

    With `ends`, a command may be answered before its "finished" record is written.
    """

    def __init__(  # noqa: PLR0913 - parts of one writer, by name only
        self,
        writer: "LogWriter",
        outside: ExternalActions,
        *,
        commands_topic: str | None,
        now_ms: Callable[[], int],
        hooks: ExecutionHooks | None = None,
        ends: LateEnds | None = None,
    ) -> None:
        self._writer = writer
        self._outside = outside
        self._topic = commands_topic
        self._now_ms = now_ms
        self._stepped, self._connector_exists, self._set_level = hooks or ExecutionHooks()
        self._ends = ends
        self._written: Counter[str] = Counter()

    async def perform(
        self,
        request: CommandRequest,
        plan: Plan,
        profile: Profile | None = None,
        *,
        accepted: bool = False,
    ) -> Outcome | Rejected:
        """Execute all steps; return the answer. A logger's level also changes in this process.

        `profile`: release of the request; None: that of the controller.
        `accepted`: the command topic already has the "accepted" record.

        Raises:
            Fenced: another writer has taken over.
            NotDone, LogUnavailable: the log was unavailable for too long; the command is
                unfinished.
            NotTakenBack: the command failed, and is unfinished until it can be taken back.
            NotAccepted: the log refuses the "accepted" record; nothing was done.
        """
        parts = size_of(request.command)
        accepted_drafts = [] if accepted else await self._accepted(request, plan, parts)
        ends_later = self._ends is not None and not accepted and may_end_later(request, plan)
        finished: list[Step] = []
        for step in plan.steps:
            if step.absent and await self._connector_exists(step.absent):
                return await self._overtaken(request, accepted_drafts, step.absent)
            is_end = step is plan.steps[-1] and not ends_later
            finished_drafts = await self._finished(request, plan.outcome, parts) if is_end else []
            if step.action is None and not step.best_effort:
                failed = await self._write(
                    request, step, accepted_drafts, step.records, finished_drafts
                )
                if failed is not None and accepted_drafts and not self._written[request.command_id]:
                    raise NotAccepted(failed)
            else:  # the step may fail, so the command's records are batches of their own
                failed = await self._write(request, step, accepted_drafts)
                if failed is not None:
                    raise NotAccepted(failed)
                failed = await self._try(request, step)
                finished_drafts = finished_drafts if failed is None else []
                await self._append(request, finished_drafts)
            if failed is not None:  # an earlier process may have done more steps than this one
                await self.take_back(request, plan.steps if accepted else [*finished, step], failed)
                return failed
            accepted_drafts = []
            finished.append(step)
            await self._stepped(request, step)
        if not plan.steps:
            finished_drafts = await self._finished(request, plan.outcome, parts)
            await self._append(request, accepted_drafts + finished_drafts)
        if ends_later:
            await self._end_later(request, plan.outcome, parts)
        if isinstance(request.command, SetLoggerLevel):
            # Deferred: the command's notice is still logged under the earlier level.
            asyncio.get_running_loop().call_soon(self._set_level, request.command, profile)
        return plan.outcome

    async def _end_later(self, request: CommandRequest, outcome: Outcome, parts: int) -> None:
        """Let the "finished" record wait for the next command."""
        assert self._ends is not None
        drafts = await self._finished(request, outcome, parts)
        self._ends.add(RequestDrafts(request, drafts))
        self._written[request.command_id] += len(drafts)

    async def write_ends(self) -> None:
        """Write the "finished" records that wait, and read them back."""
        if self._ends is not None:
            await self._writer.read_back(await self._ends.flush())

    def stop_ends(self) -> Sequence["asyncio.Task[Sequence[Position]]"]:
        """Write no further "finished" records; return the appends to cancel (`LateEnds.stop`)."""
        return [] if self._ends is None else self._ends.stop()

    async def _overtaken(
        self, request: CommandRequest, accepted_drafts: Sequence[Draft], connector: str
    ) -> Outcome | Rejected:
        """Refuse, because another writer has created the connector.

        The finished steps are not taken back: that writer may rely on them.
        """
        failed = Rejected(Reason.ALREADY_EXISTS, f"Connector {connector} already exists")
        finished_drafts = await self._finished(request, failed, size_of(request.command))
        await self._append(request, [*accepted_drafts, *finished_drafts])
        return failed

    async def take_back(
        self, request: CommandRequest, begun: Sequence[Step], failed: Rejected
    ) -> None:
        """Take back the steps that began, the last one first; record that the command failed.

        The failed step is taken back too: a part of it may have been done. If the log refuses the
        records of an undo, the records of its step stay. One reason for a refusal is that the user
        may no longer write to the topic.

        Raises:
            NotDone: the log was unavailable for too long; the command is unfinished.
            NotTakenBack: an action cannot be taken back yet; the command is unfinished.
        """
        for undo in (step.undo for step in reversed(begun) if step.undo is not None):
            refusal = await self._try(request, undo)
            if refusal is not None and undo.action is not None:
                raise NotTakenBack(failed, begun[-1], refusal)
            await self._stepped(request, undo)
        end = await self._finished(request, failed, size_of(request.command))
        await self._append(request, end)

    async def refuse(self, request: CommandRequest, rejected: Rejected, most: int) -> None:
        """Record that a command was refused, in at most `most` bytes."""
        assert self._topic is not None
        draft = partial(command_log.refused, self._topic, request, rejected, most)
        await self._append(request, [await in_thread_if_large(draft, size_of(request.command))])

    def take_written_count(self, request: CommandRequest) -> int:
        """Return the number of records that an ended command has written, and forget it."""
        return self._written.pop(request.command_id, 0)

    async def _write(
        self, request: CommandRequest, step: Step, first: Sequence[Draft], *parts: Sequence[Draft]
    ) -> Rejected | None:
        """Append records that the plan needs; return the refusal if the log is not usable."""
        try:
            await self._append(request, first, *parts, begins=bool(first))
        except LogUnavailable as failure:
            raise NotDone(step, failure) from failure
        except LogNotUsable as failure:  # a retry would not help
            return Rejected(Reason.FAILED, _reason(step, failure))
        return None

    async def _try(self, request: CommandRequest, step: Step) -> Rejected | None:
        """Execute an action or best-effort step; return the refusal if the command must fail."""
        try:
            if step.action is None:
                await self._append(request, step.records)
            else:
                # A fenced writer must not act any more: it could fence the tasks of the newer one.
                await self._writer.check_claim()
                await self._outside.perform(step.action)
        except Fenced:
            raise
        except LogUnavailable as failure:
            if not step.best_effort:
                raise NotDone(step, failure) from failure
        except Exception as failure:  # noqa: BLE001 - an action outside may fail in any way
            if not step.best_effort:
                return _failed(step, failure)
        return None

    async def _append(
        self, request: CommandRequest, *parts: Sequence[Draft], begins: bool = False
    ) -> None:
        """Append the parts in order, as one batch or as a batch each; read all of them back."""
        batches = parts if self._writer.splits_batches else [list(chain.from_iterable(parts))]
        written: list[Position] = []
        for drafts in filter(None, batches):
            batch = RequestDrafts(request, drafts, begins=begins and not written)
            if self._ends is not None and drafts[0].topic == self._topic:
                written += await self._ends.append_before(batch)
            else:
                written += await self._writer.append(batch)
            self._written[request.command_id] += len(drafts)
        if written:
            await self._writer.read_back(written)

    async def _accepted(self, request: CommandRequest, plan: Plan, parts: int) -> list[Draft]:
        """Draft the "accepted" record; it includes the plan unless the command is one batch."""
        if self._topic is None:
            return []
        one_step = len(plan.steps) == 1 and plan.steps[0].action is None
        one_batch = one_step and not self._writer.splits_batches
        draft = partial(command_log.accepted, self._topic, request, None if one_batch else plan)
        return [await in_thread_if_large(draft, parts)]

    async def _finished(
        self, request: CommandRequest, answer: Outcome | Rejected, parts: int
    ) -> list[Draft]:
        """Draft the "finished" record, with the answer."""
        if self._topic is None:
            return []
        parts += _size_of_answer(answer)
        draft = partial(command_log.finished, self._topic, request, self._now_ms(), answer)
        return [await in_thread_if_large(draft, parts)]


def _size_of_answer(answer: Outcome | Rejected) -> int:
    """Number of config keys in the answer."""
    connector = None if isinstance(answer, Rejected) else answer.connector
    return 0 if connector is None else len(connector.config)


def _failed(step: Step, failure: Exception) -> Rejected:
    """Refusal for a failed action: the worker's answer, and the cause that it would log."""
    if isinstance(failure, ExternalActionFailed) and failure.cause:
        answer = f"Failed to {step.doing}: {failure.answer}" if step.doing else failure.answer
        return Rejected(Reason.FAILED, answer, failure.cause)
    return Rejected(Reason.FAILED, _reason(step, failure))


def _reason(step: Step, failure: Exception) -> str:
    """Reason of a failed command, with the failed step if the plan describes it."""
    text = str(failure) or type(failure).__name__
    return f"Failed to {step.doing}: {text}" if step.doing else text


class LogWriter:
    """Appends batches as the writer of an epoch, and waits until they have been read back.

    Without an epoch it appends beside the writer, as any worker may do for some records. While the
    log is unavailable, it retries for a bounded time. If it raises `LogUnavailable` in the end, the
    outcome is open. The log has the whole batch, or nothing of it.
    """

    def __init__(  # noqa: PLR0913 - settings, by name only
        self,
        log: Log,
        reader: LogView,
        *,
        epoch: int | None,
        offsets_topic: str,
        limits: CommandLimits,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._reader = reader
        self._epoch = epoch
        self._offsets_topic = offsets_topic
        self._limits = limits
        self._now_ms = now_ms
        self._partitions: dict[str, int] = {}
        self._followed: set[str] = set()
        """Topics that the reader follows."""
        fast = epoch is not None and isinstance(log, HasFastBatches) and log.has_fast_batches
        self.splits_batches = fast
        """True: one batch per topic takes less time than a single batch of several topics."""

    async def append(self, *parts: RequestDrafts) -> Sequence[Position]:
        """Append one atomic batch, in the order of its parts; return the positions of its records.

        Raises:
            Fenced: another writer has taken over; nothing was appended.
            LogNotUsable: the log refuses a record; nothing was appended.
            LogUnavailable: the log was unavailable for longer than `write_patience_ms`.
        """
        drafts = [draft for part in parts for draft in part.drafts]
        placed = await retried(partial(self._placed, drafts), self._limits)
        headers = chain.from_iterable(repeat(part.headers, len(part.drafts)) for part in parts)
        at_ms = self._now_ms()  # after the retries, so that times ascend as offsets do
        records = [
            Record(draft.topic, partition, at_ms, draft.key, draft.value, own_headers)
            for (draft, partition), own_headers in zip(placed, headers, strict=True)
        ]
        try:
            return await retried(partial(self._log.append, records, self._epoch), self._limits)
        except LogNotUsable:
            self._partitions.clear()  # a topic may have been recreated
            raise

    async def read_back(self, positions: Sequence[Position]) -> None:
        """Wait until the reader has these records.

        Raises:
            LogUnavailable: it has not read them within `write_patience_ms`.
        """
        patience_s = self._limits.write_patience_ms / 1_000
        try:
            async with asyncio.timeout(patience_s):
                await self._reader.wait_for_records(positions)
        except TimeoutError:
            text = f"the records were written, but not read back within {patience_s:g} s"
            raise LogUnavailable(text) from None

    async def check_claim(self) -> None:
        """Check that no other writer has taken over, if the log can tell without an append.

        Raises:
            Fenced: another writer has taken over.
            LogUnavailable: the log was unavailable for longer than `write_patience_ms`.
        """
        if self._epoch is not None and isinstance(self._log, ProbedLog):
            await retried(partial(self._log.check_writable, self._epoch), self._limits)

    async def _placed(self, drafts: Sequence[Draft]) -> list[tuple[Draft, int]]:
        """Return the drafts, each with its partition; create missing topics.

        The reader follows the topics from now on, so that it can read the batch back.
        """
        for topic in dict.fromkeys(draft.topic for draft in drafts if draft.partition is None):
            if topic not in self._partitions:
                await self._find_or_create(topic)

        def placing() -> list[tuple[Draft, int]]:
            return [(draft, self._partition(draft)) for draft in drafts]

        placed = placing() if len(drafts) <= LARGE else await asyncio.to_thread(placing)
        topics = {draft.topic for draft in drafts}
        if not topics <= self._followed:
            await follow_in_time(self._reader, topics, self._limits.write_patience_ms)
            self._followed |= topics
        return placed

    def _partition(self, draft: Draft) -> int:
        """Partition of the draft; by default the one that Kafka's partitioner picks for its key."""
        if draft.partition is not None:
            return draft.partition
        partitions = self._partitions[draft.topic]
        return partition_of(draft.key, partitions) if partitions > 1 else 0

    async def _find_or_create(self, topic: str) -> None:
        """Read the number of partitions of a topic; create a connector's missing offsets topic.

        The new topic gets as many partitions as the worker's offsets topic (KIP-618, `TopicAdmin`).
        """
        self._partitions = dict(await self._log.topics())
        if topic not in self._partitions:
            partitions = partition_count(self._partitions, self._offsets_topic)
            await self._log.create_topic(topic, partitions)
            self._partitions[topic] = partitions


async def retried(attempt: Callable[[], Awaitable[T]], limits: CommandLimits) -> T:
    """Return the result of an attempt, repeated while the log is unavailable.

    Raises:
        LogUnavailable: the log was unavailable for longer than `limits.write_patience_ms`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.write_patience_ms / 1_000
    pauses: Iterator[float] | None = None
    while True:
        try:
            return await attempt()
        except LogUnavailable:
            pauses = pauses or backoff(limits.retry_first_ms, limits.retry_last_ms)
            pause = next(pauses)
            if loop.time() + pause > deadline:
                raise
        await asyncio.sleep(pause)
