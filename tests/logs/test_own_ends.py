"""Ends of a log on Kafka: own records count before their marker, and never after their topic."""

from collections.abc import Iterable, Mapping

import pytest

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.kafka.protocol.admin_requests import TopicSpec
from controlplane.logs.kafka.protocol.metadata import ClusterLayout
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.settings.security import KafkaSecurity

TOPIC = "connect-configs"


def writable_log() -> KafkaLog:
    """A log without connections."""
    cluster = Cluster((("broker", 9092),), KafkaSecurity(), ReadLimits())
    return KafkaLog(cluster, KafkaLogSettings(transactional_id="id"), None)


async def test_a_recreated_topic_ends_at_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Own records end a partition until their marker is written. A new topic of the name is empty.

    A read to an end that the new topic does not have would never return.
    """
    stable_end = 100

    async def stable_ends(_: KafkaReader, topics: Iterable[str]) -> Ends:
        return {topic: [stable_end] for topic in topics}

    monkeypatch.setattr(KafkaReader, "ends", stable_ends)
    log = writable_log()
    log._note_ends([Position(TOPIC, 0, 104)])
    for _ in range(2):
        assert await log.ends([TOPIC]) == {TOPIC: [105]}
    stable_end = 106
    assert await log.ends([TOPIC]) == {TOPIC: [106]}
    stable_end = 0
    assert await log.ends([TOPIC]) == {TOPIC: [0]}


async def test_a_deleted_topic_loses_its_own_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is deleted before a read to its end has seen the marker of the last record."""
    existing: dict[str, int] = {}

    async def topics(_: KafkaReader) -> Mapping[str, int]:
        return existing

    async def stable_ends(_: KafkaReader, topics: Iterable[str]) -> Ends:
        return {topic: [0] for topic in topics}

    monkeypatch.setattr(KafkaReader, "topics", topics)
    monkeypatch.setattr(KafkaReader, "ends", stable_ends)
    log = writable_log()
    log._note_ends([Position(TOPIC, 0, 104)])
    await log.topics()
    existing[TOPIC] = 1
    await log.topics()
    assert await log.ends([TOPIC]) == {TOPIC: [0]}


async def test_a_new_topic_has_no_own_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that this log creates is not the one of the same name that had records."""

    async def layout(_: Cluster, _topics: object) -> ClusterLayout:
        return ClusterLayout(None, {}, {}, {}, {})

    async def created(_: TopicAdmin, specs: Iterable[TopicSpec]) -> frozenset[str]:
        return frozenset(spec.name for spec in specs)

    async def stable_ends(_: KafkaReader, topics: Iterable[str]) -> Ends:
        return {topic: [0] for topic in topics}

    monkeypatch.setattr(Cluster, "layout", layout)
    monkeypatch.setattr(TopicAdmin, "create", created)
    monkeypatch.setattr(KafkaReader, "ends", stable_ends)
    log = writable_log()
    log._note_ends([Position(TOPIC, 0, 104)])
    await log.create_topic(TOPIC, 1)
    assert await log.ends([TOPIC]) == {TOPIC: [0]}
