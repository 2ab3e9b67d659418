"""Consumer groups of one cluster: their committed offsets, and changes of them."""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from aiokafka.protocol.admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from controlplane.core.entry import TopicPartition
from controlplane.core.views.group_progress import LogEnd
from controlplane.logs.kafka.admin.bounded_retry import retried
from controlplane.logs.kafka.cluster import BrokerAddress, Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol import read_requests
from controlplane.logs.kafka.protocol.admin_requests import (
    ConsumerGroupDescribeRequest,
    OffsetDeleteRequest,
    commit_request,
    partition_codes,
)
from controlplane.logs.kafka.protocol.error_codes import ErrorCode, described
from controlplane.logs.kafka.protocol.errors import RETRIABLE, UnsupportedRequest
from controlplane.logs.log import LogNotUsable, LogUnavailable

T = TypeVar("T")

ACTIVE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
"""Codes for a group that has members, or a dead member whose session has not expired yet."""

_TRANSIENT = RETRIABLE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class GroupRefusal(LogNotUsable):
    """The cluster refuses a request about a consumer group or a producer."""

    def __init__(self, problem: str, code: int, right: str) -> None:
        """`problem`: beginning of the message.

        `right`: ACL that the request needs, such as `DESCRIBE on group g`.
        """
        super().__init__(f"{problem}: {described(code, right)}")
        self.code = code

    @property
    def is_active(self) -> bool:
        """True if the group has members."""
        return self.code in ACTIVE


class GroupMembers(NamedTuple):
    """Members of a group, as its coordinator describes them."""

    protocol_type: str
    """Protocol that they share: `connect` for workers, `consumer` for consumers."""
    hosts: tuple[str, ...]
    """Network address of each member, as the broker sees it."""


class GroupWorker(NamedTuple):
    """Worker in a Connect group, as it described itself when it joined the group."""

    url: str
    """Advertised URL of its REST API."""
    config_offset: int
    """Offset of the config topic up to which it had read (Kafka: `ConnectProtocol`)."""


_CONNECT = "connect"
"""Protocol type of Connect groups."""

_DEAD = "Dead"
"""State in DescribeGroups for a missing group, and for a group of KIP-848."""

_NO_NEW_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Codes of a broker that has no KIP-848 group with this id, and of a broker without KIP-848."""

_NO_MEMBERS = GroupMembers("", ())


class _Coordinator(IntEnum):
    """Kinds of coordinators (`FindCoordinator`)."""

    GROUP = 0
    TRANSACTION = 1


class GroupAdmin:
    """Consumer groups and transactional producers of one cluster.

    The coordinator is looked up for each request. Transient errors are retried for
    `ReadLimits.admin_patience_ms`; then methods raise `LogUnavailable`. If the cluster refuses,
    they raise `GroupRefusal` or `LogNotUsable`. Every change can be repeated.
    """

    def __init__(self, cluster: Cluster, limits: ReadLimits) -> None:
        self._cluster = cluster
        self._limits = limits

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group, by topic and partition; {}: no such group.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        right = f"DESCRIBE on group {group}"

        def offsets(response: Any) -> dict[TopicPartition, int]:
            _check(f"the offsets of group {group} cannot be read", response.error_code, right)
            ends: dict[TopicPartition, int] = {}
            for topic, partitions in response.topics:
                for partition, offset, _, code in partitions:
                    problem = f"the offset of group {group} in {topic}-{partition} is unknown"
                    _check(problem, code, f"DESCRIBE on topic {topic}")
                    if offset >= 0:
                        ends[topic, partition] = offset
            return dict(sorted(ends.items()))

        request = OffsetFetchRequest(group, None)
        return await self._ask_group(group, right, request, offsets)

    async def members(self, group: str) -> GroupMembers:
        """Return the members of a group; none if there is no such group.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        right = f"DESCRIBE on group {group}"
        problem = f"the members of group {group} are unknown"

        def members(response: Any) -> GroupMembers | None:
            code, _, state, protocol_type, _, described_members, *_ = response.groups[0]
            if code == ErrorCode.GROUP_ID_NOT_FOUND or state == _DEAD:
                return None
            _check(problem, code, right)
            hosts = tuple(host.removeprefix("/") for _, _, host, *_ in described_members)
            return GroupMembers(protocol_type, hosts)

        def new_members(response: Any) -> GroupMembers:
            ((code, _, _, _, _, _, _, described_members, *_),) = response.groups
            if code in _NO_NEW_GROUP:
                return _NO_MEMBERS
            # A member may subscribe to topics that this user may not see.
            if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise GroupRefusal(
                    problem, code, f"DESCRIBE on the topics that group {group} reads"
                )
            _check(problem, code, right)
            hosts = tuple(member[5].removeprefix("/") for member in described_members)
            return GroupMembers("consumer", hosts)

        classic = await self._ask_group(group, right, DescribeGroupsRequest([group]), members)
        if classic is not None:
            return classic
        request = ConsumerGroupDescribeRequest(group)
        try:
            return await self._ask_group(group, right, request, new_members)
        except UnsupportedRequest:
            return _NO_MEMBERS

    async def connect_groups(self) -> dict[str, tuple[GroupWorker, ...]]:
        """Return the workers of each Connect group that this user may describe.

        A group that rebalances at the moment has no workers.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        names = await retried(self._connect_group_names, self._limits)
        return {name: await self._connect_workers(name) for name in sorted(names)}

    async def _connect_group_names(self) -> set[str]:
        names = set()
        for broker in (await self._cluster.layout([])).brokers:
            response = await self._cluster.send(broker, ListGroupsRequest())
            _check("the groups are unknown", response.error_code, "DESCRIBE on the cluster")
            names |= {group for group, kind in response.groups if kind == _CONNECT}
        return names

    async def _connect_workers(self, group: str) -> tuple[GroupWorker, ...]:
        right = f"DESCRIBE on group {group}"

        def workers(response: Any) -> tuple[GroupWorker, ...]:
            code, _, _, _, _, members, *_ = response.groups[0]
            _check(f"the members of group {group} are unknown", code, right)
            described_workers = (_group_worker(member[3] or b"") for member in members)
            return tuple(worker for worker in described_workers if worker is not None)

        return await self._ask_group(group, right, DescribeGroupsRequest([group]), workers)

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets of a group without members; the group is created if it does not exist.

        If some partitions are refused, the others are set nevertheless, as by Kafka's admin client.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        if offsets:
            right = f"READ on group {group}"
            request = commit_request(group, offsets)
            await self._ask_group(
                group, right, request, lambda response: _check_all(group, response, right)
            )

    async def remove(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Remove offsets of a group; a missing group counts as success.

        Kafka 3.9 deletes a group with its last offset, so a repeated call finds no group.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        right = f"DELETE on group {group}"

        def check(response: Any) -> None:
            if response.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                _check(f"offsets of group {group} cannot be removed", response.error_code, right)
                _check_all(group, response, right)

        if partitions:
            request = OffsetDeleteRequest(group, partitions)
            await self._ask_group(group, right, request, check)

    async def delete(self, group: str) -> None:
        """Delete a group with all its offsets; a missing group counts as success.

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        right = f"DELETE on group {group}"

        def check(response: Any) -> None:
            for _, code in response.results:
                if code != ErrorCode.GROUP_ID_NOT_FOUND:
                    _check(f"group {group} cannot be deleted", code, right)

        await self._ask_group(group, right, DeleteGroupsRequest([group]), check)

    async def fence(self, transactional_id: str) -> None:
        """Fence the producers with a transactional id, and abort their open transaction.

        When this returns, the outcome of all their transactions is in the log, below the last
        stable offset (Kafka: `Admin#fenceProducers`).

        Raises:
            LogUnavailable, GroupRefusal: see the class.
        """
        right = f"WRITE on transactional id {transactional_id}"

        def check(response: Any) -> None:
            _check(f"producers {transactional_id} cannot be fenced", response.error_code, right)

        # The coordinator replicates the new epoch within this time-out (KAFKA-16047).
        request = InitProducerIdRequest(transactional_id, self._limits.request_timeout_ms)
        await self._ask_coordinator(
            _Coordinator.TRANSACTION, transactional_id, right, request, check
        )

    async def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """Return the high watermark of each partition, or the reason why it is unknown.

        Raises:
            LogUnavailable: no broker answers.
        """
        wanted_partitions = list(partitions)
        topics = {topic for topic, _ in wanted_partitions}
        return (
            await retried(lambda: self._ends(wanted_partitions, topics), self._limits)
            if wanted_partitions
            else {}
        )

    async def _ends(
        self, partitions: Iterable[TopicPartition], topics: Collection[str]
    ) -> dict[TopicPartition, LogEnd]:
        layout = await self._cluster.layout(topics)
        missing = LogEnd(None, described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        ends = {
            (topic, partition): LogEnd(
                None, described(layout.errors[topic], _describe_right(topic))
            )
            if topic in layout.errors
            else missing
            for topic, partition in partitions
        }
        for broker, partitions_led in layout.led().items():
            led_here = [partition for partition in partitions_led if partition in ends]
            if led_here and broker in layout.brokers:
                request = read_requests.offsets_request(
                    led_here, read_requests.LATEST, "read_uncommitted"
                )
                for partition, code, end in read_requests.offsets(
                    await self._cluster.send(broker, request)
                ):
                    reason = described(code, _describe_right(partition[0]))
                    ends[partition] = LogEnd(None, reason) if code else LogEnd(end)
            for partition in led_here if broker not in layout.brokers else ():
                ends[partition] = LogEnd(None, "the partition has no leader at the moment")
        return ends

    async def _ask_group(self, group: str, right: str, request: Any, read: Callable[[Any], T]) -> T:
        return await self._ask_coordinator(_Coordinator.GROUP, group, right, request, read)

    async def _ask_coordinator(
        self, kind: _Coordinator, key: str, right: str, request: Any, read: Callable[[Any], T]
    ) -> T:
        """Send a request to the coordinator of a group or producer, and read the response.

        `right`: ACL that the request needs. It also suffices to find the coordinator.
        """

        async def attempt() -> T:
            address = await self._coordinator(kind, key, right)
            return read(await self._cluster.send_to(address, request))

        return await retried(attempt, self._limits)

    async def _coordinator(self, kind: _Coordinator, key: str, right: str) -> BrokerAddress:
        response = await self._cluster.ask(FindCoordinatorRequest(key, int(kind)))
        owner = "group" if kind is _Coordinator.GROUP else "producers"
        _check(f"the coordinator of {owner} {key} is unknown", response.error_code, right)
        return response.host, response.port


def _group_worker(metadata: bytes) -> GroupWorker | None:
    """Worker that the metadata of a member describe; None: they have another form."""
    try:
        _, length = struct.unpack_from(">hh", metadata)
        url, offset = struct.unpack_from(f">{length}sq", metadata, 4)
        return GroupWorker(url.decode(), offset)
    except (struct.error, UnicodeDecodeError):
        return None


def _describe_right(topic: str) -> str:
    """Return the ACL that is needed to read the ends of a topic."""
    return f"DESCRIBE on topic {topic}"


def _check_all(group: str, response: Any, right: str) -> None:
    """Raise the first refusal of a partition; a transient error only if there is no refusal."""
    codes = partition_codes(response)
    ordered = sorted(codes.items(), key=lambda item: item[1] in _TRANSIENT)
    for (topic, partition), code in ordered:
        problem = f"the offset of group {group} in {topic}-{partition} cannot be changed"
        of_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        _check(problem, code, f"READ on topic {topic}" if of_topic else right)


def _check(problem: str, code: int, right: str) -> None:
    if code in _TRANSIENT:
        raise LogUnavailable(f"{problem}: {described(code)}")
    if code:
        raise GroupRefusal(problem, code, right)
