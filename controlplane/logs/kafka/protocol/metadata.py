"""Metadata requests: addresses of brokers, leaders of partitions, ids of topics.

aiokafka supports versions up to 5. Version 10 (Kafka 2.8, KIP-516) adds topic ids, which
distinguish a recreated topic from the deleted one. So this module implements version 10. No request
built here lets a broker create a topic.
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v4, MetadataRequest_v5
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from controlplane.core.entry import TopicPartition

_METADATA = 3
_ID_SIZE = 16
_NO_ID = bytes(_ID_SIZE)


class ClusterLayout(NamedTuple):
    """Brokers, leaders and topic ids of a cluster."""

    cluster_id: str | None
    brokers: Mapping[int, tuple[str, int]]
    """Host and port by broker id."""
    leaders: Mapping[str, Mapping[int, int]]
    """Broker id of the leader by topic and partition; -1: no leader. Internal topics of the brokers
    are left out."""
    ids: Mapping[str, bytes]
    """Topic ids by topic, if the brokers support them."""
    errors: Mapping[str, int]
    """Error codes of topics that cannot be described."""
    controller: int = -1
    """Broker id to which requests that change topics go; -1 if there is none at the moment."""

    def led(self) -> dict[int, list[TopicPartition]]:
        """Return the partitions by the broker id of their leader."""
        brokers: dict[int, list[TopicPartition]] = {}
        for topic, leaders in self.leaders.items():
            for number, leader in leaders.items():
                brokers.setdefault(leader, []).append((topic, number))
        return brokers


class TopicId(AbstractType):  # type: ignore[misc]  # aiokafka has no types
    """Type of a topic id: 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return the 16 bytes unchanged."""
        return value

    @classmethod
    def decode(cls, octets: BytesIO) -> bytes:
        """Read the next 16 bytes."""
        return octets.read(_ID_SIZE)


def _compact(*fields: tuple[str, Any]) -> CompactArray:
    return CompactArray(*fields, ("tags", TaggedFields))


class _MetadataResponse10(Response):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            _compact(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            _compact(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", TopicId),
                ("is_internal", Boolean),
                (
                    "partitions",
                    _compact(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequest10(RequestStruct):  # type: ignore[misc]
    API_KEY = _METADATA
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _MetadataResponse10
    SCHEMA = Schema(
        ("topics", _compact(("topic_id", TopicId), ("name", CompactString("utf-8")))),
        ("create", Boolean),
        ("cluster_operations", Boolean),
        ("topic_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataRequest(
    Request[MetadataRequest_v4 | MetadataRequest_v5 | _MetadataRequest10]  # type: ignore[misc]
):
    """Request for brokers and these topics (None: all topics); needs Kafka 0.11 or later."""

    API_KEY = _METADATA

    def __init__(self, topics: Iterable[str] | None) -> None:
        self._topics = None if topics is None else sorted(topics)

    def build(self, request_struct_class: Any) -> Any:
        """Build the request in the newest version that broker and client share."""
        topics = self._topics
        if request_struct_class is not _MetadataRequest10:
            return request_struct_class(topics, False)
        tags: dict[int, bytes] = {}
        topic_fields = None if topics is None else [(_NO_ID, topic, tags) for topic in topics]
        return _MetadataRequest10(topic_fields, False, False, False, tags)


def layout(response: Any) -> ClusterLayout:
    """Convert a metadata response of any version."""
    leaders: dict[str, dict[int, int]] = {}
    ids: dict[str, bytes] = {}
    errors: dict[str, int] = {}
    for code, topic, *fields in response.topics:
        if response.API_VERSION == _MetadataResponse10.API_VERSION:
            ids[topic] = fields.pop(0)
        internal, partitions = fields[:2]
        if code:
            errors[topic] = code
        elif not internal:
            leaders[topic] = {number: leader for _, number, leader, *_ in partitions}
    brokers = {broker: (host, port) for broker, host, port, *_ in response.brokers}
    return ClusterLayout(response.cluster_id, brokers, leaders, ids, errors, response.controller_id)
