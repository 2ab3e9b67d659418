"""Requests to a transaction coordinator: begin and end transactions, bump a producer's epoch."""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest
from aiokafka.protocol.types import CompactString, Int16, Int32, Int64, Schema, TaggedFields

from controlplane.core.entry import TopicPartition
from controlplane.event_loop import backoff
from controlplane.logs.kafka.appends.producer import ProducerIdentity
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.protocol.error_codes import ErrorCode

_INIT_PRODUCER_ID = 22
_TRANSACTION = 1

BUSY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Error codes after which the coordinator is looked up again, and the request is retried."""

RETRY_MAX_MS = 200
"""Longest pause between two attempts: a coordinator needs up to 0.5 s to load."""

_MARKERS_MS = 1
"""First pause before the coordinator is asked again whether a transaction has ended: markers take
1-2 ms."""


class _InitProducerIdResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _INIT_PRODUCER_ID
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class _InitProducerIdStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = _INIT_PRODUCER_ID
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _InitProducerIdResponse
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class BumpEpochRequest(Request[_InitProducerIdStruct]):  # type: ignore[misc]
    """InitProducerId with the producer's present epoch; returns the next one (KIP-360, Kafka 2.5).

    The coordinator refuses it (47, `INVALID_PRODUCER_EPOCH`) if another producer has taken the id.
    The InitProducerId of aiokafka carries no epoch, so it would fence that producer.
    """

    API_KEY = _INIT_PRODUCER_ID

    def __init__(self, transactional_id: str, timeout_ms: int, identity: ProducerIdentity) -> None:
        self._fields = (transactional_id, timeout_ms, *identity)

    def build(self, request_struct_class: Any) -> Any:
        """Build the request in its only version."""
        return request_struct_class(*self._fields, {})


class TransactionCoordinator:
    """Coordinator of one `transactional.id`.

    Methods retry after the codes in `BUSY`, without end: callers set deadlines. They raise
    `LogUnavailable` if no broker answers.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, limits: WriteLimits) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._limits = limits

    async def end(self, identity: ProducerIdentity, *, commit: bool) -> int:
        """End the producer's transaction; return the error code.

        0: it has ended as requested, now or before. 48 (`INVALID_TXN_STATE`): no transaction is
        open, or it has ended the other way. A repeated request waits until the transaction has its
        markers. Until a partition has the transaction's marker, it refuses single batches of this
        producer.
        """
        request = EndTxnRequest(self._id, *identity, commit)
        return int((await self._ask_coordinator(request, _MARKERS_MS)).error_code)

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Begin or extend the producer's transaction; return the error code of each partition.

        Either all partitions are added, or none.
        """
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(self._id, *identity, [*numbers.items()])
        response = await self._ask_coordinator(request, _MARKERS_MS)
        return {(topic, number): code for topic, codes in response.errors for number, code in codes}

    async def bump(self, identity: ProducerIdentity) -> tuple[int, ProducerIdentity]:
        """Give the producer its next epoch; return the error code and the new identity.

        After an error the identity is the old one. The transaction of the producer must have
        ended. A repeated request returns the same epoch again.
        """
        timeout_ms = self._limits.transaction_timeout_ms
        response = await self._ask_coordinator(BumpEpochRequest(self._id, timeout_ms, identity))
        if response.error_code:
            return int(response.error_code), identity
        return 0, ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _ask_coordinator(self, request: Any, first_pause_ms: int = 0) -> Any:
        for pause in backoff(first_pause_ms or self._limits.retry_backoff_ms, RETRY_MAX_MS):
            coordinator = await self._cluster.ask(FindCoordinatorRequest(self._id, _TRANSACTION))
            response = coordinator
            if not coordinator.error_code:
                response = await self._cluster.send(coordinator.coordinator_id, request)
            if BUSY.isdisjoint(_error_codes(response)):
                return response
            await asyncio.sleep(pause)
        raise AssertionError("backoff never ends")


def _error_codes(response: Any) -> set[int]:
    """Error code of a response, or those of its partitions."""
    if hasattr(response, "errors"):
        return {code for _, codes in response.errors for _, code in codes}
    return {response.error_code}
