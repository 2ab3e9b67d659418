"""A worker on Kafka whose topics another worker has claimed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar

import msgspec
import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.codec import decode_status
from controlplane.core.commands import CreateConnector
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log_factory import open_kafka_log
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from controlplane.worker.data_topics.kafka_producer import TransactionalTaskProducer
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST
from tests.kafka.own_service import own_settings
from tests.kafka.producer import NewTopic, reading, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import until as until_true
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    config_of,
    offsets,
    until,
    until_state,
)

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

MORE_RECORDS = 20
"""Records that the newer worker writes; the older one must write none meanwhile."""


NEVER_MS = 3_600_000
NEVER_ASKS = msgspec.structs.replace(QUICK, claim_probe_ms=NEVER_MS)
NEVER_COMMITS = msgspec.structs.replace(NEVER_ASKS, offset_flush_interval_ms=NEVER_MS)


exactly_once = partial(worker_on, limits=NEVER_ASKS, exactly__once__source__support="enabled")
"""Open a worker with exactly-once support that never probes for a newer process."""


class NumberedSource(Source):
    """Writes the number of its run repeatedly."""

    config = (key("topic"),)
    ended: ClassVar[list[bool]] = []
    """True for each run that has ended."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield records that have the number of this run."""
        number = len(self.ended)
        self.ended.append(False)
        try:
            for count in range(1_000_000):
                yield task.record(str(number), {"run": number}, {"count": count})
                yield task.idle(0.02)
        finally:
            self.ended[number] = True


async def values(broker: Broker, topic: str) -> list[str]:
    """Values of a topic of one partition."""
    async with reading(broker.bootstrap) as reader:
        entries = [entry async for batch in reader.read([topic]) for entry in batch.entries()]
    return [(entry.value or b"").decode() for entry in entries]


async def status_writers(broker: Broker, topics: Topics) -> list[tuple[str, int]]:
    """State and generation of each status of a task, in order."""
    async with reading(broker.bootstrap) as reader:
        entries = [
            entry async for batch in reader.read([topics.status]) for entry in batch.entries()
        ]
    records = [decode_status(entry.key, entry.value, Profile.of("kip")) for entry in entries]
    statuses = [getattr(record, "status", None) for record in records]
    return [(status.state.value, status.generation) for status in statuses if status is not None]


@asynccontextmanager
async def rival_log(broker: Broker, topics: Topics) -> AsyncIterator[KafkaLog]:
    """Log of another process with the same topics; its claim leaves no record."""
    settings = Configuration(
        flag_values((key, key, text) for key, text in own_settings(topics).items())
    )
    log = await open_kafka_log(f"kafka://{broker.bootstrap}", settings)
    try:
        yield log
    finally:
        await log.close()


async def test_tasks_of_the_old_worker_end_without_a_status(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """Without a probe, the old worker learns of the new one from statuses, and writes none."""
    NumberedSource.ended.clear()
    topic = await new_topic(1, cleanup__policy="delete")
    async with worker_on(broker, own_topics, NumberedSource, limits=NEVER_COMMITS) as older:
        config = config_of(NumberedSource, topic=topic)
        await older.plane.execute(CreateConnector("s", config))
        await until_state(older, "s", "RUNNING", "RUNNING")
        async with worker_on(broker, own_topics, NumberedSource) as newer:
            await until_state(newer, "s", "RUNNING", "RUNNING")
            await until(lambda: NumberedSource.ended == [True, False])
            assert older.plane.failure is not None
            assert newer.plane.failure is None
            end = len(await values(broker, topic))

            async def later() -> list[str]:
                later_values = (await values(broker, topic))[end:]
                return later_values if len(later_values) >= MORE_RECORDS else []

            assert {*await until_true(later)} == {"1"}
            written = await status_writers(broker, own_topics)
            assert {state for state, _ in written} == {"RUNNING"}
            assert written[-1][1] > written[0][1]


async def test_no_offset_follows_a_claim(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """A claim without a worker writes no status; the next commit of offsets is refused instead."""
    NumberedSource.ended.clear()
    topic = await new_topic(1, cleanup__policy="delete")
    async with worker_on(broker, own_topics, NumberedSource, limits=NEVER_ASKS) as older:
        await older.plane.execute(CreateConnector("s", config_of(NumberedSource, topic=topic)))
        await until_state(older, "s", "RUNNING", "RUNNING")
        await until(lambda: offsets(older, "s"))
        async with rival_log(broker, own_topics) as other:
            await other.claim()
            ends = await other.ends([own_topics.offsets])
            await until(lambda: NumberedSource.ended == [True] and older.plane.failure)
            assert await other.ends([own_topics.offsets]) == ends


# --- exactly once ---------------------------------------------------------------------------------


async def test_an_older_process_fences_no_newer_task(
    broker: Broker, own_topics: Topics, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process hangs before it claims a task's id, and wakes up after the claim of a newer one.

    Its task fails without a start, and the newer task can still commit.
    """
    NumberedSource.ended.clear()
    topic = await new_topic(1, cleanup__policy="delete")
    hangs, go_on = asyncio.Event(), asyncio.Event()
    claim = TransactionalTaskProducer.claim

    async def late_claim(producer: TransactionalTaskProducer) -> None:
        hangs.set()
        await go_on.wait()
        await claim(producer)

    monkeypatch.setattr(TransactionalTaskProducer, "claim", late_claim)
    notices = RecordedNotices()
    async with (
        rival_log(broker, own_topics) as rival,
        exactly_once(broker, own_topics, NumberedSource, notices=notices) as older,
    ):
        await older.plane.execute(CreateConnector("s", config_of(NumberedSource, topic=topic)))
        await until(hangs.is_set)
        await rival.claim()
        async with writer(broker, transactional_id=f"{own_topics.config}-s-0") as newer:
            await newer.producer.begin_transaction()
            await newer.put(topic, 0, None, b"newer")
            go_on.set()
            await until(lambda: older.plane.failure)
            await newer.end(commit=True)
        assert NumberedSource.ended == []
        assert [failed["task"] for failed in notices.of("task_failed")] == [0]
    assert await values(broker, topic) == ["newer"]


async def test_a_claim_that_comes_too_late_starts_no_task(
    broker: Broker, own_topics: Topics, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer process claims the log while the older one claims a task's id: the task fails."""
    NumberedSource.ended.clear()
    topic = await new_topic(1, cleanup__policy="delete")
    claim = Transactions.claim
    async with rival_log(broker, own_topics) as rival:

        async def overtaken_claim(transactions: Transactions) -> None:
            await claim(transactions)
            if transactions._id == f"{own_topics.config}-s-0":
                await rival.claim()

        monkeypatch.setattr(Transactions, "claim", overtaken_claim)
        notices = RecordedNotices()
        async with exactly_once(broker, own_topics, NumberedSource, notices=notices) as older:
            await older.plane.execute(CreateConnector("s", config_of(NumberedSource, topic=topic)))
            await until(lambda: older.plane.failure)
            assert NumberedSource.ended == []
            assert [failed["task"] for failed in notices.of("task_failed")] == [0]
    assert await values(broker, topic) == []
