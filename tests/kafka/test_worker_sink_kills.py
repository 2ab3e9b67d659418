"""`kill -9` of a sink in mid-stream on brokers: no record is lost, and repeats are bounded.

Each life of the process continues at the committed offset of the sink's group. So it repeats
exactly the records that the life before has written and not committed.
"""

import asyncio
from pathlib import Path

import httpx
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.group import LeaveGroupRequest

from controlplane.core.state import Topics
from tests.conftest import PROVE, seeded
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.consumers import groups_of
from tests.kafka.own_service import serving_own
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import Broker
from tests.kafka.test_worker_kills import generator
from tests.kafka.worker_service import connectors_file, consumed, create, until

KILLS = 200 if PROVE else 3
"""Lives of the process; each is killed at a random moment of the half second after a record."""

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.slow, NEWEST]


class SinkLives:
    """The file of a sink and the offset of its group, after each life of the process."""

    def __init__(self, broker: Broker, topic: str, out: Path) -> None:
        self._broker = broker
        self._topic = topic
        self.out = out
        self.group = f"group-{topic}"
        self.committed = 0
        """Committed offset of the group."""
        self.lines = 0
        """Number of whole lines in the file."""
        self.repeats = 0
        """Number of lines that a life had written and not committed."""
        self._read_bytes = 0

    @property
    def config(self) -> dict[str, str]:
        """Config of the sink."""
        return {
            "connector.class": "FileStreamSink",
            "file": str(self.out),
            "topics": self._topic,
            "consumer.override.group.id": self.group,
        }

    async def grows(self) -> bool:
        """True once the present life has written."""
        return self.out.exists() and self.out.stat().st_size > self._read_bytes

    async def has_committed(self) -> bool:
        """True once the group has an offset."""
        return await self._committed() > 0

    async def _committed(self) -> int:
        async with groups_of(self._broker.bootstrap) as groups:
            return (await groups.committed(self.group)).get((self._topic, 0), 0)

    async def check_life(self, *, ended: bool = False) -> None:
        """Compare what the last life wrote with the topic and with the offsets around it.

        `ended`: it has ended in order, so it has committed everything.
        """
        texts = await self.texts()
        octets = self.out.read_bytes()
        *lines, cut = octets[self._read_bytes :].decode().split("\n")
        self._read_bytes = len(octets)
        behind = self.committed + len(lines)
        assert lines == texts[self.committed : behind]
        assert not cut or texts[behind].startswith(cut)
        offset = await self._committed()
        assert self.committed <= offset <= behind
        assert offset == behind or not ended
        self.committed = offset
        self.lines += len(lines)
        self.repeats += behind - offset

    async def texts(self) -> list[str]:
        """Values in the topic by offset."""
        records = await consumed(self._broker, self._topic)
        assert [record.offset for record in records] == [*range(len(records))]
        return [record.value.decode() for record in records]

    async def evict_members(self) -> None:
        """Remove the killed members from the group, as the coordinator does after their session."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        await admin.start()
        try:
            coordinator = await admin.find_coordinator(self.group)
            for described in await admin.describe_consumer_groups([self.group]):
                for member, *_ in described.groups[0][5]:
                    request = LeaveGroupRequest(self.group, member)
                    await admin._send_request(request, coordinator)
        finally:
            await admin.close()


async def test_killed_sinks_lose_no_record(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The file has every record; a life repeats what the one before had not committed, no more."""
    topic, draw = unused_name(), seeded("kills of a sink on brokers")
    await create_topic(broker, topic, 1, cleanup__policy="delete")
    lives = SinkLives(broker, topic, tmp_path / "out.txt")
    file = connectors_file(tmp_path, own_topics, offset__flush__interval__ms=300)
    for life in range(KILLS):
        async with serving_own(broker, file) as (service, client):
            if not life:
                await create(client, {"source": generator(topic), "sink": lives.config})
            await until(lives.grows)
            if not life:
                await until(lives.has_committed)
            await asyncio.sleep(draw.uniform(0, 0.5))
            service.process.kill()
        await lives.check_life()
        await lives.evict_members()
    async with serving_own(broker, file) as (_, client):
        await stop(client, "source")
        texts = await lives.texts()

        async def has_all() -> bool:
            return await lives.grows() and lives.out.read_text("utf-8").endswith(f"{texts[-1]}\n")

        await until(has_all)
        await stop(client, "sink")
    await lives.check_life(ended=True)
    assert lives.committed == len(texts)
    assert lives.lines == lives.committed + lives.repeats
    assert lives.repeats or not PROVE


async def stop(client: httpx.AsyncClient, name: str) -> None:
    """Stop a connector, and wait until its tasks have ended."""
    assert (await client.put(f"/connectors/{name}/stop")).is_success

    async def stopped() -> bool:
        return not (await client.get(f"/connectors/{name}/status")).json()["tasks"]

    await until(stopped)
