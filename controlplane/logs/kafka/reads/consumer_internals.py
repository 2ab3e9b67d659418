"""Behaviours of Kafka's consumer for which aiokafka's consumer has no option."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.conn import CloseReason
from aiokafka.errors import NodeNotReadyError, RequestTimedOutError
from aiokafka.protocol.group import JoinGroupRequest
from aiokafka.structs import OffsetAndMetadata

from controlplane.core.entry import TopicPartition
from controlplane.event_loop import sliced

REBALANCE_MARGIN_S = 5.0
"""Time that a JoinGroup request may take beyond the longest rebalance
(Kafka: `AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE`)."""


class TopicMatcher:
    """Selection of topics by a function, which aiokafka calls like a regular expression."""

    def __init__(self, selects: Callable[[str], bool]) -> None:
        self._selects = selects
        self._answers: dict[str, bool] = {}
        self._failure: Exception | None = None

    async def examine(self, topics: Iterable[str]) -> None:
        """Examine many topics in slices, before aiokafka calls `match` for all of them at once.

        `match` then only returns the kept answers. Without them, it would block the event loop
        until all topics are examined.
        """
        async for topic in sliced(topics):
            self.match(topic)

    def match(self, topic: str) -> bool:
        """Return True if the topic is selected; False after an error, which is kept."""
        answer = self._answers.get(topic)
        if answer is None:
            answer = self._answers[topic] = self._examined(topic)
        return answer

    def _examined(self, topic: str) -> bool:
        if self._failure is not None:  # the consumer has failed
            return False
        try:
            return self._selects(topic)
        except Exception as failure:  # noqa: BLE001 - it would end aiokafka's updates of metadata
            self._failure = failure
            return False

    def check(self) -> None:
        """Raise the error of the function, if it had one."""
        if self._failure is not None:
            raise self._failure


def subscribe_to_matches(
    consumer: AIOKafkaConsumer, topics: TopicMatcher, listener: ConsumerRebalanceListener
) -> None:
    """Subscribe to the selected topics, also those that are created later.

    aiokafka's own method takes patterns of Python only. They match only the beginning of a name.
    Some of them backtrack so long that they block the process.
    """
    consumer.subscribe(pattern=_NO_TOPIC, listener=listener)
    consumer._subscription.subscribe_pattern(topics, listener)  # noqa: SLF001


_NO_TOPIC = "(?!)"


async def commit_offsets(consumer: AIOKafkaConsumer, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of the consumer's group, also while aiokafka knows no assignment.

    The method `commit` of aiokafka requires one. If a pattern selects a new topic, aiokafka drops
    its subscription and the assignment before it reports the revocation. The membership is valid
    until the consumer joins again, so brokers accept the commit, as from Kafka's consumer.

    Raises:
        KafkaError: the brokers have not confirmed all offsets; any of them may be uncommitted.
    """
    aiokafka_offsets = {
        AiokafkaPartition(*partition): OffsetAndMetadata(offset, "")
        for partition, offset in offsets.items()
    }
    coordinator = consumer._coordinator  # noqa: SLF001
    await coordinator.commit_offsets(None, aiokafka_offsets)  # the assignment is not used


def outlast_rebalances(consumer: AIOKafkaConsumer, rebalance_ms: int) -> None:
    """Raise the time-out of JoinGroup requests above `rebalance_ms`, as in Kafka's consumer.

    Other members may take `rebalance_ms` to join. A request that times out earlier would start
    another rebalance. All other requests keep aiokafka's `request_timeout_ms`.
    """
    client: Any = consumer._client  # noqa: SLF001
    send = client.send

    async def patient_send(node: int, request: Any, **connection_group: Any) -> Any:
        if not isinstance(request, JoinGroupRequest):
            return await send(node, request, **connection_group)
        connection = await client._get_conn(node, **connection_group)  # noqa: SLF001
        if connection is None:
            raise NodeNotReadyError(f"no connection to broker {node}")
        usual_s = connection._request_timeout  # noqa: SLF001
        try:
            connection._request_timeout = rebalance_ms / 1_000 + REBALANCE_MARGIN_S  # noqa: SLF001
            answer = connection.send(request)  # `send` reads the time-out now
        finally:
            connection._request_timeout = usual_s  # noqa: SLF001
        try:
            return await answer
        except TimeoutError as failure:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise RequestTimedOutError from failure

    client.send = patient_send
