"""Steps as the log shows them: the records that are new since the last look."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controlplane.core.commands import CommandRequest
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import AnyAction, Step
from controlplane.logs.log import ReadableLog


class JournalStep(NamedTuple):
    """A step of a plan that has been done: the records it has left, or the action it was."""

    asked: CommandRequest
    step: str
    entries: Sequence[Entry]
    action: AnyAction | None = None


class Journal:
    """Notes deeds. `unseen` are topics of which it takes no notice."""

    def __init__(self, log: ReadableLog, unseen: Collection[str]) -> None:
        self._log = log
        self._unseen = unseen
        self._ends: dict[str, Sequence[int]] = {}
        self._deeds: list[JournalStep] = []

    async def begin(self) -> None:
        """Skip the records that are in the log now."""
        await self._news()
        self._deeds = []

    async def note(self, asked: CommandRequest, step: Step) -> None:
        """A step has been done."""
        self._deeds.append(JournalStep(asked, step.name, await self._news(), step.action))

    def end(self) -> list[JournalStep]:
        """All deeds since the beginning."""
        return self._deeds

    async def _news(self) -> list[Entry]:
        topics = [topic for topic in await self._log.topics() if topic not in self._unseen]
        ends = await self._log.ends(topics)
        batches = [batch async for batch in self._log.read(topics, self._ends, ends)]
        self._ends = dict(ends)
        return in_order(entries_of(batches))
