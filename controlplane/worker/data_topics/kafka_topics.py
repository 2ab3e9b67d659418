"""Topics that a worker creates on brokers: those of sources (KIP-158), and dead letters."""

from controlplane.connect.errors import ConnectError
from controlplane.logs.kafka.admin.client_topics import ClientTopics
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin, TopicRefused
from controlplane.logs.kafka.protocol.admin_requests import TopicSpec
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.log import LogError
from controlplane.worker.data_topics.outage_retry import until_available
from controlplane.worker.data_topics.topic_rules import WantedTopic

_NOT_ALLOWED = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}

DEAD_LETTER_PARTITIONS = 1
"""Partitions of a new topic of dead letters (`DLQ_NUM_DESIRED_PARTITIONS`)."""


class KafkaTopicCreator:
    """Creates the topics of one source connector before their first record."""

    def __init__(self, topics: ClientTopics, admin: TopicAdmin) -> None:
        self._topics = topics
        self._admin = admin

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a topic unless it exists; brokers that are away are waited for.

        Raises:
            ConnectError: the brokers refuse to create it.
        """
        try:
            await _create_if_missing(self._topics, self._admin, TopicSpec(*topic))
        except LogError as failure:
            if isinstance(failure, TopicRefused) and failure.code in _NOT_ALLOWED:
                raise ConnectError(
                    f"Task failed to create new topic {topic}. Ensure that the task is "
                    "authorized to create topics or that the topic exists and restart the task"
                ) from failure
            raise ConnectError(
                f"Error while attempting to create/find topic(s) '{topic.name}': {failure}"
            ) from failure


async def ensure_dead_letter_topic(
    topics: ClientTopics, admin: TopicAdmin, topic: str, replication_factor: int
) -> None:
    """Create a topic of dead letters if it is missing (`DeadLetterQueueReporter`).

    Raises:
        ConnectError: the brokers refuse to create it.
    """
    try:
        spec = TopicSpec(topic, DEAD_LETTER_PARTITIONS, replication_factor)
        await _create_if_missing(topics, admin, spec)
    except LogError as failure:
        raise ConnectError(
            f"Could not initialize dead letter queue with topic={topic}: {failure}"
        ) from failure


async def _create_if_missing(topics: ClientTopics, admin: TopicAdmin, spec: TopicSpec) -> None:
    """Create a topic unless it exists; brokers that are away are waited for.

    Raises:
        LogError: the brokers refuse to create it.
    """

    async def create() -> None:
        if await topics.partitions(spec.name) is None:
            await admin.create([spec])

    await until_available(create)
