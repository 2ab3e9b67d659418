"""Queue of one writer's operations: they run in order; waiting appends share a transaction."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from controlplane.core.entry import Position
from controlplane.event_loop import backoff
from controlplane.logs.kafka.appends.coordinator import RETRY_MAX_MS
from controlplane.logs.kafka.appends.fenced_batches import BatchOutcome, NotAppended
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.limits import CLOSED, WriteLimits
from controlplane.logs.log import Fenced, LogError, LogNotUsable, LogUnavailable, Record

QueueOperation = Callable[[], Awaitable[Any]]

AppendListener = Callable[[Sequence[Position]], None]
"""Called with the positions of each successful append, even if its caller has gone."""


class _QueuedOperation:
    """An operation that waits for its turn, and the future that its callers await.

    `records`: the records of an append; None: another operation, which runs alone.
    """

    def __init__(
        self, epoch: int, records: Sequence[Record] | None, operation: QueueOperation
    ) -> None:
        self.epoch = epoch
        self.records = records
        self.operation = operation
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class AppendQueue:
    """Runs operations of one `Transactions` in the order of the calls.

    Appends that wait at the same time share a transaction, or one batch per partition. A caller
    that gives up does not stop an operation that has begun. `epoch` counts the claims, and is not
    the producer's epoch; appends of another epoch are fenced.
    """

    def __init__(
        self,
        transactions: Transactions,
        limits: WriteLimits,
        appended: AppendListener = lambda _: None,
    ) -> None:
        self.epoch = 0
        self._appended = appended
        self._transactions = transactions
        self._limits = limits
        self._queue: deque[_QueuedOperation] = deque()
        self._running: list[_QueuedOperation] = []
        self._runner: asyncio.Task[None] | None = None
        self._round = asyncio.Event()
        """Set when the operations that run now have ended and been settled; it wakes `decided`."""
        self._waiting_check: _QueuedOperation | None = None
        """Newest check, until it begins; later calls of `check` share it."""
        self._closed = False

    async def append(self, records: Sequence[Record], epoch: int) -> list[Position]:
        """Append records in one transaction or batch, which other callers' appends may share.

        Raises:
            Fenced: `epoch` is not the newest, or another writer has claimed the id.
            LogNotUsable: the brokers refuse a record.
            LogUnavailable: `append_timeout_ms` has passed; the outcome is unknown (`decided`).
        """
        positions: list[Position] = await self._run_in_turn(
            _QueuedOperation(epoch, records, self._no_operation)
        )
        return positions

    async def claim(self) -> int:
        """Claim the id after all operations that already wait; return the new epoch."""
        await self._run_in_turn(_QueuedOperation(self.epoch, None, self._claim))
        return self.epoch

    async def check(self, epoch: int) -> None:
        """Raise `LogError` unless a writer of this epoch could append now.

        Health requests call it often, so calls share a check that has not begun.
        """
        shared = self._waiting_check
        if shared is None or shared.epoch != epoch:
            shared = _QueuedOperation(epoch, None, partial(self._check, epoch))
            self._enqueue(shared)
            self._waiting_check = shared
        await self._in_time(asyncio.shield(shared.result))

    async def decided(self) -> None:
        """Wait until every transaction or batch whose caller has gone is decided.

        Raises:
            LogUnavailable: one is still undecided after `append_timeout_ms`.
        """
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                while self._runner is not None and self._in_doubt():
                    await self._round.wait()
        except TimeoutError:
            raise LogUnavailable(
                "the outcome of a transaction is not known yet: try again"
            ) from None

    async def close(self) -> None:
        """Refuse waiting operations, give running ones `close_timeout_ms`, close the producer."""
        self._closed = True
        while self._queue:
            _fail(self._queue.popleft(), LogUnavailable(CLOSED))
        runner = self._runner
        if runner is not None:
            await asyncio.wait([runner], timeout=self._limits.close_timeout_ms / 1000)
            runner.cancel()
            await asyncio.wait([runner])
        for queued in self._running:
            _fail(queued, LogUnavailable(CLOSED))
        await self._transactions.close()

    def _in_doubt(self) -> bool:
        """True if the caller of a running operation may have gone, or an operation was cut off."""
        if self._running:
            # The `result` of a running operation is done in two cases:
            # - The caller has gone. `_run_in_turn` has cancelled `result`.
            # - An append has its outcome, but other appends of its group are being repeated. No
            #   caller has gone then. `decided` waits all the same, until the group has ended.
            return any(queued.result.done() for queued in self._running)
        return self._transactions.in_doubt

    async def _run_in_turn(self, queued: _QueuedOperation) -> Any:
        self._enqueue(queued)
        # A time-out or a cancelled caller cancels `result`. So if the `result` of a waiting
        # operation is done, its caller has gone, and `_take_next` skips it.
        return await self._in_time(queued.result)

    def _enqueue(self, queued: _QueuedOperation) -> None:
        if self._closed:
            raise LogUnavailable(CLOSED)
        self._queue.append(queued)
        if self._runner is None:
            self._runner = asyncio.create_task(self._run_queue(), name="append queue")

    async def _in_time(self, result: "asyncio.Future[Any]") -> Any:
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                return await result
        except TimeoutError:
            raise self._transactions.too_late() from None

    async def _run_queue(self) -> None:
        """Run the waiting operations until none is left, and none is in doubt."""
        try:
            while self._queue or self._transactions.in_doubt:
                self._running = self._take_next()
                try:
                    await self._run(self._running)
                except Exception as defect:  # noqa: BLE001 - the callers get it
                    for queued in self._running:
                        _fail(queued, defect)
                self._running = []
                await self._settle()
                self._end_round()
        finally:
            self._runner = None
            self._end_round()

    def _end_round(self) -> None:
        self._round.set()
        self._round = asyncio.Event()

    def _take_next(self) -> list[_QueuedOperation]:
        """Take the next operation, or the appends that wait next; skip callers that have gone."""
        group: list[_QueuedOperation] = []
        records_left = self._limits.group_max_records
        while self._queue and records_left > 0:
            queued = self._queue[0]
            alone = queued.records is None
            if alone and group:
                break
            self._queue.popleft()
            if queued.result.done():
                continue
            group.append(queued)
            if alone:
                break
            records_left -= len(queued.records or ())
        return group

    async def _run(self, group: list[_QueuedOperation]) -> None:
        if group and group[0].records is None:
            await self._run_for_caller(group[0], group[0].operation())
            return
        valid = [queued for queued in group if self._is_newest(queued.epoch)]
        for queued in group:
            if queued not in valid:
                _fail(queued, self._fenced(queued.epoch))
        if len(valid) > 1:
            valid = await self._append_group(valid)
        for queued in valid:
            await self._run_for_caller(queued, self._transactions.append(queued.records or ()))

    async def _append_group(self, group: list[_QueuedOperation]) -> list[_QueuedOperation]:
        """Append a group at once; return the appends that must be repeated one by one.

        A broker does not tell whose record it refuses. So after a refusal, all appends of the
        transaction or batch must be repeated.
        """
        appends = [queued.records or () for queued in group]
        try:
            outcomes = await self._transactions.append_batches(appends)
            if outcomes is None:
                outcomes = await self._append_in_one(appends)
        except LogNotUsable:
            return group
        except LogError as failure:
            outcomes = [failure] * len(group)
        repeated = []
        for queued, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, LogNotUsable | NotAppended):
                repeated.append(queued)
            else:
                self._end(queued, outcome)
        return repeated

    async def _append_in_one(self, appends: Sequence[Sequence[Record]]) -> list[BatchOutcome]:
        positions = await self._transactions.append(list(chain.from_iterable(appends)))
        remaining = iter(positions)
        return [list(islice(remaining, len(records))) for records in appends]

    async def _settle(self) -> None:
        """Decide an interrupted transaction; retry without end while the brokers are away."""
        for pause in backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS):
            if not self._transactions.in_doubt:
                return
            try:
                await self._transactions.settle()
            except LogError:
                await asyncio.sleep(pause)

    async def _claim(self) -> None:
        await self._transactions.claim()
        self.epoch += 1

    async def _check(self, epoch: int) -> None:
        self._waiting_check = None
        if not self._is_newest(epoch):
            raise self._fenced(epoch)
        await self._transactions.check()

    def _is_newest(self, epoch: int) -> bool:
        return epoch == self.epoch > 0

    def _fenced(self, epoch: int) -> Fenced:
        return Fenced(
            f"this writer has epoch {epoch}, the newest is {self.epoch}: "
            "claim the log before you write as its only writer"
        )

    async def _run_for_caller(self, queued: _QueuedOperation, operation: Awaitable[Any]) -> None:
        """Run an operation and pass its result, or its error, to the caller."""
        try:
            self._end(queued, await operation)
        except LogError as failure:
            self._end(queued, failure)

    def _end(self, queued: _QueuedOperation, result: Any) -> None:
        """Pass a result, or a `LogError` as the failure, to the caller if it still waits."""
        if isinstance(result, LogError):
            _fail(queued, result)
            return
        if queued.records is not None:
            self._appended(result)
        if not queued.result.done():
            queued.result.set_result(result)

    async def _no_operation(self) -> None:
        """Placeholder operation of an append: `_run` appends its records instead."""


def _fail(queued: _QueuedOperation, failure: Exception) -> None:
    if not queued.result.done():
        queued.result.set_exception(failure)
