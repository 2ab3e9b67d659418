"""Worker of Kafka's integration tests: `controlplane serve --own` on the brokers of its file.

A claim of the topics needs transactions. The tests' only broker cannot create its transaction
topic, whose default is three replicas. This program creates the topic with one replica.
"""

import asyncio
import sys
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from controlplane.__main__ import main
from controlplane.settings.properties import read_properties

ROOT = Path(__file__).resolve().parents[2]
PLUGIN_PATH = "tests.integration.monitorable_connectors"
"""Python twins of the tests' connectors, in place of the jars that the workers' files name."""

TRANSACTIONS = NewTopic(
    "__transaction_state",
    num_partitions=50,
    replication_factor=1,
    topic_configs={"cleanup.policy": "compact", "min.insync.replicas": "1"},
)
"""The topic as a broker creates it, but with a single replica."""


async def create_topic_of_transactions(bootstrap: str) -> None:
    """Create the transaction topic unless it exists."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        await client.create_topics([TRANSACTIONS])
    finally:
        await client.close()


release, plugins, properties, _ = sys.argv[1:]
settings = {line.key: line.value for line in read_properties(Path(properties))}
asyncio.run(create_topic_of_transactions(settings["bootstrap.servers"]))
sys.path[0] = str(ROOT)  # the folder of the connectors' package
sys.argv = [
    *("controlplane", "serve", f"kafka://{settings['bootstrap.servers']}", "--own"),
    *("--release", release, "--plugins", plugins, "--worker-properties", properties),
    *("--override", f"plugin.path={PLUGIN_PATH}"),
]
main()
