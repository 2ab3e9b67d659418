"""Appends of single record batches under a claimed identity: atomic and fenced, by one request."""

import math
import time
from collections.abc import Mapping, Sequence

from aiokafka.errors import BrokerResponseError, ProducerFenced

from controlplane.core.entry import Position, TopicPartition
from controlplane.logs.kafka.appends.producer import (
    BatchListener,
    KafkaProducer,
    ProducerOwner,
    SendFailed,
)
from controlplane.logs.kafka.appends.record_batches import RecordBatch, record_batches
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.protocol.errors import append_error, is_refusal
from controlplane.logs.log import Fenced, LogError, LogUnavailable, Record

BatchOutcome = list[Position] | LogError
"""Positions of an append's records, or its failure: `LogNotUsable` (refused), `Fenced`,
`NotAppended` or `Unknown`."""


EPOCH_MAX = 32_000
"""Last epoch in which appends may be batches.

After epoch 32766, a claim gets a new producer id. A partition compares epochs of one producer id
only. So after a marker with the new id, it would still accept a late batch with the old id. Only a
marker with the old id and a later epoch makes the partition refuse this batch.

After this limit, hundreds of claims still get the old id, and no append is a batch any more. The
markers of each such claim make the partitions refuse all earlier batches. A claim that is cut off
may use up its epoch without markers. One complete claim of the hundreds is enough."""


class NotAppended(LogUnavailable):
    """A batch or transaction is not in the log, and will not be: it may be sent again."""


class Unknown(LogUnavailable):
    """A batch may be in the log, or may arrive later.

    Its partition refuses a later arrival once it has a marker of the next epoch.
    """

    def __init__(self, message: str, start_offset: int) -> None:
        super().__init__(message)
        self.start_offset = start_offset
        """Lower bound of the batch's offsets; records of earlier appends have lower offsets."""


class FencedBatches(ProducerOwner):
    """Appends of single record batches under the identity of a transactional producer.

    A broker appends a batch whole or not at all, so a batch needs no transaction. A coordinator
    compares the epochs of transactions. A partition compares the epoch of a batch with the newest
    one that it has seen. So batches go only to *established* partitions: they have a record or a
    marker of the present epoch. Before a claim returns, it writes its marker to all partitions of
    `topics`, which establishes them. All writers of the identity have the same `topics`, and
    send batches to no others. So once a claim has returned, the brokers refuse every batch of an
    older writer.

    Partitions forget the epoch of a writer some time after its last marker or record. So the last
    transaction, in which a coordinator has confirmed the epoch, may not be older than
    `confirmation_max_age_ms`. The newest record of a batch may not be older, either. A partition
    counts the age from the timestamps of records.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: WriteLimits,
        headers_in: frozenset[str] | None = None,
        topics: frozenset[str] = frozenset(),
        appended: BatchListener | None = None,
    ) -> None:
        """Without `topics` no partition is ever established, so no batch is accepted.

        `appended`: see `KafkaProducer`.
        """
        super().__init__()
        self._appended = appended
        self._cluster = cluster
        self._limits = limits
        self.headers_in = headers_in
        self._topics = topics
        self._established: dict[TopicPartition, int] = {}
        """Established partitions, each with a lower bound of its next batch's offsets."""
        self._confirmed_ms = -math.inf
        """Time of day at which a coordinator last confirmed the epoch. The clock of the event loop
        stands still while a host is suspended."""
        self.unknown: set[TopicPartition] = set()
        """Partitions with a batch that is under way or has an unknown outcome. Once such a
        partition is established again, it refuses a late arrival of the batch."""

    async def missing_partitions(self) -> set[TopicPartition]:
        """Partitions that exist and are not established."""
        if not self._topics:
            return set()
        layout = await self._cluster.layout(self._topics)
        leaders = layout.leaders.items()
        existing = {(topic, number) for topic, numbers in leaders for number in numbers}
        return existing - self._established.keys()

    def establish(self, ends: Mapping[TopicPartition, int]) -> None:
        """Mark partitions as established: a transaction of the present epoch has ended in them.

        `ends`: an offset of each partition, after all records that this writer has appended.
        """
        self._established |= {place: end for place, end in ends.items() if place[0] in self._topics}
        self._confirmed_ms = time.time() * 1_000

    def accept(self, appends: Sequence[Sequence[Record]], epoch: int) -> bool:
        """True if these appends may be batches (see the class).

        Each must go to one established partition, and its newest record may not be too old. The
        epoch must be confirmed.
        """
        now_ms = time.time() * 1_000
        oldest_ms = now_ms - self._limits.confirmation_max_age_ms
        confirmed = epoch <= EPOCH_MAX and oldest_ms < self._confirmed_ms <= now_ms
        return confirmed and all(
            len(places := {(record.topic, record.partition) for record in records}) == 1
            and places <= self._established.keys()
            and max(record.timestamp for record in records) > oldest_ms
            for records in appends
        )

    async def append(
        self, appends: Sequence[Sequence[Record]], identified: KafkaProducer
    ) -> list[BatchOutcome] | None:
        """Append the records of each append; return their outcomes.

        None: a partition would need several batches, and nothing was written. `identified` is the
        transactional producer whose identity the batches carry. It must not send during the call.
        If the call is cancelled, `drop` must follow.
        """
        producer = await self._started(identified)
        records = [record for append in appends for record in append]
        batches = record_batches(records, producer.new_builder, self.headers_in)
        places = {batch.place for batch in batches}
        if len(batches) != len(places):
            return None
        self.unknown |= places
        answers = await producer.send_each(batches)
        by_place = {
            batch.place: _outcome(batch, answer, self._established[batch.place])
            for batch, answer in zip(batches, answers, strict=True)
        }
        self._established |= {
            place: outcome[-1].offset + 1
            for place, outcome in by_place.items()
            if isinstance(outcome, list)
        }
        self.unknown -= {
            place for place, outcome in by_place.items() if not isinstance(outcome, Unknown)
        }
        ends: dict[TopicPartition, int] = {}
        outcomes: list[BatchOutcome] = []
        for append in appends:
            place = (append[0].topic, append[0].partition)
            outcome, first = by_place[place], ends.get(place, 0)
            ends[place] = first + len(append)
            if isinstance(outcome, list):
                outcome = outcome[first : ends[place]]
            outcomes.append(outcome)
        return outcomes

    async def drop(self) -> None:
        """Drop the producer. No partition is established any more."""
        self._established.clear()
        await self._drop_producer()

    async def _started(self, identified: KafkaProducer) -> KafkaProducer:
        if self._producer is None:
            producer = KafkaProducer(self._cluster, self._limits, appended=self._appended)
            await producer.start_beside(identified)
            self._producer = producer
        return self._producer


def _outcome(batch: RecordBatch, answer: int | SendFailed, start_offset: int) -> BatchOutcome:
    if isinstance(answer, int):
        return [Position(*batch.place, answer + number) for number in range(len(batch.indexes))]
    topic, partition = batch.place
    text = f"topic {topic}, partition {partition}: not acknowledged ({answer.cause!r})"
    if answer.resent:
        return Unknown(text, start_offset)
    if isinstance(answer.cause, ProducerFenced):
        return Fenced(f"topic {topic}, partition {partition}: another writer has claimed it")
    if is_refusal(answer.cause):
        return append_error(topic, answer.cause)
    if isinstance(answer.cause, BrokerResponseError):
        return NotAppended(text)
    return Unknown(text, start_offset)
