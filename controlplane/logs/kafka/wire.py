"""Requests as this reader sends them, and the fields of their answers, whatever the version.

aiokafka picks the newest version that it and the broker share. None of these requests changes
anything on a broker; in particular none makes it create a topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import aiokafka.protocol.fetch as _fetch
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.offset import OffsetRequest

from controlplane.logs.kafka.limits import Limits
from controlplane.logs.kafka.metadata import Partition

Isolation = Literal["read_committed", "read_uncommitted"]
"""Kafka's `isolation.level`; see `KafkaReader` for what each means here."""

EARLIEST, LATEST = -2, -1
"""Timestamps by which ListOffsets means the first record and the end."""

_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_NO_REPLICA = -1
_TOPIC = 2


def _by_topic(values: Mapping[Partition, Any]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, []).append((partition, *value))
    return list(topics.items())


def offsets_request(
    partitions: Iterable[Partition], timestamp: int, isolation: Isolation
) -> OffsetRequest:
    """Asks a leader for the offset at `EARLIEST`, `LATEST` or a time in ms since 1970."""
    asked = dict.fromkeys(partitions, (timestamp,))
    return OffsetRequest(_NO_REPLICA, _ISOLATION[isolation], _by_topic(asked))


def offsets(response: Any) -> Iterator[tuple[Partition, int, int]]:
    """Partition, error code and offset out of a ListOffsets answer."""
    for topic, partitions in response.topics:
        for partition, code, _, offset in partitions:
            yield (topic, partition), code, offset


def fetch_request(
    positions: Mapping[Partition, int], isolation: Isolation, limits: Limits
) -> _fetch.FetchRequest:
    """Asks a leader for records from these positions on; empty answers are held back."""
    asked = {
        partition: (offset, limits.partition_max_bytes) for partition, offset in positions.items()
    }
    return _fetch.FetchRequest(
        limits.fetch_wait_ms, 1, limits.fetch_max_bytes, _ISOLATION[isolation], _by_topic(asked)
    )


class Fetched(NamedTuple):
    """What an answer brings for one partition."""

    partition: Partition
    code: int
    high_watermark: int
    last_stable: int
    aborted: list[tuple[int, int]]
    """Producer id and first offset of each aborted transaction that reaches into `records`."""
    records: bytes

    def readable(self, isolation: Isolation) -> int:
        """The offset before which this isolation level shows every record that there is."""
        return self.last_stable if isolation == "read_committed" else self.high_watermark


def fetched(response: Any) -> Iterator[Fetched]:
    """The partitions of a fetch answer (version 4 or later)."""
    transactions = 4 if response.API_VERSION == 4 else 5
    for topic, partitions in response.topics:
        for fields in partitions:
            number, code, high_watermark, last_stable = fields[:4]
            aborted = fields[transactions] or []
            records = fields[-1] or b""
            yield Fetched((topic, number), code, high_watermark, last_stable, aborted, records)


def configs_request(topics: Iterable[str], name: str) -> DescribeConfigsRequest:
    """Asks for one setting of each topic."""
    return DescribeConfigsRequest([(_TOPIC, topic, [name]) for topic in topics])


def configs(response: Any) -> Iterator[tuple[str, str | None]]:
    """Topic and value of the setting asked for; None where we may not see it."""
    for code, _, _, topic, entries in response.resources:
        yield topic, None if code or not entries else entries[0][1]
