"""Journal of the steps of a plan, each with the records that it has written."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controlplane.core.commands import CommandRequest
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of, in_order
from controlplane.core.plan import AnyAction, Step
from controlplane.logs.log import ReadableLog


class JournalStep(NamedTuple):
    """Executed step of a plan: its records, or its action outside of the log."""

    request: CommandRequest
    step: str
    entries: Sequence[Entry]
    action: AnyAction | None = None


class Journal:
    """Collects executed steps; records of `unseen` topics are left out."""

    def __init__(self, log: ReadableLog, unseen: Collection[str]) -> None:
        self._log = log
        self._unseen = unseen
        self._ends: dict[str, Sequence[int]] = {}
        self._executed: list[JournalStep] = []

    async def begin(self) -> None:
        """Skip the records that are in the log now."""
        await self._new_entries()
        self._executed = []

    async def note(self, request: CommandRequest, step: Step) -> None:
        """Add an executed step, with the records since the last one."""
        self._executed.append(
            JournalStep(request, step.name, await self._new_entries(), step.action)
        )

    def end(self) -> list[JournalStep]:
        """Return all steps since `begin`, with their records."""
        return self._executed

    async def _new_entries(self) -> list[Entry]:
        """Records since the last call, sorted by `core.order`."""
        topics = [topic for topic in await self._log.topics() if topic not in self._unseen]
        ends = await self._log.ends(topics)
        batches = [batch async for batch in self._log.read(topics, self._ends, ends)]
        self._ends = dict(ends)
        return in_order(entries_of(batches))
