"""Creation of the topics of a cluster in the log of its control plane."""

from controlplane.core.state import Topics
from controlplane.logs.log import EmbeddedLog, Log
from controlplane.logs.topic_checks import check_own_topics, missing_for_writer, renamed


async def create_topics(log: Log, topics: Topics, *, offsets: int, status: int) -> None:
    """Create the missing topics, with these partitions; existing ones keep their partitions.

    Raises:
        LogNotUsable: the log has records, and a name of a topic is probably misspelt; or on Kafka,
            the records are another cluster's, or a worker would not start with a topic.
    """
    existing = await log.topics()
    partitions = {
        topics.config: 1,
        topics.offsets: offsets,
        topics.status: status,
        topics.commands: 1,
    }
    if isinstance(log, EmbeddedLog):
        await missing_for_writer(log, topics, named=renamed(topics), may_lack_configs=True)
        partitions = {
            topic: number for topic, number in partitions.items() if topic not in existing
        }
    else:
        # Other programs have topics there, too: their records are no sign of a misspelt name.
        await check_own_topics(log, topics)
        # An existing topic is only verified, as a worker does.
        partitions = {topic: existing.get(topic, number) for topic, number in partitions.items()}
    for topic, number in partitions.items():
        await log.create_topic(topic, number)
