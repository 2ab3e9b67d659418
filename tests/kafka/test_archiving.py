"""An archive of a real cluster is what its topics hold: gaps, aborted records, no open ends."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from controlplane.logs.kafka.reader import KafkaReader
from replay.archive.cluster import open_cluster
from replay.archive.segments import Sizes
from replay.archive.store import Folder
from replay.archive.verify import verified
from replay.capture.capture import Capture, Captured, Target
from replay.capture.secrets import kept
from tests.kafka.real import Broker
from tests.kafka.writing import in_order, settled, writer
from tests.replay.test_appending import archived

pytestmark = [pytest.mark.java, pytest.mark.broker]

NewTopic = Callable[..., Awaitable[str]]


async def test_a_broker_is_archived_as_it_is(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic, tmp_path: Path
) -> None:
    """In three captures, of which one comes while a transaction is open."""
    topics = Topics(await new_topic(), await new_topic(2), await new_topic(2), "none")
    target = Target(Folder(str(tmp_path)), "real", topics, kept(topics), Sizes(5, 2))

    async def capture() -> Captured:
        return await Capture(reader, target, goes_on=True).run()

    async with writer(broker) as plain:
        for number in range(12):
            await plain.put(topics.config, 0, b"connector-a", b'{"properties":{"n":"%d"}}' % number)
            await plain.put(topics.offsets, number % 2, b'["a",{}]', b"1", headers=(("h", None),))
    entries = list(plain.written)
    assert (await capture()).added == 24
    transaction = f"t-{topics.config}"
    async with writer(broker, transactional_id=transaction) as out:
        for commit in (True, False):
            await out.producer.begin_transaction()
            for topic in (topics.config, topics.offsets, topics.status):
                await out.put(topic, 0, b"commit-a", b'{"tasks":0}')
            if commit:
                assert (await capture()).added == 0  # nobody knows yet what becomes of them
            entries += await out.end(commit=commit)
    await settled(broker, transaction)
    assert (await capture()).added == 6
    cluster = open_cluster(target.store, "real")
    assert archived(cluster) == in_order(entries)
    assert sum(entry.aborted for entry in entries) == 3
    assert {topic: [*ends] for topic, ends in cluster.ends.items()} == {
        topic: [*ends] for topic, ends in (await reader.ends(cluster.ends)).items()
    }
    sound = verified(cluster)
    assert (sound.flaws, sound.gaps) == ((), ())
    assert (await capture()).added == 0
