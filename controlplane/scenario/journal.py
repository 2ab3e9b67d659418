"""What is done, step by step, as the log itself tells: what is new since it was looked at."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controlplane.core.commands import Asked
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import AnyAction, Step
from controlplane.logs.log import ReadableLog


class Deed(NamedTuple):
    """A step of a plan that has been done: the records it has left, or the action it was."""

    asked: Asked
    step: str
    entries: Sequence[Entry]
    action: AnyAction | None = None


class Journal:
    """Notes deeds. `unseen` are topics of which it takes no notice."""

    def __init__(self, log: ReadableLog, unseen: Collection[str]) -> None:
        self._log = log
        self._unseen = unseen
        self._ends: dict[str, Sequence[int]] = {}
        self._deeds: list[Deed] = []

    async def begin(self) -> None:
        """What there is now has been written before."""
        await self._news()
        self._deeds = []

    async def note(self, asked: Asked, step: Step) -> None:
        """A step has been done."""
        self._deeds.append(Deed(asked, step.name, await self._news(), step.action))

    def end(self) -> list[Deed]:
        """All deeds since the beginning."""
        return self._deeds

    async def _news(self) -> list[Entry]:
        topics = [topic for topic in await self._log.topics() if topic not in self._unseen]
        ends = await self._log.ends(topics)
        batches = [batch async for batch in self._log.read(topics, self._ends, ends)]
        self._ends = dict(ends)
        return in_order(entries_of(batches))
