"""Fetch loop: a tail continues at the right offset after any answer of a broker."""

from typing import Any, cast

import pytest
from aiokafka.protocol.fetch import FetchResponse_v11

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.metadata import ClusterLayout
from controlplane.logs.kafka.reads.fetch_loop import FetchLoop
from controlplane.logs.log import LogUnavailable

BROKER, SESSION, END = 1, 4711, 100
UNKNOWN_SERVER_ERROR = -1
THROTTLED_MS = 5
PARTITION: TopicPartition = ("configs", 0)


class ScriptedFetches:
    """Cluster of one broker, with its answers to fetch requests in order."""

    def __init__(self, *answers: FetchResponse_v11) -> None:
        self._answers = [*answers]

    async def leaders(self, topics: set[str]) -> ClusterLayout:
        """Return a layout in which the broker leads every topic."""
        leaders = {topic: {0: BROKER} for topic in topics}
        return ClusterLayout(None, {BROKER: ("broker", 9092)}, leaders, {}, {})

    async def send(self, broker: int, request: object) -> FetchResponse_v11:
        """Return the next answer."""
        del broker, request
        return self._answers.pop(0)


def answer(throttle_ms: int, code: int, *partitions: tuple[Any, ...]) -> FetchResponse_v11:
    """Return an answer in the session."""
    topics = [(PARTITION[0], [*partitions])] if partitions else []
    return FetchResponse_v11(throttle_ms, code, SESSION, topics)


async def test_a_refused_fetch_skips_no_record() -> None:
    """A broker that fails names no partition in a session; this does not prove an empty range."""
    start = {PARTITION: 10}
    fetching = FetchLoop(start, None, "read_committed", ReadLimits(), start)
    throttled = answer(THROTTLED_MS, 0, (0, 0, END, END, 0, [], -1, b""))
    cluster = ScriptedFetches(throttled, answer(0, UNKNOWN_SERVER_ERROR), throttled)
    with pytest.raises(LogUnavailable, match=r"refuses a fetch request.*UNKNOWN_SERVER_ERROR"):
        await anext(fetching.run(cast("Cluster", cluster)))
    assert fetching.positions == start
