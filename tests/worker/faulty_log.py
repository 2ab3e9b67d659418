"""Log in memory whose appends fail or wait, as a test says."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.logs.log import LogError, LogNotUsable, Record
from controlplane.logs.memory import MemoryLog


class FaultyLog(MemoryLog):
    """Log with faults by topic. Appends to other topics work."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, list[LogError]] = {}
        """Failures of the next appends to a topic, in their order; nothing is appended then."""
        self.topic_failures: list[LogError] = []
        """Failures of the next questions for topics."""
        self.creation_failures: list[LogError] = []
        """Failures of the next creations of topics."""
        self.refused_keys: set[bytes] = set()
        """Keys of records that are refused for ever."""
        self.without_ends: set[str] = set()
        """`ends` fails if it is called for exactly these topics."""
        self.appended: list[list[str]] = []
        """Topics of the records of each append, in their order."""
        self.held: set[str] = set()
        """Topics whose appends wait until `release`."""
        self.waiting: set[str] = set()
        """Topics with an append that waits."""
        self.created: list[str] = []
        """Topics that were created, in their order."""
        self._released = asyncio.Event()

    def release(self, topic: str) -> None:
        """Let waiting appends to a topic continue."""
        self.held.discard(topic)
        self._released.set()
        self._released = asyncio.Event()

    async def topics(self) -> Mapping[str, int]:
        """Return the topics, or raise the next failure."""
        _raise_first(self.topic_failures)
        return await super().topics()

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or raise the next failure."""
        _raise_first(self.creation_failures)
        await super().create_topic(topic, partitions)
        self.created.append(topic)

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the ends of topics, or fail."""
        topics = [*topics]
        if self.without_ends and self.without_ends == {*topics}:
            raise LogNotUsable("no ends")
        return await super().ends(topics)

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append records; wait or raise where the test says so."""
        for topic in dict.fromkeys(record.topic for record in records):
            _raise_first(self.failures.get(topic, []))
            while topic in self.held:
                self.waiting.add(topic)
                await self._released.wait()
            self.waiting.discard(topic)
        if self.refused_keys & {record.key for record in records}:
            raise LogNotUsable("refused")
        positions = await super().append(records, epoch)
        self.appended.append([record.topic for record in records])
        return positions


def _raise_first(failures: list[LogError]) -> None:
    if failures:
        raise failures.pop(0)
