"""Transactions and idempotent batches on a real broker, compared with a plain aiokafka program.

A broker of Kafka 3.9.1 and the client share this machine. Every record is acknowledged
(`acks=all`). After `KafkaLog.claim`, every append is committed in a transaction. Without a claim,
an append is a batch of an idempotent producer. The peer is the obvious program: `send` for each
record, and a transaction per batch. The contestants take turns; the median round of each counts.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaProducer
from rich.table import Table

from benchmarks.append import records
from benchmarks.inputs.sample_logs import OFFSETS
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.log import Record
from tests.kafka.real_kafka import Broker

RELEASE = "3.9.1"
APPENDERS = 16
GOAL = 50_000
"""Records per second that batches must reach."""

WARM_UP_S = 1.0

Batches = Sequence[Sequence[Record]]


class BrokerAppends(NamedTuple):
    """Result of one contestant in one round."""

    rate: float
    """Acknowledged records per second."""
    append_ms: float
    """Median time of one append in milliseconds."""


class BrokerAppender(NamedTuple):
    """A way to append to a broker: called with its address, batches and a time in seconds."""

    name: str
    batch_records: int
    append: Callable[[str, Batches, float], Awaitable[BrokerAppends]]


def log_of(
    *, appenders: int, claimed: bool
) -> Callable[[str, Batches, float], Awaitable[BrokerAppends]]:
    """Concurrent appenders of a `KafkaLog`, with or without an epoch."""

    async def run(bootstrap: str, batches: Batches, seconds: float) -> BrokerAppends:
        log = await KafkaLog.connect(bootstrap, KafkaLogSettings(transactional_id="benchmark"))
        try:
            epoch = await log.claim() if claimed else None
            return await _timed(lambda batch: log.append(batch, epoch), appenders, batches, seconds)
        finally:
            await log.close()

    return run


async def plain(bootstrap: str, batches: Batches, seconds: float) -> BrokerAppends:
    """The obvious program: a transaction per batch, `send` for each record."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="plain")

    async def append(batch: Sequence[Record]) -> None:
        async with producer.transaction():
            sent = [
                await producer.send(
                    record.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in batch
            ]
            await asyncio.gather(*sent)

    async with producer:
        return await _timed(append, 1, batches, seconds)


async def _timed(
    append: Callable[[Sequence[Record]], Awaitable[object]],
    appenders: int,
    batches: Batches,
    seconds: float,
) -> BrokerAppends:
    source = cycle(batches)
    times: list[float] = []
    written = 0

    async def run(until: float) -> None:
        nonlocal written
        while (started := time.perf_counter()) < until:
            batch = next(source)
            await append(batch)
            times.append(time.perf_counter() - started)
            written += len(batch)

    for duration in (min(WARM_UP_S, seconds), seconds):
        times.clear()
        written, started = 0, time.perf_counter()
        await asyncio.gather(*(run(started + duration) for _ in range(appenders)))
        took = time.perf_counter() - started
    return BrokerAppends(written / took, statistics.median(times) * 1_000)


CONTESTANTS = (
    BrokerAppender("aiokafka, a transaction per record", 1, plain),
    BrokerAppender("aiokafka, a transaction per 1,000 records", 1_000, plain),
    BrokerAppender("transactions of 1 record", 1, log_of(appenders=1, claimed=True)),
    BrokerAppender("idempotent appends of 1 record", 1, log_of(appenders=1, claimed=False)),
    BrokerAppender(
        f"{APPENDERS} appenders, 1 record each", 1, log_of(appenders=APPENDERS, claimed=True)
    ),
    BrokerAppender(
        f"{APPENDERS} appenders, 100 records each", 100, log_of(appenders=APPENDERS, claimed=True)
    ),
    BrokerAppender("one appender, 1,000 records", 1_000, log_of(appenders=1, claimed=True)),
    BrokerAppender(
        f"{APPENDERS} appenders, 1,000 records each",
        1_000,
        log_of(appenders=APPENDERS, claimed=True),
    ),
)


async def measure(folder: Path, seconds: float, rounds: int) -> list[BrokerAppends]:
    """Median round of each contestant, by its rate."""
    figures: list[list[BrokerAppends]] = [[] for _ in CONTESTANTS]
    async with Broker(RELEASE, folder) as broker:
        log = await KafkaLog.connect(broker.bootstrap, KafkaLogSettings(transactional_id="topics"))
        await log.create_topic(OFFSETS, 1)
        await log.close()
        for _ in range(rounds):
            for appends, contestant in zip(figures, CONTESTANTS, strict=True):
                source = records()
                batches = [
                    list(islice(source, contestant.batch_records))
                    for _ in range(max(100, 20_000 // contestant.batch_records))
                ]
                appends.append(await contestant.append(broker.bootstrap, batches, seconds))
    return [
        sorted(appends, key=lambda figure: figure.rate)[len(appends) // 2] for appends in figures
    ]


def table(figures: Sequence[BrokerAppends]) -> Table:
    """Table with one row per contestant."""
    shown = Table("appends to a broker", title=f"goal: {GOAL:,} records/s in batches")
    for column in ("records/s", "ms per append (p50)"):
        shown.add_column(column, justify="right")
    for contestant, figure in zip(CONTESTANTS, figures, strict=True):
        shown.add_row(contestant.name, f"{figure.rate:,.0f}", f"{figure.append_ms:.1f}")
    return shown
