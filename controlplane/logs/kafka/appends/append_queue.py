"""Queue of the operations of one writer: one after the other, waiting appends together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from controlplane.clock import backoff
from controlplane.core.entry import Position
from controlplane.logs.kafka.appends.coordinator import RETRY_MAX_MS
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.limits import CLOSED, WriteLimits
from controlplane.logs.log import Fenced, LogError, LogNotUsable, LogUnavailable, Record

QueueOperation = Callable[[], Awaitable[Any]]


class _QueuedOperation:
    """An operation that waits for its turn, and the future of its caller.

    `records` are those of an append; None: another operation, which runs alone.
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

    Appends that wait at the same time share a transaction. A caller that gives up does not stop an
    operation that has begun. `epoch` grows with each claim; appends of another epoch are fenced.
    """

    def __init__(self, transactions: Transactions, limits: WriteLimits) -> None:
        self.epoch = 0
        self._transactions = transactions
        self._limits = limits
        self._queue: deque[_QueuedOperation] = deque()
        self._running: list[_QueuedOperation] = []
        self._worker: asyncio.Task[None] | None = None
        self._round = asyncio.Event()
        """Set after the operations of a round, and replaced."""
        self._closed = False

    async def append(self, records: Sequence[Record], epoch: int) -> list[Position]:
        """Append records in one transaction, perhaps together with those of other callers."""
        positions: list[Position] = await self._put(_QueuedOperation(epoch, records, self._nothing))
        return positions

    async def claim(self) -> int:
        """Claim the id after all operations that wait already; return the new epoch."""
        await self._put(_QueuedOperation(self.epoch, None, self._claim))
        return self.epoch

    async def check(self, epoch: int) -> None:
        """Raise `LogError` unless a writer of this epoch could append now."""

        async def check() -> None:
            if not self._is_newest(epoch):
                raise self._fenced(epoch)
            await self._transactions.check()

        await self._put(_QueuedOperation(epoch, None, check))

    async def decided(self) -> None:
        """Wait until no transaction of a caller that has gone is in doubt.

        Raises:
            LogUnavailable: that took too long.
        """
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                while self._worker is not None and self._in_doubt():
                    await self._round.wait()
        except TimeoutError:
            raise LogUnavailable(
                "the outcome of a transaction is not known yet: try again"
            ) from None

    async def close(self) -> None:
        """Refuse waiting operations, wait `close_timeout_ms` for the running one, close all."""
        self._closed = True
        while self._queue:
            _fail(self._queue.popleft(), LogUnavailable(CLOSED))
        worker = self._worker
        if worker is not None:
            await asyncio.wait([worker], timeout=self._limits.close_timeout_ms / 1000)
            worker.cancel()
            await asyncio.wait([worker])
        for waiting in self._running:
            _fail(waiting, LogUnavailable(CLOSED))
        await self._transactions.close()

    def _in_doubt(self) -> bool:
        """True if the caller of a running operation has gone, or if an operation was cut off."""
        if self._running:
            return any(waiting.result.done() for waiting in self._running)
        return self._transactions.in_doubt

    async def _put(self, waiting: _QueuedOperation) -> Any:
        if self._closed:
            raise LogUnavailable(CLOSED)
        self._queue.append(waiting)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="append queue")
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                return await waiting.result
        except TimeoutError:
            raise self._transactions.too_late() from None

    async def _work(self) -> None:
        """Run the waiting operations until none is left, and none is in doubt."""
        try:
            while self._queue or self._transactions.in_doubt:
                self._running = self._next()
                try:
                    await self._run(self._running)
                except Exception as defect:  # noqa: BLE001 - it belongs to the callers
                    for waiting in self._running:
                        _fail(waiting, defect)
                self._running = []
                await self._settle()
                self._end_round()
        finally:
            self._worker = None
            self._end_round()

    def _end_round(self) -> None:
        self._round.set()
        self._round = asyncio.Event()

    def _next(self) -> list[_QueuedOperation]:
        """Take the next operation, or the appends that wait next; skip callers that have gone."""
        taken: list[_QueuedOperation] = []
        room = self._limits.group_max_records
        while self._queue and room > 0:
            waiting = self._queue[0]
            alone = waiting.records is None
            if alone and taken:
                break
            self._queue.popleft()
            if waiting.result.done():
                continue
            taken.append(waiting)
            if alone:
                break
            room -= len(waiting.records or ())
        return taken

    async def _run(self, group: list[_QueuedOperation]) -> None:
        if group and group[0].records is None:
            await _answered(group[0], group[0].operation())
            return
        valid = [waiting for waiting in group if self._is_newest(waiting.epoch)]
        for waiting in group:
            if waiting not in valid:
                _fail(waiting, self._fenced(waiting.epoch))
        if len(valid) > 1:
            valid = await self._together(valid)
        for waiting in valid:
            await _answered(waiting, self._transactions.append(waiting.records or ()))

    async def _together(self, group: list[_QueuedOperation]) -> list[_QueuedOperation]:
        """Append a group in one transaction; return it if a record was refused."""
        records = [record for waiting in group for record in waiting.records or ()]
        try:
            positions = await self._transactions.append(records)
        except LogNotUsable:
            return group
        except LogError as failure:
            for waiting in group:
                _fail(waiting, failure)
            return []
        first = 0
        for waiting in group:
            count = len(waiting.records or ())
            if not waiting.result.done():
                waiting.result.set_result(positions[first : first + count])
            first += count
        return []

    async def _settle(self) -> None:
        """Decide an interrupted transaction, however long its brokers are away."""
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

    def _is_newest(self, epoch: int) -> bool:
        return epoch == self.epoch > 0

    def _fenced(self, epoch: int) -> Fenced:
        return Fenced(
            f"this writer has epoch {epoch}, the newest is {self.epoch}: "
            "claim the log before you write as its only writer"
        )

    async def _nothing(self) -> None:
        """Placeholder for the operation of an append, which runs together with others."""


async def _answered(waiting: _QueuedOperation, operation: Awaitable[Any]) -> None:
    """Run an operation and pass its result, or its error, to the caller."""
    try:
        result = await operation
    except LogError as failure:
        _fail(waiting, failure)
    else:
        if not waiting.result.done():
            waiting.result.set_result(result)


def _fail(waiting: _QueuedOperation, failure: Exception) -> None:
    if not waiting.result.done():
        waiting.result.set_exception(failure)
