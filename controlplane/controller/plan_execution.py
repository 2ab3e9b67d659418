"""A plan → steps done, one after the other, each read back before the next.

The first batch carries the record that the command was accepted, the last one that it has finished;
batches are atomic, so a plan of one batch has no gap at all. Behind every step lies a crash point
that bears its name: what was not done then is `recover`'s business.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from controlplane.controller import command_log
from controlplane.controller.external import ExternalActions
from controlplane.controller.log_writer import LogWriter
from controlplane.core.commands import CommandRequest, size_of
from controlplane.core.plan import Draft, Outcome, Plan, Reason, Rejected, Step
from controlplane.event_loop import apart
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable

StepListener = Callable[[CommandRequest, Step], Awaitable[None]]
"""Called behind every step, when it is durable: what it raises ends the command there."""


IsThere = Callable[[str], Awaitable[bool]]
"""Tells if a connector of this name exists by now, created by any writer."""


async def _nobody_else(_connector: str) -> bool:
    """Nobody else writes."""
    return False


async def unseen(_asked: CommandRequest, _step: Step) -> None:
    """Nobody looks."""


class ExecutionHooks(NamedTuple):
    """Callbacks between two steps of a plan."""

    stepped: StepListener = unseen
    is_there: IsThere = _nobody_else


class NotDone(LogUnavailable):
    """A step cannot be written: the log was away for too long."""

    def __init__(self, step: Step, failure: LogUnavailable) -> None:
        super().__init__(_told(step, failure))
        self.step = step.name


class NotTakenBack(LogUnavailable):
    """A command failed, and what it has done outside cannot be taken back yet.

    It stays unfinished until then. `failed` is what its asker is told; `step` is the last one that
    has begun.
    """

    def __init__(self, failed: Rejected, step: Step, why: Rejected) -> None:
        super().__init__(f"what a failed command has done cannot be taken back yet: {why.sentence}")
        self.failed = failed
        self.step = step.name


class PlanExecution:
    """Performs plans. `commands_topic` None: the log has no command topic, nothing is traced."""

    def __init__(
        self,
        writing: LogWriter,
        outside: ExternalActions,
        commands_topic: str | None,
        now_ms: Callable[[], int],
        around: "ExecutionHooks | None" = None,
    ) -> None:
        self._writing = writing
        self._outside = outside
        self._topic = commands_topic
        self._now_ms = now_ms
        self._stepped, self._is_there = around or ExecutionHooks()
        self._written: Counter[str] = Counter()

    async def perform(
        self, asked: CommandRequest, plan: Plan, *, accepted: bool = False
    ) -> Outcome | Rejected:
        """Do all steps; what the asker is told. `accepted`: the command topic has it already.

        Raises:
            Fenced: another writer has taken over.
            NotDone, NotTakenBack, LogUnavailable: for too long; the command is unfinished.
        """
        begun = [] if accepted else await self._accepted(asked, plan)
        done: list[Step] = []
        for step in plan.steps:
            if step.absent and await self._is_there(step.absent):
                return await self._overtaken(asked, begun, step.absent)
            is_last = step is plan.steps[-1]
            end = await self._finished(asked, plan.outcome) if is_last else []
            if step.action is None and not step.best_effort:
                failed = await self._write(asked, step, [*begun, *step.records, *end])
            else:  # what may fail on its own is no part of a batch
                await self._append(asked, begun)
                failed = await self._try(asked, step)
                end = end if failed is None else []
                await self._append(asked, end)
            if failed is not None:  # an earlier process may have come farther than we did
                await self.take_back(asked, plan.steps if accepted else [*done, step], failed)
                return failed
            begun = []
            done.append(step)
            await self._stepped(asked, step)
        if not plan.steps:
            await self._append(asked, [*begun, *await self._finished(asked, plan.outcome)])
        return plan.outcome

    async def _overtaken(
        self, asked: CommandRequest, begun: Sequence[Draft], connector: str
    ) -> Outcome | Rejected:
        """Somebody else has made it meanwhile, and may rely on what was done here."""
        failed = Rejected(Reason.ALREADY_EXISTS, f"Connector {connector} already exists")
        await self._append(asked, [*begun, *await self._finished(asked, failed)])
        return failed

    async def take_back(
        self, asked: CommandRequest, begun: Sequence[Step], failed: Rejected
    ) -> None:
        """Take back what has begun, the last step first, and note that the command failed.

        Also of the step that failed: some of it may have been done. What lies in a topic that is
        no use any more stays, for nobody reads it.

        Raises:
            NotDone, NotTakenBack: for too long; the command is unfinished.
        """
        for undo in (step.undo for step in reversed(begun) if step.undo is not None):
            why = await self._try(asked, undo)
            if why is not None and undo.action is not None:
                raise NotTakenBack(failed, begun[-1], why)
            await self._stepped(asked, undo)
        await self._append(asked, await self._finished(asked, failed))

    async def refuse(self, asked: CommandRequest, rejected: Rejected, most: int) -> None:
        """Note that a command was refused, in so many bytes: all that is written of it."""
        assert self._topic is not None
        making = partial(command_log.refused, self._topic, asked, rejected, most)
        await self._append(asked, [await apart(making, size_of(asked.command))])

    def written(self, asked: CommandRequest) -> int:
        """Return the number of records that an ended command has written, and forget it."""
        return self._written.pop(asked.command_id, 0)

    async def _write(
        self, asked: CommandRequest, step: Step, drafts: Sequence[Draft]
    ) -> Rejected | None:
        """Append what a plan cannot do without; why the command fails by it, if it does."""
        try:
            await self._append(asked, drafts)
        except LogUnavailable as failure:
            raise NotDone(step, failure) from failure
        except LogNotUsable as failure:  # trying again will not help
            return Rejected(Reason.FAILED, _told(step, failure))
        return None

    async def _try(self, asked: CommandRequest, step: Step) -> Rejected | None:
        """Do something that may fail; why the command fails by it, if it does."""
        try:
            if step.action is None:
                await self._append(asked, step.records)
            else:
                await self._outside.perform(step.action)
        except Fenced:
            raise
        except LogUnavailable as failure:
            if not step.best_effort:
                raise NotDone(step, failure) from failure
        except Exception as failure:  # noqa: BLE001 - what lies outside may fail in any way
            if not step.best_effort:
                return Rejected(Reason.FAILED, _told(step, failure))
        return None

    async def _append(self, asked: CommandRequest, drafts: Sequence[Draft]) -> None:
        if drafts:
            self._written[asked.command_id] += await self._writing.append(asked, drafts)

    async def _accepted(self, asked: CommandRequest, plan: Plan) -> list[Draft]:
        if self._topic is None:
            return []
        alone = len(plan.steps) == 1 and plan.steps[0].action is None
        making = partial(command_log.accepted, self._topic, asked, None if alone else plan)
        return [await apart(making, size_of(asked.command))]

    async def _finished(self, asked: CommandRequest, ended: Outcome | Rejected) -> list[Draft]:
        if self._topic is None:
            return []
        making = partial(command_log.finished, self._topic, asked, self._now_ms(), ended)
        return [await apart(making, size_of(asked.command) + _size_of_answer(ended))]


def _size_of_answer(ended: Outcome | Rejected) -> int:
    """Number of config keys in what the asker is told."""
    left = None if isinstance(ended, Rejected) else ended.connector
    return 0 if left is None else len(left.config)


def _told(step: Step, failure: Exception) -> str:
    """The reason of a failed command, with the failed step if the plan names it."""
    text = str(failure) or type(failure).__name__
    return f"Failed to {step.doing}: {text}" if step.doing else text
