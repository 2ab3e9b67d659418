"""Reports of connectors and tasks in the status topic (Kafka: `KafkaStatusBackingStore`)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from controlplane.core.codec.status import decode_status, encode_status
from controlplane.core.entry import Entry, Position
from controlplane.core.records import (
    ActiveTopic,
    Activity,
    ConnectorStatus,
    State,
    Status,
    StatusRecord,
    TaskStatus,
)
from controlplane.core.state import ClusterState, StatusState
from controlplane.core.topics.partitioner import partition_of
from controlplane.event_loop import cancel_all
from controlplane.logs.log import Fenced, Log, LogError, Record
from controlplane.notices import Notices
from controlplane.worker.background_tasks import background_task
from controlplane.worker.data_topics.outage_retry import until_available
from controlplane.worker.task_identity import TaskIdentity

CLOSE_S = 5.0
"""Longest wait for the log when a worker ends: the next start reports anew."""

MAX_GENERATION = 2**31 - 1
"""Greatest generation: an INT in Kafka."""


class StatusWriter:
    """Writes statuses in the order of the calls; no caller waits for the log.

    A *safe* status must not replace a newer status of another worker (Kafka: `putSafe`). So the
    writer drops it if the last status read has another worker's id and a higher generation.
    """

    def __init__(  # noqa: PLR0913 - parts of the worker, by name only
        self,
        log: Log,
        *,
        state: Callable[[], ClusterState],
        epoch: Callable[[], int],
        partitions: int,
        now_ms: Callable[[], int],
        notices: Notices,
        read_back: Callable[[Sequence[Position]], Awaitable[None]],
        fenced: Callable[[], None],
        worker_id: str,
        tracking: bool,
        excerpt: Callable[[str], str],
    ) -> None:
        self._log = log
        self._state = state
        self._epoch = epoch
        self._earlier_generations = max(0, _newest_generation(state().status) + 1 - epoch())
        """Number to add to the epoch: the sum is the generation in this worker's statuses.

        On brokers, each process counts its epochs from 1. Without this number, the generation could
        be lower than in statuses of earlier processes.
        """
        self._partitions = partitions
        self._now_ms = now_ms
        self._notices = notices
        self._read_back = read_back
        self._fenced = fenced
        """Called when statuses are refused because another process has claimed the log."""
        self._worker_id = worker_id
        self._tracking = tracking
        self._excerpt = excerpt
        """Removes the values of config providers from a trace."""
        self._queue: deque[StatusRecord] = deque()
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._noted: set[tuple[str, str]] = set()
        """Active topics that were written and are not read back yet."""
        self._task = background_task(self._write_queued(), "statuses", notices)

    def connector(
        self,
        name: str,
        state: State,
        trace: str | None = None,
        *,
        safe: bool = False,
        version: str | None = None,
    ) -> None:
        """Report a connector's state, with the `version` of its class (KIP-891), if given."""
        cached = self._state().status.connectors.get(name)
        if not safe or self._may_replace(cached):
            self._add(ConnectorStatus(name, self._status(state, trace, version)))

    def task(
        self,
        task: TaskIdentity,
        state: State,
        trace: str | None = None,
        *,
        safe: bool = False,
        version: str | None = None,
    ) -> None:
        """Report a task's state, with the `version` of its class (KIP-891), if given."""
        cached = self._state().status.tasks.get(task.connector, {}).get(task.number)
        if not safe or self._may_replace(cached):
            self._add(TaskStatus(task.connector, task.number, self._status(state, trace, version)))

    def remove_tasks(self, name: str, tasks: Iterable[int]) -> None:
        """Remove the statuses of tasks that no longer exist."""
        for task in tasks:
            self._add(TaskStatus(name, task, None))

    def remove_connector(self, name: str) -> None:
        """Remove the statuses of a deleted connector: its tasks first."""
        self.remove_tasks(name, sorted(self._state().status.tasks.get(name, {})))
        self._add(ConnectorStatus(name, None))

    def note_topic(self, task: TaskIdentity, topic: str) -> None:
        """Record that a task uses a topic, unless the log says so already (KIP-558)."""
        if not self._tracking:
            return
        name, number = task
        recorded = self._state().status.active_topics.get(name, {})
        if topic not in recorded and (name, topic) not in self._noted:
            self._noted.add((name, topic))
            self._add(ActiveTopic(name, topic, Activity(topic, name, number, self._now_ms())))

    def forget_topics(self, name: str) -> None:
        """Remove the active topics of a deleted connector."""
        if self._tracking:
            for topic in sorted(self._state().status.active_topics.get(name, {})):
                self._add(ActiveTopic(name, topic, None))

    def is_of_newer_worker(self, entry: Entry) -> bool:
        """True for a status of a worker that has claimed the log after this one."""
        record = decode_status(entry.key, entry.value, self._state().profile)
        if not isinstance(record, ConnectorStatus | TaskStatus) or record.status is None:
            return False
        return record.status.generation > self._generation()

    async def flush(self) -> None:
        """Return as soon as everything so far has been written, or was given up."""
        idle = asyncio.ensure_future(self._idle.wait())
        try:
            await asyncio.wait({idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()

    async def close(self) -> None:
        """Write what is queued, for a bounded time, then end."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except TimeoutError:
            pass
        finally:  # also if the caller is cancelled
            await cancel_all([self._task])

    def _status(self, state: State, trace: str | None, version: str | None) -> Status:
        trace = None if trace is None else self._excerpt(trace)
        return Status(state, trace, self._worker_id, self._generation(), version)

    def _may_replace(self, cached: Status | None) -> bool:
        """True if a safe status may be written (`CacheEntry#canWriteSafely`)."""
        return (
            cached is None
            or cached.worker_id == self._worker_id
            or cached.generation <= self._generation()
        )

    def _generation(self) -> int:
        """Return the generation of this worker: higher than those of its predecessors' statuses."""
        return min(self._epoch() + self._earlier_generations, MAX_GENERATION)

    def _add(self, record: StatusRecord) -> None:
        self._queue.append(record)
        self._idle.clear()
        self._filled.set()

    async def _write_queued(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                batch = [*self._queue]
                self._queue.clear()
                positions = await self._append([self._placed(record) for record in batch])
                await self._read_back(positions)
                self._noted -= {
                    (record.connector, record.topic)
                    for record in batch
                    if isinstance(record, ActiveTopic)
                }
            self._idle.set()

    def _placed(self, record: StatusRecord) -> Record:
        state = self._state()
        key, value = encode_status(record, state.profile)
        partition = partition_of(key, self._partitions)
        return Record(state.topics.status, partition, self._now_ms(), key, value)

    async def _append(self, records: list[Record]) -> Sequence[Position]:
        """Append statuses; retry while the log is unavailable, and give up if it refuses them."""

        async def attempt() -> Sequence[Position]:
            return await self._log.append(records, self._epoch())

        try:
            return await until_available(attempt)
        except Fenced:
            self._fenced()
            return ()  # the new writer reports what it runs
        except LogError as failure:
            self._notices.warning("statuses_not_written", reason=str(failure))
            return ()


def _newest_generation(statuses: StatusState) -> int:
    """Return the highest generation in these statuses; -1 without a status."""
    tasks = (status for listed in statuses.tasks.values() for status in listed.values())
    reports = (*statuses.connectors.values(), *tasks)
    return max((status.generation for status in reports), default=-1)
