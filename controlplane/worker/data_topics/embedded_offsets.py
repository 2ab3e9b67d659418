"""Offsets of sources in a log of our own, wherever their records are."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from controlplane.core.order import Ends
from controlplane.core.state import OffsetState
from controlplane.worker.data_topics.clients import OffsetWriter
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics, WrittenLog
from controlplane.worker.settings import ProducerLimits


class LogOffsets:
    """Offsets topics in the log of the control plane (`OffsetTopics`)."""

    on_brokers = False

    def __init__(self, written: WrittenLog, topics: LogTopics, limits: ProducerLimits) -> None:
        self._written = written
        self._topics = topics
        self._limits = limits

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[OffsetWriter]:
        """Open a writer with the present epoch of the control plane."""
        producer = LogProducer(self._written, self._topics, self._limits)
        try:
            yield producer
        finally:
            await producer.close()

    async def create(self, topic: str, like: str) -> None:
        """Create a connector's own topic with as many partitions as the worker's topic, `like`."""
        await self._topics.create(topic, await self._topics.found_or_created(like))

    def remote_topic(self, config: Mapping[str, str]) -> str | None:
        """Return None: this log has the offsets of every source."""
        del config
        return None

    async def read_remote(
        self, topic: str, config: Mapping[str, str], *, awaits_transactions: bool
    ) -> OffsetState:
        """Return no offsets: no source has a remote topic."""
        del topic, config, awaits_transactions
        return OffsetState()

    async def ends(self, topics: Sequence[str]) -> Ends:
        """Return the ends. A transaction here is one append, so none is ever open."""
        return await self._written.log.ends(topics)
