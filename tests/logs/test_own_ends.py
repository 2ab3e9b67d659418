"""Ends of a log on Kafka: own records count before their marker, and never after their topic."""

from collections.abc import Iterable

import pytest

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.settings.security import KafkaSecurity

TOPIC = "connect-configs"


async def test_a_recreated_topic_ends_at_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Own records end a partition until their marker is written. A new topic of the name is empty.

    A read to an end that the new topic does not have would never return.
    """
    stable_end = 100

    async def stable_ends(_: KafkaReader, topics: Iterable[str]) -> Ends:
        return {topic: [stable_end] for topic in topics}

    monkeypatch.setattr(KafkaReader, "ends", stable_ends)
    cluster = Cluster((("broker", 9092),), KafkaSecurity(), ReadLimits())
    log = KafkaLog(cluster, KafkaLogSettings(transactional_id="id"), None)
    log._note_ends([Position(TOPIC, 0, 104)])
    for _ in range(2):
        assert await log.ends([TOPIC]) == {TOPIC: [105]}
    stable_end = 106
    assert await log.ends([TOPIC]) == {TOPIC: [106]}
    stable_end = 0
    assert await log.ends([TOPIC]) == {TOPIC: [0]}
