"""Time until a cluster's state is known, compared with a Java worker on the same real topics.

    python -m benchmarks.boot [--records 1000000] [--rounds 3] [--quick]

A broker of Kafka 3.9.1 holds source offsets (200,000 keys in 25 partitions) and 500 stopped
connectors. The clock starts with the process.

- Connect's distributed worker runs with the options of its start script. Two times are taken: the
  topics are read, and `GET /connectors/{c}/offsets` has its first answer.
- A process that embeds the library (`processes/startup_probe.py`), until the same topics
  are folded.
- `controlplane inspect` of the same connector with its offsets, until the process has ended.

The contestants take turns; the best value of each figure counts.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import httpx
from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.table import Table

from benchmarks.inputs.sample_logs import CONFIG, OFFSETS, PARTITIONS, STATUS, RecordPair, offset
from benchmarks.processes.programs import PATIENCE_S, SCRIPT_JVM, started, until
from benchmarks.processes.startup_probe import KNOWN
from controlplane.core.topics.partitioner import partition_of
from tests.kafka.process import ProgramNotReady
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import Broker, KafkaWorker

RELEASE = "3.9.1"
KEYS = 200_000
GOAL = 10
"""Required ratio of a worker's time to ours."""

LOG_WHEN_READ = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.util.KafkaBasedLog=info"
"""Option of a JVM with which a worker logs `READ_LINE`."""

READ_LINE = f"Started KafkaBasedLog for topic {CONFIG}"
"""A worker logs this when it has read the last of its topics."""

CONNECTOR = "connector-0007"
OFFSETS_PATH = f"/connectors/{CONNECTOR}/offsets"


class StartupTimes(NamedTuple):
    """Seconds since the start of the process."""

    read: float
    answered: float


class TopicReader(NamedTuple):
    """A program that reads the topics of a broker."""

    name: str
    boot: Callable[[Broker], Awaitable[StartupTimes]]


async def ours(broker: Broker) -> StartupTimes:
    """Times of an embedding program until it knows the state, and of `controlplane inspect`."""
    probe = await probe_run(broker)
    return StartupTimes(probe.seconds, await _inspect_seconds(broker))


class ProbeRun(NamedTuple):
    """Seconds until `startup_probe` knows the state, and its peak memory."""

    seconds: float
    peak_kib: int


async def probe_run(broker: Broker) -> ProbeRun:
    """Run `startup_probe`: a program that embeds the library and loads the topics."""
    began = time.perf_counter()
    process = await started("benchmarks.processes.startup_probe", broker.bootstrap, RELEASE)
    assert process.stdout is not None
    line = await process.stdout.readline()
    took = time.perf_counter() - began
    peak_kib, _ = await process.communicate()
    if process.returncode or line.decode() != f"{KNOWN} {CONNECTORS}\n":
        raise ProgramNotReady("startup_probe did not know the connectors")
    return ProbeRun(took, int(peak_kib))


async def _inspect_seconds(broker: Broker) -> float:
    began = time.perf_counter()
    options = ("--release", RELEASE, "--connector", CONNECTOR)
    process = await started("controlplane", "inspect", f"kafka://{broker.bootstrap}", *options)
    printed, _ = await process.communicate()
    took = time.perf_counter() - began
    if process.returncode or CONNECTOR.encode() not in printed:
        raise ProgramNotReady("controlplane inspect did not print the connector")
    return took


async def java(broker: Broker) -> StartupTimes:
    """Times of Connect's distributed worker until its topics are read and it has answered."""
    async with launched_worker(broker, SCRIPT_JVM) as worker:
        began = time.perf_counter()
        await until(lambda: _printed(worker.log, READ_LINE), "the worker has read its topics")
        read = time.perf_counter() - began
        await answered(worker.url)
        return StartupTimes(read, time.perf_counter() - began)


@asynccontextmanager
async def launched_worker(broker: Broker, jvm: Sequence[str]) -> AsyncIterator[KafkaWorker]:
    """Yield a worker at the moment when its process starts."""
    options = (*jvm, LOG_WHEN_READ)
    worker = KafkaWorker(RELEASE, broker, jvm=options, plugin__discovery="hybrid_warn")
    worker.launch()
    try:
        yield worker
    finally:
        await worker.rest.aclose()
        await worker.kill9()


CONTESTANTS = (TopicReader("Java worker", java), TopicReader("controlplane", ours))


async def _printed(log: Path, text: str) -> bool:
    return text in await asyncio.to_thread(log.read_text, errors="replace")


async def answered(url: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a successful response about the offsets of a connector."""
    async with httpx.AsyncClient(base_url=url) as client:

        async def good() -> bool:
            try:
                return (await client.get(OFFSETS_PATH)).is_success
            except httpx.TransportError:
                return False

        await until(good, f"{url}{OFFSETS_PATH} is answered", patience_s)


async def measure(records: int, rounds: int, folder: Path) -> list[StartupTimes]:
    """Best times of each contestant; they take turns."""
    async with Broker(RELEASE, folder) as broker:
        await fill(broker, records, KEYS)
        taken = [
            [await contestant.boot(broker) for contestant in CONTESTANTS] for _ in range(rounds)
        ]
    return [
        StartupTimes(min(f.read for f in figures), min(f.answered for f in figures))
        for figures in zip(*taken, strict=True)
    ]


def table(figures: Sequence[StartupTimes], records: int) -> Table:
    """Figures, with the ratio to the worker."""
    shown = Table("", title=f"{records:,} offsets on Kafka {RELEASE}; to reach: {GOAL}×")
    theirs, our = figures
    for contestant in (program.name for program in CONTESTANTS):
        shown.add_column(contestant, justify="right")
    shown.add_column("ratio", justify="right")
    for name, quantity in zip(
        StartupTimes._fields, ("topics read and folded", "offsets answered"), strict=True
    ):
        seconds = [getattr(figure, name) for figure in figures]
        ratio = getattr(theirs, name) / getattr(our, name)
        shown.add_row(quantity, *(f"{value:.2f} s" for value in seconds), f"{ratio:.1f}×")
    return shown


# --- the cluster ---------------------------------------------------------------------------------

CONNECTORS = 500
"""Number of connectors: `sample_logs.offset` makes offsets for this number. All are stopped, so a
worker has nothing to start."""

_PROPERTIES = (
    b'"connector.class":"org.apache.kafka.connect.file.FileStreamSourceConnector",'
    b'"file":"f","topic":"t","tasks.max":"1"'
)


async def fill(broker: Broker, offsets: int, keys: int) -> None:
    """Create and fill the three topics as Connect does."""
    for topic, partitions in PARTITIONS.items():
        await create_topic(broker, topic, partitions)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20)
    await producer.start()
    chance = random.Random(1)
    await _write(producer, CONFIG, _configs())
    await _write(producer, STATUS, _statuses())
    await _write(
        producer, OFFSETS, (offset(chance, chance.randrange(keys)) for _ in range(offsets))
    )
    await producer.stop()


def _configs() -> Iterator[RecordPair]:
    for number in range(CONNECTORS):
        name = b"connector-%04d" % number
        yield b"connector-" + name, b'{"properties":{%s,"name":"%s"}}' % (_PROPERTIES, name)
        stopped = b'{"state":"PAUSED","state.v2":"STOPPED"}'
        yield b"target-state-" + name, stopped


def _statuses() -> Iterator[RecordPair]:
    for number in range(CONNECTORS):
        stopped = b'{"state":"STOPPED","trace":null,"worker_id":"w:8083","generation":1}'
        yield b"status-connector-connector-%04d" % number, stopped


async def _write(producer: AIOKafkaProducer, topic: str, pairs: Iterator[RecordPair]) -> None:
    """Write in producer-sized batches, to the partitions that Java would choose."""
    place = cache(partition_of)
    batches = {number: producer.create_batch() for number in range(PARTITIONS[topic])}
    for key, value in pairs:
        partition = place(key, PARTITIONS[topic])
        while batches[partition].append(timestamp=None, key=key, value=value) is None:
            await producer.send_batch(batches[partition], topic, partition=partition)
            batches[partition] = producer.create_batch()
    for partition, batch in batches.items():
        if batch.record_count():
            await producer.send_batch(batch, topic, partition=partition)
    await producer.flush()


# --- command --------------------------------------------------------------------------------------


@click.command()
@click.option("--records", default=1_000_000, show_default=True, help="Source offsets.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="One small round, to check that it runs.")
def main(records: int, rounds: int, quick: bool) -> None:
    """Measure every contestant on a new broker, and print the table."""
    if quick:
        records, rounds = 20_000, 1
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(records, rounds, Path(folder)))
    Console().print(table(figures, records))


if __name__ == "__main__":
    main()
