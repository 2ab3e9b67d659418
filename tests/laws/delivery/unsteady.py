"""A log and a producer with failing, late or reordered acknowledgements."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from controlplane.connect.records import RecordMetadata
from controlplane.core.entry import Position
from controlplane.core.plan import Draft
from controlplane.logs.log import LogNotUsable, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics.clients import ProducerRecord
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.data_topics.topic_rules import WantedTopic


class AppendFate(NamedTuple):
    """Outcome of one append to the log."""

    kind: str
    """`done`; `away`: nothing is appended; `lost`: appended, but the answer is lost. `refused`:
    nothing is appended, and a repetition is pointless."""
    delay_s: float = 0.0


class UnsteadyLog(MemoryLog):
    """Log with a list of fates for its appends."""

    def __init__(
        self, fates: Sequence[AppendFate], appended: Callable[[Sequence[Record]], None]
    ) -> None:
        super().__init__()
        self._fates: Iterator[AppendFate] = cycle(fates or [AppendFate("done")])
        self._appended = appended
        """Called with each batch just after it is appended."""
        self.steady = False
        """True: every append works at once."""
        self.refusable: frozenset[str] = frozenset()
        """Topics whose appends may be refused; elsewhere a refusal is an outage."""

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, late or not at all."""
        fate = AppendFate("done") if self.steady else next(self._fates)
        await asyncio.sleep(fate.delay_s)
        if fate.kind == "refused" and self.refusable >= {record.topic for record in records}:
            raise LogNotUsable("refused")
        if fate.kind in {"away", "refused"}:
            raise LogUnavailable("away")
        positions = await super().append(records, epoch)
        self._appended(records)
        if fate.kind == "lost":
            raise LogUnavailable("the answer was lost")
        return positions


class UnsteadyProducer:
    """Producer with late acknowledgements, each after its own delay, or without them."""

    def __init__(
        self,
        producer: LogProducer,
        delays_s: Sequence[float],
        acknowledged: Callable[[ProducerRecord], None],
        silent: Callable[[ProducerRecord], bool],
    ) -> None:
        self._producer = producer
        self._delays = cycle(delays_s or [0.0])
        self._acknowledged = acknowledged
        """Called with each record when its acknowledgement arrives."""
        self._silent = silent
        """True for a record that is never acknowledged."""

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> Sequence["asyncio.Future[RecordMetadata]"]:
        """Send; return acknowledgements that come late."""
        futures = await self._producer.send(records)
        return [self._late(record, future) for record, future in zip(records, futures, strict=True)]

    def _late(
        self, record: ProducerRecord, future: "asyncio.Future[RecordMetadata]"
    ) -> "asyncio.Future[RecordMetadata]":
        loop = asyncio.get_running_loop()
        late: asyncio.Future[RecordMetadata] = loop.create_future()
        delay_s = next(self._delays)

        def arrive() -> None:
            if late.done():
                return
            failure = future.exception()
            if failure is not None:
                late.set_exception(failure)
            else:
                self._acknowledged(record)
                late.set_result(future.result())

        def settled(_: Any) -> None:
            if not future.cancelled() and not self._silent(record):
                loop.call_later(delay_s, arrive)

        future.add_done_callback(settled)
        return late

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a missing topic without a fault."""
        await self._producer.ensure_topic(topic)

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one transaction."""
        return await self._producer.transact(records, offsets)

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets: only the log can fail or delay this append."""
        await self._producer.write_offsets(offsets)

    async def close(self) -> None:
        """Close the underlying producer."""
        await self._producer.close()
