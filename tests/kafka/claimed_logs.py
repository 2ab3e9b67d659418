"""Logs of a real broker that tests claim and write, and the records that they write."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.kafka.appends.producer import KafkaProducer, SendFailed
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.log import Record
from controlplane.settings.security import KafkaSecurity
from tests.logs.reading_contract import entries_of

T0 = time.time_ns() // 1_000_000
"""Time of the records. Markers have the present time. Records of long ago would lie in a segment of
their own, which is compacted at once."""
ID = "connect-cluster-writes"
"""The transactional id of all these logs: a claim of one fences the others."""

Send = Callable[..., Awaitable[list[int | SendFailed]]]
"""A call of `KafkaProducer.send_each`."""


@asynccontextmanager
async def opened(
    address: str, security: KafkaSecurity | None = None, **settings: Any
) -> AsyncIterator[KafkaLog]:
    """A log that may be written to, closed on exit."""
    log = await KafkaLog.connect(
        address, KafkaLogSettings(**{"transactional_id": ID, **settings}), security
    )
    try:
        yield log
    finally:
        await log.close()


def put(topic: str, key: str, partition: int = 0, value: bytes = b"v") -> Record:
    """Record of now, of which only position and key matter."""
    return Record(topic, partition, time.time_ns() // 1_000_000, key.encode(), value)


async def committed(log: KafkaLog, topic: str) -> list[Entry]:
    """Committed records of a topic, up to the last one that this log has written."""
    entries = await entries_of(log.read([topic]))
    return [entry for entry in entries if not entry.aborted]


async def keys(log: KafkaLog, topic: str) -> list[str]:
    """Keys of a topic's committed records, sorted."""
    return sorted((entry.key or b"").decode() for entry in await committed(log, topic))


def interrupt(monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., Any]) -> None:
    """Replace the next `send_each` of a producer by `interruption(send)`."""
    original = KafkaProducer.send_each

    async def interrupted(producer: KafkaProducer, batches: Any) -> Any:
        monkeypatch.setattr(KafkaProducer, "send_each", original)
        return await interruption(lambda: original(producer, batches))

    monkeypatch.setattr(KafkaProducer, "send_each", interrupted)
