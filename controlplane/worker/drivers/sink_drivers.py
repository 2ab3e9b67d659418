"""Drivers of sink tasks: one interface to both forms of the author's code.

The author writes a `SinkTask`, which has the methods of Kafka's class, or a `Sink`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import SinkRecord
from controlplane.connect.sink import (
    KafkaOffsets,
    KafkaPartition,
    Sink,
    SinkTask,
)
from controlplane.connect.source import ResolvedConfig
from controlplane.core.moments import LAST_OFFSET
from controlplane.worker.drivers.author_seconds import plain_seconds
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.records.error_reports import ErrorReport
from controlplane.worker.task_identity import TaskIdentity, TaskServices

Report = Callable[[SinkRecord, BaseException], ErrorReport]
"""Reports a record that a sink cannot take (KIP-610)."""


class SinkDriver(Protocol):
    """Calls the author's code of one sink task."""

    context: "SinkContext"

    @property
    def author(self) -> object:
        """The author's `SinkTask` or `Sink`."""
        ...

    async def start(self) -> None:
        """Call the author's `start`; returns when it has returned."""
        ...

    async def open(self, partitions: Sequence[KafkaPartition]) -> None:
        """Tell the task of new partitions."""
        ...

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Hand records to the task; raises what the author's `put` raises."""
        ...

    async def pre_commit(self, offsets: KafkaOffsets) -> KafkaOffsets:
        """Return the offsets that may be committed."""
        ...

    async def close(self, partitions: Sequence[KafkaPartition]) -> None:
        """Tell the task of partitions that it no longer consumes."""
        ...

    async def stop(self) -> None:
        """Call the author's `stop` once, as soon as the thread is free."""
        ...


class SinkContext(TaskServices):
    """Services for a running sink task (`SinkTaskContext`).

    The author's thread sets requests here; the runtime takes them between two calls.
    """

    def __init__(self, identity: TaskIdentity, config: ResolvedConfig) -> None:
        super().__init__(identity, config)
        self.reporting: Report
        """Reports a record; set before the task starts."""
        self._assignment: frozenset[KafkaPartition] = frozenset()
        self._rewinds: dict[KafkaPartition, int] = {}
        self._rewind_places: dict[KafkaPartition, str] = {}
        """Caller of the last `rewind` of each partition: file and line."""
        self._paused: set[KafkaPartition] = set()
        """Partitions that the task has paused.

        A rebalance on brokers revokes all partitions, and assigns some of them again: these stay
        paused. Kafka: `WorkerSinkTaskContext.pausedPartitions`.
        """
        self._retry_s: float | None = None
        self._commit_requested = False

    @property
    def assignment(self) -> frozenset[KafkaPartition]:
        """Partitions that this task consumes now."""
        return self._assignment

    def rewind(self, offsets: KafkaOffsets) -> None:
        """Consume these partitions from these offsets on, after the present call.

        Raises:
            ConnectError: they are no offsets.
        """
        rewinds = _checked_offsets("rewind got", offsets)
        self._rewind_places |= dict.fromkeys(rewinds, _place_of_caller())
        self._rewinds |= rewinds

    def retry_after(self, seconds: float) -> None:
        """Set the pause before the batch is put again after a `RetriableError`.

        Raises:
            ConnectError: `seconds` is negative, too large, or no number.
        """
        retry_s = plain_seconds("retry_after", seconds)
        if retry_s < 0:
            raise ConnectError(f"retry_after needs seconds, not {retry_s!r}")
        self._retry_s = retry_s

    def pause(self, *partitions: KafkaPartition) -> None:
        """Deliver no records of these partitions until they are resumed, or another task gets them.

        Raises:
            ConnectError: a partition is not assigned to this task.
        """
        self._paused |= self._assigned("pause", partitions)

    def resume(self, *partitions: KafkaPartition) -> None:
        """Deliver records of these partitions again.

        Raises:
            ConnectError: a partition is not assigned to this task.
        """
        self._paused -= self._assigned("resume", partitions)

    def _assigned(self, method: str, partitions: Sequence[KafkaPartition]) -> set[KafkaPartition]:
        """Return plain copies of partitions that an author's call of `method` has named.

        Raises:
            ConnectError: a partition is not assigned, or is no partition.
        """
        named = {_plain_partition(f"{method} got", partition) for partition in partitions}
        for topic, number in named - self._assignment:
            raise ConnectError(
                f"{method} got {topic}-{number}, which is not assigned to task {self._identity}"
            )
        return named

    def request_commit(self) -> None:
        """Commit offsets soon, instead of at the next interval."""
        self._commit_requested = True

    def report(self, record: SinkRecord, error: BaseException) -> ErrorReport:
        """Report a record that the sink cannot take, as `errors.*` says (KIP-610)."""
        return self.reporting(record, error)

    # --- the runtime's side -------------------------------------------------------------------

    def revoked(self, left: frozenset[KafkaPartition]) -> None:
        """Set the partitions that are left; the others may be assigned again."""
        self._assignment = left

    def assigned(self, partitions: frozenset[KafkaPartition]) -> None:
        """Set the partitions after a rebalance, and forget pauses of all others."""
        self._assignment = partitions
        self._paused &= partitions

    @property
    def paused(self) -> frozenset[KafkaPartition]:
        """Assigned partitions that the task has paused."""
        return self._assignment & self._paused

    def take_rewinds(self) -> dict[KafkaPartition, int]:
        """Return the requested offsets, and forget them."""
        rewinds, self._rewinds = self._rewinds, {}
        return rewinds

    def rewind_place(self, partition: KafkaPartition) -> str:
        """Return the caller of the last `rewind` of a partition, as file and line."""
        return self._rewind_places[partition]

    def take_retry_s(self) -> float | None:
        """Return the requested pause before a retry, and forget it."""
        retry_s, self._retry_s = self._retry_s, None
        return retry_s

    def take_commit_request(self) -> bool:
        """Return whether a commit was requested, and forget it."""
        requested, self._commit_requested = self._commit_requested, False
        return requested


class ClassicSinkDriver:
    """Runs a `SinkTask`, the form with Kafka's methods."""

    def __init__(self, task: SinkTask, context: SinkContext, thread: AuthorThread) -> None:
        self._task = self.author = task
        self.context = context
        self._thread = thread

    async def start(self) -> None:
        """Give the task its context, and call its `start` with its config."""
        await self._thread.call(setattr, self._task, "context", self.context)
        await self._thread.call(self._task.start, self.context.config)

    async def open(self, partitions: Sequence[KafkaPartition]) -> None:
        """Call the task's `open` with a new list."""
        await self._thread.call(self._task.open, [*partitions])

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Call `put` with a new list, which the author may change."""
        await self._thread.call(self._task.put, [*records])

    async def pre_commit(self, offsets: KafkaOffsets) -> KafkaOffsets:
        """Call `pre_commit`; if it returns None, call `flush` and return the given offsets."""
        check = partial(_checked, self._task)
        returned = await self._thread.checked_call(check, self._task.pre_commit, dict(offsets))
        if returned is None:
            await self._thread.call(self._task.flush, dict(offsets))
            return offsets
        return returned

    async def close(self, partitions: Sequence[KafkaPartition]) -> None:
        """Call the task's `close` with a new list."""
        await self._thread.call(self._task.close, [*partitions])

    async def stop(self) -> None:
        """Call the task's `stop` once, as soon as the thread is free."""
        await self._thread.last_call(self._task.stop)


class OneClassSinkDriver:
    """Runs the tasks' side of a `Sink`."""

    def __init__(self, sink: Sink, context: SinkContext, thread: AuthorThread) -> None:
        self._sink = self.author = sink
        self.context = context
        self._thread = thread

    async def start(self) -> None:
        """Call the sink's `start` with the context of the task."""
        await self._thread.call(self._sink.start, self.context)

    async def open(self, partitions: Sequence[KafkaPartition]) -> None:
        """Call the sink's `open` with a new list."""
        await self._thread.call(self._sink.open, self.context, [*partitions])

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Call `put` with a new list, which the author may change."""
        await self._thread.call(self._sink.put, self.context, [*records])

    async def pre_commit(self, offsets: KafkaOffsets) -> KafkaOffsets:
        """Call `pre_commit`; if it returns None, call `flush` and return the given offsets."""
        returned = await self._thread.checked_call(
            partial(_checked, self._sink), self._sink.pre_commit, self.context, dict(offsets)
        )
        if returned is None:
            await self._thread.call(self._sink.flush, self.context, dict(offsets))
            return offsets
        return returned

    async def close(self, partitions: Sequence[KafkaPartition]) -> None:
        """Call the sink's `close` with a new list."""
        await self._thread.call(self._sink.close, self.context, [*partitions])

    async def stop(self) -> None:
        """Call the sink's `stop` once, as soon as the thread is free."""
        await self._thread.last_call(partial(self._sink.stop, self.context))


def _place_of_caller() -> str:
    """Return file and line of the code that has called a method of this module."""
    method = sys._getframe(1)  # noqa: SLF001 - as faulthandler
    if (caller := method.f_back) is None:
        return "the start of a thread"
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def _checked(author: object, offsets: Any) -> KafkaOffsets | None:
    """Check and copy the offsets that `pre_commit` has returned; None stays None.

    Raises:
        ConnectError: they are no map from (topic, partition) to an offset.
    """
    if offsets is None:
        return None
    return _checked_offsets(f"{type(author).__name__}.pre_commit returned", offsets)


def _checked_offsets(origin: str, offsets: Any) -> dict[KafkaPartition, int]:
    if not isinstance(offsets, Mapping):
        raise ConnectError(f"{origin} {offsets!r}, not offsets by (topic, partition)")
    return dict(_checked_offset(origin, *item) for item in offsets.items())


def _checked_offset(origin: str, partition: Any, offset: Any) -> tuple[KafkaPartition, int]:
    topic, number = _plain_partition(origin, partition)
    name = f"{topic}-{number}"
    if not isinstance(offset, int):
        raise ConnectError(f"{origin} {offset!r} for {name}: an offset must be an int")
    plain_offset = int.__int__(offset)
    if plain_offset < 0:
        raise ConnectError(f"{origin} {plain_offset} for {name}: Invalid negative offset")
    if plain_offset > LAST_OFFSET:
        raise ConnectError(f"{origin} an offset for {name} that is above {LAST_OFFSET}")
    return (topic, number), plain_offset


def _plain_partition(origin: str, partition: Any) -> KafkaPartition:
    """Return the topic as a plain `str` and the partition number as a plain `int`.

    The author's code may pass instances of subclasses of `str` and `int`. Without the conversion,
    methods of these subclasses would run in the worker's event loop.

    Raises:
        ConnectError: it is no pair (topic, partition).
    """
    match partition:
        case (str(topic), int(number)):
            return str.__str__(topic), int.__int__(number)
        case _:
            raise ConnectError(f"{origin} {partition!r}, which is no pair (topic, partition)")
