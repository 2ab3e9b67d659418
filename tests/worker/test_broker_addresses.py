"""Broker addresses in a connector's config are checked when a client of its task is opened."""

import pytest

from controlplane.connect.errors import ConnectError
from controlplane.settings import Configuration
from controlplane.worker.data_topics.kafka_connections import ClientConnections, TaskClient
from controlplane.worker.task_identity import TaskIdentity
from tests.worker.worker_fixture import RecordedNotices


@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        ("nowhere", "Invalid url in bootstrap.servers: nowhere"),
        ("127.0.0.1:9092,[::1]", "Invalid url in bootstrap.servers: [::1]"),
        ("a..b:9092", "No resolvable bootstrap urls given in bootstrap.servers"),
        (f"127.0.0.1:{'9' * 30}", "No resolvable bootstrap urls given in bootstrap.servers"),
        ("no.host.invalid:9092", "No resolvable bootstrap urls given in bootstrap.servers"),
    ],
)
async def test_invalid_broker_addresses_fail_the_task(servers: str, sentence: str) -> None:
    """The task fails with Kafka's message, instead of waiting for a broker."""
    connections = ClientConnections("127.0.0.1:9092", Configuration(), RecordedNotices())
    config = {"producer.override.bootstrap.servers": servers}
    client = TaskClient(TaskIdentity("a", 0), config, "producer")
    with pytest.raises(ConnectError) as refused:
        async with connections.opened(client, {}, 0):
            pass
    assert str(refused.value) == sentence


async def test_one_resolvable_broker_is_enough() -> None:
    """A client connects if one of its brokers can be resolved."""
    connections = ClientConnections("127.0.0.1:9092", Configuration(), RecordedNotices())
    config = {"producer.override.bootstrap.servers": "a..b:1, no.host.invalid:1, 127.0.0.1:9092"}
    async with connections.opened(TaskClient(TaskIdentity("a", 0), config, "producer"), {}, 0):
        pass
