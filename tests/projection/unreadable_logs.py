"""A log with topics that its user may see, but not read."""

from collections.abc import AsyncIterator, Iterable, Mapping

from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.logs.log import LogError, LogNotUsable
from controlplane.logs.memory import MemoryLog


def refusal(topic: str) -> str:
    """Message of the error of a read."""
    return f"topic {topic} may not be read: allow this user READ and DESCRIBE on it"


class PartlyReadableLog(MemoryLog):
    """Log that refuses the records of the topics in `refused`, as brokers with access rules do."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def unreadable(self, topics: Iterable[str]) -> Mapping[str, LogError]:
        """Return the refused ones of these topics."""
        return {topic: LogNotUsable(refusal(topic)) for topic in self.refused.intersection(topics)}

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Read the topics; raise for a refused one. A tail reads by this method, too."""
        names = list(topics)
        for failure in (await self.unreadable(names)).values():
            raise failure
        async for batch in super().read(names, start, stop):
            yield batch
