"""Admission of commands: limits, order per connector, shared runs of one action.

A flood of commands must not exhaust memory, the command topic or the log. Commands of one connector
run one after the other; commands of different connectors run side by side.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec

from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    ConnectorCommand,
    CreateConnector,
    PatchConfig,
    ResetOffsets,
    SetLoggerLevel,
)
from controlplane.core.plan import Outcome, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.event_loop import retrieve_exception

CommandAnswer = Outcome | Rejected


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a controller (`controller.`): queue, retries, time-outs, records of refusals."""

    commands_waiting: int = 10_000
    """Maximum commands that run or wait, about 2 kB each; others are refused with `TooMany`."""

    write_patience_ms: int = 30_000
    """Longest time for retries of one step while the log is unavailable. A worker waits as long for
    a write to its config topic (`KafkaConfigBackingStore#READ_WRITE_TOTAL_TIMEOUT_MS`)."""

    retry_first_ms: int = 50
    """Pause before the first retry; it doubles with each retry."""

    retry_last_ms: int = 2_000
    """Longest pause between two retries."""

    request_timeout_ms: int = 90_000
    """Longest time for which a caller waits; afterwards the command goes on. The default is the
    request timeout of Connect's REST server (`HerderRequestHandler`)."""

    hook_timeout_ms: int = 60_000
    """Longest time for a connector's own `alter_offsets`; afterwards the command fails. It is less
    than `request_timeout_ms`, so the caller learns the reason."""

    end_delay_ms: int = 5
    """Longest time for which the "finished" record of an answered command waits for the next
    command, to share its append. On Kafka this saves one of three appends per command.

    The record waits only on a log that appends to one partition much faster than to several
    (`HasFastBatches`). On other logs it is part of the command's last batch, without a delay."""

    refusal_max_bytes: int = 16_384
    """Maximum size of a refused command's record; a larger one is cut to an excerpt. At 600 records
    a minute that is at most 10 MB a minute."""

    refusals_per_minute: int = 600
    """Refused commands that the command topic records per minute; the others are only logged."""


class TooMany(Exception):
    """The number of waiting commands has reached its limit; the caller should try again later."""


class QueuedCommand:
    """A command that waits or runs; callers with the same command id share it."""

    task: "asyncio.Task[CommandAnswer]"

    def __init__(self, request: CommandRequest, profile: Profile | None) -> None:
        self.request = request
        self.profile = profile
        """Release whose rules the command follows; None: the controller's."""
        self.queue = queue_of(request.command)
        self.subject = subject_of(request.command)
        self.depends_on_others = _depends_on_others(request.command)
        self.callers = 0
        """Number of callers that wait for the answer."""
        self.begun = False
        """True once anything may have been written."""
        self.since_ms = request.at_ms
        """Time at which the command arrived; once it runs, the time at which it began to run."""

    def abandon(self) -> None:
        """Cancel the command unless it has begun. Call it once no caller waits any more."""
        if not self.begun:
            self.task.cancel()


class HasTask(Protocol):
    """Job that a task runs."""

    @property
    def task(self) -> "asyncio.Task[Any]":
        """Task of the job."""


Job = TypeVar("Job", bound=HasTask)


async def job_to_join(running: Mapping[str, Job], command_id: str) -> Job | None:
    """Return the job that runs a command id; wait for the end of a job that is cancelled.

    Each task must have a done callback that removes its job from `running`. Without it, this
    function never returns for a cancelled job.
    """
    while (job := running.get(command_id)) is not None and job.task.cancelling():
        await asyncio.wait([job.task])  # the callback of the task has then removed the job
    return job


def queue_of(command: AnyCommand) -> str:
    """Name of a command's queue. Commands that concern no connector share one queue."""
    return f"connector {command.connector}" if isinstance(command, ConnectorCommand) else ""


def _depends_on_others(command: AnyCommand) -> bool:
    """True if the plan is computed from present records, which another writer may have written."""
    if isinstance(command, CreateConnector):
        return command.initial_offsets is not None
    return isinstance(command, PatchConfig | AlterOffsets | ResetOffsets)


def subject_of(command: AnyCommand) -> dict[str, str]:
    """The connector or the logger of a command, as fields of a log event."""
    if isinstance(command, SetLoggerLevel):
        return {"namespace": command.namespace, "logger_level": command.level}
    return {"connector": command.connector}


class QueueLocks:
    """Fair locks by name of a queue; a lock exists only while a command holds or awaits it."""

    def __init__(self, waiting: int) -> None:
        self._room = waiting
        """Number of further commands that may enter."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    def is_held(self, name: str) -> bool:
        """True if a command holds or awaits the lock of a queue."""
        return name in self._locks

    def is_awaited(self, name: str) -> bool:
        """True if at least one command awaits the lock while another holds it."""
        return self._users[name] > 1

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of a queue; commands get it in the order of their arrival.

        Raises:
            TooMany: the number of waiting commands has reached its limit.
        """
        if not self._room:
            waiting = self._users.total()
            raise TooMany(f"{waiting} commands are waiting already: try again later")
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._room -= 1
        self._users[name] += 1
        try:
            async with lock:
                yield
        finally:
            self._room += 1
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._locks[name]


class RefusalQuota:
    """Token bucket for records of refused commands: it holds the tokens of one minute."""

    def __init__(self, per_minute: int, now_ms: int) -> None:
        self._per_ms = per_minute / 60_000
        self._capacity = float(per_minute)
        self._tokens = self._capacity
        self._filled_at_ms = now_ms

    def admits(self, now_ms: int) -> bool:
        """Take a token and return True; return False if none is left."""
        gained = max(0, now_ms - self._filled_at_ms) * self._per_ms
        self._tokens, self._filled_at_ms = min(self._capacity, self._tokens + gained), now_ms
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class SharedAction:
    """An action that concurrent callers share: one run serves all calls made before it began.

    A call made during a run waits for the next run: the present one may have read older data. A
    caller that is cancelled does not cancel the run.
    """

    def __init__(self, act: Callable[[], Awaitable[None]]) -> None:
        self._act = act
        self._current: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Wait for a run that begins after this call; raises what that run raises."""
        await asyncio.shield(self.begin())

    def begin(self) -> "asyncio.Task[None]":
        """Return the task of a run that begins after this call. Await it by `asyncio.shield`."""
        if self._next is None:
            self._next = asyncio.create_task(self._run_after(self._current))
            self._next.add_done_callback(retrieve_exception)
        return self._next

    async def _run_after(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None and not previous.done():
            await asyncio.wait([previous])
        # This run has begun, so later calls need another one.
        self._current, self._next = self._next, None
        await self._act()
