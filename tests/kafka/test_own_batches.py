"""Tails of a log that is written meanwhile: own batches come without a fetch, and unchanged."""

import asyncio
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from tests.kafka.claimed_logs import committed, opened, put
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.test_tail import following

pytestmark = [pytest.mark.java, pytest.mark.broker]

AHEAD_MS = 1_800_000
"""Time by which the clock of the writer is ahead of the broker's."""

HEADERS = (("user", b"alice"),)


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("keeps_headers", [True, False])
async def test_a_tail_returns_the_records_that_a_read_returns(
    broker: Broker, new_topic: NewTopic, times: str, keeps_headers: bool
) -> None:
    """Batches, transactions, idempotent appends and other writers' records: each comes once."""
    topic = await new_topic(2, message__timestamp__type=times)
    options: Any = {
        "batch_topics": frozenset({topic}),
        "headers_in": None if keeps_headers else frozenset(),
    }
    async with opened(broker.bootstrap, **options) as log, writer(broker) as other:
        epoch = await log.claim()
        start = await log.ends([topic])
        async with following(log, [topic], start) as tail:
            entries = []
            for number in range(3):
                record = put(topic, f"own-{number}")
                record = msgspec.structs.replace(
                    record, timestamp=record.timestamp + AHEAD_MS, headers=HEADERS
                )
                await log.append([record, record], epoch)
                entries += await tail.take(2)
                await log.append([record])
                entries += await tail.take(1)
                await other.put(topic, 0, b"other", b"v")
                await log.append([record], epoch)
                entries += await tail.take(2)
                await log.append([record, put(topic, "both", 1)], epoch)
                entries += await tail.take(2)
        stored = await committed(log, topic)
    by_place = attrgetter("position")
    assert sorted(entries, key=by_place) == sorted(stored, key=by_place)


async def test_concurrent_batches_are_all_sent(broker: Broker, topic: str) -> None:
    """A batch is sent at once, those that come meanwhile after it; a cancelled one delays none."""
    async with opened(broker.bootstrap) as log:
        start = await log.ends([topic])
        async with following(log, [topic], start) as tail:
            records = [put(topic, f"{number}", number % 2) for number in range(10)]
            cancelled, *appends = [asyncio.create_task(log.append([record])) for record in records]
            await asyncio.sleep(0)
            cancelled.cancel()
            written = await asyncio.gather(*appends)
            assert len({position for (position,) in written}) == len(appends)
            ends = await log.ends([topic])
            entries = await tail.take(sum(ends[topic]))
        assert {entry.position for entry in entries} >= {position for (position,) in written}
