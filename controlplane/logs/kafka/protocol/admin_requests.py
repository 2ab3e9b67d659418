"""Admin requests that aiokafka lacks or refuses, and the fields of their responses.

Each request class here has one version, which brokers of Kafka 2.4 to 4.3 support
(ConsumerGroupDescribe: from 3.7 on). For its own classes aiokafka picks the newest version that it
and the broker share.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.protocol.metadata import TopicId

BROKER_DEFAULT = -1
"""Number of partitions or replicas that selects the broker's default (Kafka 2.4, KIP-464)."""

_TEXT = String("utf-8")
_TOPIC = 2
"""Type of a resource: a topic."""


class TopicSpec(NamedTuple):
    """A topic to create; numbers of -1 are the broker's defaults."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}


def create_topics_request(topics: Iterable[TopicSpec], timeout_ms: int) -> CreateTopicsRequest:
    """Build the request that creates topics; aiokafka's own client refuses -1."""
    specs: list[Any] = [
        (topic.name, topic.partitions, topic.replication, [], [*topic.configs.items()])
        for topic in topics
    ]
    return CreateTopicsRequest(specs, timeout_ms, validate_only=False)


class TopicAnswer(NamedTuple):
    """Answer of a broker about one topic: error code (0: success) and message."""

    topic: str
    code: int
    message: str | None


def created(response: Any) -> Iterator[TopicAnswer]:
    """Yield the answer for each topic of a CreateTopics response."""
    for topic, code, *message in response.topic_errors:
        yield TopicAnswer(topic, code, message[0] if message else None)


def topic_configs_request(
    topics: Iterable[str], names: list[str] | None = None
) -> DescribeConfigsRequest:
    """Build the request for these settings of topics (None: all settings)."""
    return DescribeConfigsRequest([(_TOPIC, topic, names) for topic in topics])


class TopicConfigs(NamedTuple):
    """Requested settings of a topic, defaults included; None for a value that the broker hides."""

    answer: TopicAnswer
    values: Mapping[str, str | None]


def topic_configs(response: Any) -> Iterator[TopicConfigs]:
    """Yield the settings of each topic of a DescribeConfigs response."""
    for code, message, _, topic, entries in response.resources:
        values = {name: value for name, value, *_ in entries or ()}
        yield TopicConfigs(TopicAnswer(topic, code, message), values)


_NO_GENERATION, _NO_MEMBER, _BROKERS_RETENTION, _NO_METADATA = -1, "", -1, ""


def commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    """Build the request that sets offsets of a group without members, as an admin client does."""
    topics: dict[str, list[tuple[int, int, str]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append((partition, offset, _NO_METADATA))
    return OffsetCommitRequest(
        group, _NO_GENERATION, _NO_MEMBER, _BROKERS_RETENTION, [*topics.items()]
    )


class _OffsetDeleteResponse(Response):  # type: ignore[misc]
    API_KEY = 47
    API_VERSION = 0
    SCHEMA = Schema(
        ("error_code", Int16),
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                ("partitions", Array(("partition", Int32), ("error_code", Int16))),
            ),
        ),
    )


class _OffsetDeleteStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 47
    API_VERSION = 0
    RESPONSE_TYPE = _OffsetDeleteResponse
    SCHEMA = Schema(
        ("group", _TEXT),
        (
            "topics",
            Array(("topic", _TEXT), ("partitions", Array(Int32))),
        ),
    )


class OffsetDeleteRequest(Request[_OffsetDeleteStruct]):  # type: ignore[misc]
    """Request to remove committed offsets of a group (KIP-496)."""

    API_KEY = 47

    def __init__(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        self._fields = group, [*topics.items()]

    def build(self, request_struct_class: Any) -> Any:
        """Build the request in its only version."""
        return request_struct_class(*self._fields)


def partition_codes(response: Any) -> dict[TopicPartition, int]:
    """Return the error code of each partition of an OffsetCommit or OffsetDelete response."""
    return {
        (topic, partition): code
        for topic, partitions in response.topics
        for partition, code in partitions
    }


_COMPACT_TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)
_ASSIGNMENT = CompactArray(
    ("topic_id", TopicId),
    ("topic_name", _COMPACT_TEXT),
    ("partitions", CompactArray(Int32)),
    _TAGS,
)


class _ConsumerGroupDescribeResponse(Response):  # type: ignore[misc]
    API_KEY = 69
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            CompactArray(
                ("error_code", Int16),
                ("error_message", _COMPACT_TEXT),
                ("group_id", _COMPACT_TEXT),
                ("group_state", _COMPACT_TEXT),
                ("group_epoch", Int32),
                ("assignment_epoch", Int32),
                ("assignor", _COMPACT_TEXT),
                (
                    "members",
                    CompactArray(
                        ("member_id", _COMPACT_TEXT),
                        ("instance_id", _COMPACT_TEXT),
                        ("rack_id", _COMPACT_TEXT),
                        ("member_epoch", Int32),
                        ("client_id", _COMPACT_TEXT),
                        ("client_host", _COMPACT_TEXT),
                        ("subscribed_topics", CompactArray(_COMPACT_TEXT)),
                        ("subscribed_pattern", _COMPACT_TEXT),
                        ("assignment", _ASSIGNMENT),
                        ("assignment_tags", TaggedFields),
                        ("target_assignment", _ASSIGNMENT),
                        ("target_assignment_tags", TaggedFields),
                        _TAGS,
                    ),
                ),
                ("operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _ConsumerGroupDescribeStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 69
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _ConsumerGroupDescribeResponse
    SCHEMA = Schema(
        ("groups", CompactArray(_COMPACT_TEXT)),
        ("operations", Boolean),
        _TAGS,
    )


class ConsumerGroupDescribeRequest(Request[_ConsumerGroupDescribeStruct]):  # type: ignore[misc]
    """Request for the members of a KIP-848 group, which DescribeGroups does not show."""

    API_KEY = 69

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: Any) -> Any:
        """Build the request in its only version."""
        return request_struct_class([self._group], False, {})
