"""Drivers of source tasks: one interface to both forms of the author's code.

`PollingDriver` runs a `SourceTask`, which has the methods of Kafka's class. `GeneratorDriver` runs
a `Source`, whose `read` is a generator. Both call the author's code in the task's thread.

`GeneratorDriver` also prevents overlapping calls, except those of `update_offsets`. `PollingDriver`
does not: while an `async def poll` is in an `await`, `commit_record` and `commit` may begin.
"""

import asyncio
import inspect
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from copy import deepcopy
from functools import partial
from time import monotonic
from typing import Any, Protocol

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import (
    OffsetPair,
    RecordMetadata,
    SourceRecord,
)
from controlplane.connect.source import (
    Idle,
    OffsetPairs,
    Source,
    SourceRun,
    SourceTask,
)
from controlplane.unrun_calls import checked_result
from controlplane.worker.drivers.author_thread import AuthorThread, end_if_forked
from controlplane.worker.drivers.source_context import (
    PolledItem,
    PolledRecord,
    TaskContext,
    TransactionRequests,
)
from controlplane.worker.drivers.source_items import (
    checked,
    checked_item,
    checked_offsets,
    checked_record,
    method_of,
    suspended_at,
)

Acknowledged = tuple[SourceRecord, RecordMetadata | None]
"""A record and its position in the log; None: the record was filtered or dropped."""

DelayedCall = asyncio.Future[Any]
"""Call of the author's code that runs once `read` pauses.

The code that gets this future handles a failure of the call.
"""

OffsetsToCommit = Callable[[], Iterable[OffsetPair]]
"""Returns the offsets of the coming commit. It is called in the author's thread."""

GATHER_S = 0.02
"""Time for which single records gather into one batch."""

GATHER_RECORDS = 2_000
"""Maximum number of single records in one batch; it limits the memory of a task."""

IDLE_SLICE_S = 0.25
"""Longest wait of one poll for the generator; a longer `Idle` or `await` takes several polls.

Between two polls the runtime commits, and notices a pause or a failure.
"""

ENDED_PAUSE_S = 1.0
"""Wait of an empty poll after `read` has ended."""


class SourceDriver(Protocol):
    """Calls the author's code of one source task."""

    async def start(self) -> None:
        """Call the author's `start`, or make the generator of `read`."""
        ...

    async def poll(self) -> Sequence[PolledItem]:
        """Return the next items; may wait. A cancelled call cancels an `async def`."""
        ...

    @property
    def repeats_polls(self) -> bool:
        """True if a poll that raised `RetriableError` may be repeated."""
        ...

    @property
    def has_offsets_hook(self) -> bool:
        """True if the author has written `update_offsets`."""
        ...

    async def update_offsets(self, offsets: OffsetsToCommit) -> OffsetPairs | None:
        """Ask the author for further offsets to commit (KIP-910); the hook gets copies.

        None: the hook cannot be called now, so these offsets must wait.
        """
        ...

    async def acknowledged(self, records: Sequence[Acknowledged]) -> DelayedCall | None:
        """Tell the task of records that are in the log, or were dropped."""
        ...

    async def committed(self) -> DelayedCall | None:
        """Tell the task of a commit."""
        ...

    async def stop(self) -> None:
        """Call the author's `stop` once, or close the generator."""
        ...


class PollingDriver:
    """Runs a `SourceTask`, the form with Kafka's methods."""

    repeats_polls = True

    def __init__(
        self,
        task: SourceTask,
        context: TaskContext,
        thread: AuthorThread,
    ) -> None:
        self._task = task
        self._context = context
        self._thread = thread

    async def start(self) -> None:
        """Give the task its context, and call its `start` with its config."""
        await self._thread.call(setattr, self._task, "context", self._context)
        await self._thread.call(self._task.start, self._context.config)

    async def poll(self) -> Sequence[PolledItem]:
        """Return the records of one `poll`."""
        origin = partial(method_of, self._task, "poll")
        check = partial(checked, origin, self._items)
        return await self._thread.checked_wait(check, self._task.poll)

    def _items(self, polled: Any) -> Sequence[PolledItem]:
        """Return the records of a `poll`, with the transaction boundaries that the task requested.

        Raises:
            ConnectError: `poll` has returned no list of records.
        """
        if polled is None:
            polled = []
        if not isinstance(polled, Iterable):
            raise ConnectError(
                f"The source returned {type(polled).__name__} instead of a list of records"
            )
        place = method_of(self._task, "poll")
        records = [(record, PolledRecord(checked_record(record), place)) for record in polled]
        requests = self._context.transaction
        if isinstance(requests, TransactionRequests):
            return requests.bounded(records)
        return [polled for _, polled in records]

    @property
    def has_offsets_hook(self) -> bool:
        """True if the task has `update_offsets`."""
        return _overrides(self._task, SourceTask, "update_offsets")

    async def update_offsets(self, offsets: OffsetsToCommit) -> OffsetPairs | None:
        """Ask for further offsets, if the task has the method."""
        if not self.has_offsets_hook:
            return ()
        check = _offsets_check(self._task)
        return await self._thread.checked_call(check, self._further_offsets, offsets) or ()

    def _further_offsets(self, offsets: OffsetsToCommit) -> Any:
        return self._task.update_offsets(_copied(offsets))

    async def acknowledged(self, records: Sequence[Acknowledged]) -> None:
        """Call `commit_record` for each record, if the task has the method."""
        if records and _overrides(self._task, SourceTask, "commit_record"):
            await self._thread.call(_for_each, self._task.commit_record, records)

    async def committed(self) -> None:
        """Call `commit`, if the task has the method."""
        if _overrides(self._task, SourceTask, "commit"):
            await self._thread.call(self._task.commit)

    async def stop(self) -> None:
        """Call the task's `stop` once, as soon as the thread is free."""
        await self._thread.last_call(self._task.stop)


class GeneratorDriver:
    """Runs the generator of a `Source`.

    The generator runs ahead until it yields anything but a record. It also pauses after
    `GATHER_RECORDS` records, and at the first record after `GATHER_S`. A generator that waits for
    long holds up no record that it has yielded before.
    """

    repeats_polls = False
    """False: any exception ends a generator."""

    def __init__(
        self,
        source: Source,
        context: TaskContext,
        thread: AuthorThread,
    ) -> None:
        self._source = source
        self._run = SourceRun(context)
        self._thread = thread
        self._check = partial(checked_item, type(source).__name__, self._place)
        self._generator: AsyncIterator[Any] | Iterator[Any] | None = None
        self._gathered: deque[Any] = deque()
        self._pulling: asyncio.Future[Any] | None = None
        self._arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._idle: Idle | None = None
        self._ended = False
        self._failed: asyncio.Future[Any] | None = None
        """A call of `_pull` that has gathered items and then failed.

        One poll returns the items; the next one raises the failure.
        """
        self._committed: asyncio.Future[Any] | None = None
        """Latest call of the author's `committed`; None before the first."""
        self._call_lock = asyncio.Lock()
        """Held by each call in the author's thread: an `await` in one must not let another begin.

        Calls take it in their order. A cancelled call holds it until it has ended. While `_pull`
        holds the lock and the generator is in an `await`, `update_offsets` may run without it.
        """
        self._reading = False
        """True while `_pull` holds the lock; used in the author's thread only."""
        self._hook_lock = asyncio.Lock()
        """Held by an `update_offsets` that runs during `_pull`; `_pull` ends only after it."""
        self._withdrawn: asyncio.Future[Any] | None = None
        """Last call of `update_offsets` that was cancelled before the blocked thread began it."""

    async def start(self) -> None:
        """Make the generator. Its code begins to run at the first poll."""
        await self._thread.call(self._make)

    def _make(self) -> None:
        self._generator = _made(self._source, self._run)

    async def poll(self) -> Sequence[PolledItem]:
        """Resume the generator, and return what it yields."""
        if self._idle is not None:
            rest_s = min(self._idle.seconds, IDLE_SLICE_S)
            left_s = self._idle.seconds - rest_s
            self._idle = Idle(left_s) if left_s > 0 else None
            await asyncio.sleep(rest_s)
            return []
        if self._ended and not self._gathered:
            await asyncio.sleep(ENDED_PAUSE_S)
            return []
        await self._gather()
        return self._taken()

    async def _gather(self) -> None:
        """Wait for the first item up to `IDLE_SLICE_S`, then for the others up to `GATHER_S`.

        Raises:
            Exception: `read` has failed, and earlier polls have returned all that it yielded.
        """
        if self._failed is not None:
            self._failed.result()
        if self._ended:
            return
        if not self._gathered:
            self._arrived.clear()
        pulling = self._pulling
        if pulling is None:
            pulling = self._pulling = self._thread.submit_wait(self._pull)
        arrival = asyncio.ensure_future(self._arrived.wait())
        try:
            await asyncio.wait(
                [pulling, arrival], timeout=IDLE_SLICE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if arrival.done() and not pulling.done():
                await asyncio.wait([pulling], timeout=GATHER_S)
        except asyncio.CancelledError:
            pulling.cancel()
            raise
        finally:
            arrival.cancel()
        if pulling.done():
            self._pulling = None
            if self._gathered and pulling.exception() is not None:
                self._failed = pulling
            else:
                self._ended = bool(pulling.result())

    async def _pull(self) -> bool:
        """Run the generator in the author's thread; return True once it has ended."""
        async with self._call_lock:
            self._reading = True
            try:
                return await self._gather_items()
            finally:
                self._reading = False
                async with self._hook_lock:
                    pass

    async def _gather_items(self) -> bool:
        until = monotonic() + GATHER_S
        for _ in range(GATHER_RECORDS):
            try:
                item = await self._next()
            except (StopAsyncIteration, _GeneratorEnd):
                return True
            self._gathered.append(checked(self._place, self._check, item))
            if len(self._gathered) == 1:  # else the items before it have woken `_gather`
                self._loop.call_soon_threadsafe(self._arrived.set)
            if not isinstance(item, SourceRecord) or monotonic() > until:
                return False
        return False

    def _place(self) -> str:
        """Return file and line of the `yield`, or the method if the generator has no frame."""
        return suspended_at(self._generator) or method_of(self._source, "read")

    async def _next(self) -> Any:
        process = os.getpid()
        try:
            if isinstance(self._generator, AsyncIterator):
                return await anext(self._generator)
            assert self._generator is not None
            return next(self._generator)
        except StopIteration:
            raise _GeneratorEnd from None
        finally:
            end_if_forked(process)

    def _taken(self) -> list[PolledItem]:
        """Take what was gathered, up to the next `Idle`."""
        items: list[PolledItem] = []
        while self._gathered:
            item = self._gathered.popleft()
            if isinstance(item, Idle):
                self._idle = item
                break
            items += item if isinstance(item, list) else [item]
        return items

    @property
    def _busy(self) -> bool:
        """True while the generator runs: other calls wait, except those of `update_offsets`."""
        return self._pulling is not None

    @property
    def has_offsets_hook(self) -> bool:
        """True if the source has `update_offsets`."""
        return _overrides(self._source, Source, "update_offsets")

    async def update_offsets(self, offsets: OffsetsToCommit) -> OffsetPairs | None:
        """Ask for further offsets, if the source has the method.

        None: the generator blocks the thread, or it has yielded items that no poll has returned
        yet. The hook's answer could cover such items, whose offsets must not be committed yet.

        After a failure of `read`, the hook is not called: its answer could cover an item whose
        check has failed.
        """
        if not self.has_offsets_hook or self._failed is not None:
            return ()
        if self._withdrawn is not None and not self._withdrawn.done():
            # The thread is still blocked: at most one cancelled call may wait for it.
            return None
        begun: Future[None] = Future()
        call = self._thread.submit(self._further_offsets, begun, offsets)
        if self._pulling is not None:
            calls = call, self._pulling
            await asyncio.wait(calls, timeout=GATHER_S, return_when=asyncio.FIRST_COMPLETED)
            if not self._pulling.done() and begun.cancel():
                self._withdrawn = call
                return None
        further: OffsetPairs | None = await call
        return further

    async def _further_offsets(
        self, begun: "Future[None]", offsets: OffsetsToCommit
    ) -> OffsetPairs | None:
        """Call the hook in the author's thread, unless the caller has cancelled `begun`."""
        if not begun.set_running_or_notify_cancel() or self._gathered:
            return None
        lock = self._hook_lock if self._reading else self._call_lock
        async with lock:
            further = self._source.update_offsets(self._run, _copied(offsets))
            further = await further if inspect.isawaitable(further) else further
        if self._gathered:
            return None  # the generator went on while the hook waited
        return _offsets_check(self._source)(further) or ()

    async def acknowledged(self, records: Sequence[Acknowledged]) -> DelayedCall | None:
        """Call `acked` for each record, if the source has the method."""
        if not records or not _overrides(self._source, Source, "acked"):
            return None
        acked = _bound(self._source.acked, self._run)
        return await self._unless_busy(self._thread.submit(self._alone, _for_each, acked, records))

    async def committed(self) -> DelayedCall | None:
        """Call `committed`, if the source has the method and no such call still waits."""
        waits = self._committed is not None and not self._committed.done()
        if waits or not _overrides(self._source, Source, "committed"):
            return None
        self._committed = self._thread.submit(self._alone, self._source.committed, self._run)
        return await self._unless_busy(self._committed)

    async def _alone(self, method: Any, *arguments: Any) -> Any:
        """Call a method in the author's thread while no other method of the source runs."""
        async with self._call_lock:
            result = method(*arguments)
            return await result if inspect.isawaitable(result) else result

    async def _unless_busy(self, call: DelayedCall) -> DelayedCall | None:
        """Await a call. If the generator runs, return the call at once."""
        if self._busy:
            return call
        await call
        return None

    async def stop(self) -> None:
        """Cancel the generator's present `await`, and close the generator: its `finally` runs."""
        if self._pulling is not None:
            self._pulling.cancel()
        if self._generator is not None:
            await self._thread.last_call(self._close)

    async def _close(self) -> None:
        async with self._call_lock:
            await _closed(self._generator)


class _GeneratorEnd(Exception):
    """A plain generator has ended; `StopIteration` cannot leave a coroutine."""


def _copied(offsets: OffsetsToCommit) -> OffsetPairs:
    """Return copies of offsets. Many take long to copy, so this runs in the author's thread."""
    return [deepcopy(pair) for pair in offsets()]


def _offsets_check(author: object) -> Callable[[Any], list[OffsetPair] | None]:
    """Return the check of what the author's `update_offsets` returns."""
    return partial(checked, partial(method_of, author, "update_offsets"), checked_offsets)


def _overrides(instance: object, base: type, method: str) -> bool:
    """True if the author has written this method."""
    return getattr(type(instance), method) is not getattr(base, method)


def _made(source: Source, run: SourceRun) -> AsyncIterator[Any] | Iterator[Any]:
    """Call `read`.

    Raises:
        ConnectError: `read` is no generator.
    """
    made: Any = source.read(run)
    if isinstance(made, AsyncIterator | Iterator):
        return made
    if inspect.iscoroutine(made):
        made.close()
    raise ConnectError(f"{type(source).__name__}.read is no generator: it must yield records")


def _bound(acked: Any, run: SourceRun) -> Any:
    return lambda record, metadata: acked(run, record, metadata)


async def _for_each(method: Any, records: Sequence[Acknowledged]) -> None:
    """Call a method for each record, in the author's thread; raise the first failure at the end."""
    failures: list[Exception] = []
    for record, metadata in records:
        try:
            result = method(record, metadata)
            if inspect.isawaitable(result):
                await result
            else:
                checked_result(result)
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            failures.append(failure)
    if failures:
        raise failures[0]


async def _closed(generator: AsyncIterator[Any] | Iterator[Any] | None) -> None:
    """Close a generator of either kind."""
    if isinstance(generator, AsyncIterator):
        close = getattr(generator, "aclose", None)
        if close is not None:
            await close()
    elif (close := getattr(generator, "close", None)) is not None:
        close()
