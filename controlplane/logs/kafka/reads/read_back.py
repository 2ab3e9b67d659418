"""Outcome of a transaction, read back from the records that it has written."""

from collections.abc import Sequence

from controlplane.core.entry import Position
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads.reader import KafkaReader, Retry
from controlplane.logs.log import LogUnavailable

_UNDECIDED = LogUnavailable("a transaction is still ending")


class ReadBackReader:
    """Looks for records of a transaction whose commit was not answered."""

    def __init__(self, cluster: Cluster, limits: ReadLimits) -> None:
        self._limits = limits
        self._stable = KafkaReader(cluster, "read_committed", limits, None)

    async def committed(self, written: Sequence[Position]) -> bool:
        """True if the records at these positions are committed, False if they were aborted.

        Raises:
            LogError: they cannot be read.
        """
        topic, partition, offset = written[0]
        retry = Retry(self._limits, None)
        while (ends := await self._stable.ends([topic]))[topic][partition] <= offset:
            await retry.after(_UNDECIDED, progress=0)
        start, stop = [*ends[topic]], [*ends[topic]]
        start[partition], stop[partition] = offset, offset + 1
        async for batch in self._stable.read([topic], {topic: start}, {topic: stop}):
            return not any(entry.aborted for entry in batch.entries())
        return False
