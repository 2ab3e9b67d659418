"""A log named on the command line: opened, read up to a moment, folded; its problems printed."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.fold import Fold
from controlplane.core.order import Ends, entries_of
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.end_vectors import FittedEnds
from controlplane.logs.log import OFFSET_LIMIT, ReadableLog
from controlplane.logs.log_factory import open_log
from controlplane.projection.loader import LoadObserver, load
from controlplane.projection.past_states import cut_at, ends_now
from controlplane.terminal.log_options import LogOptions
from controlplane.terminal.output import note
from controlplane.terminal.progress_bar import LogWithProgress

PROBLEMS_SHOWN = 5
"""Number of problems to print, such as lines that are no records; the rest is counted."""

NOWHERE = OFFSET_LIMIT
"""Start offset of a partition that is not read."""


class InputLog(msgspec.Struct, frozen=True):
    """Open log with the reader's options and the end offsets up to which it is read."""

    where: str
    log: ReadableLog
    topics: Topics
    exactly_once: bool
    stop: Ends
    problems: tuple[str, ...] = ()
    cluster_id: str | None = None
    """Id of the cluster or of the embedded log; None: the log has none, such as a dump."""
    assumed: frozenset[str] = frozenset()
    """Topics that may have more partitions than the log shows (`OpenedLog.assumed`)."""

    async def fold(
        self, profile: Profile, *, trace: bool = False, observer: LoadObserver | None = None
    ) -> Fold:
        """Fold the log like a worker of this release; `trace` keeps the causes of offsets, too."""
        return await load(
            self.log,
            profile,
            topics=self.topics,
            exactly_once=self.exactly_once,
            trace=trace,
            stop=self.stop,
            observer=observer,
        )

    async def state(self, profile: Profile, *, trace: bool = False) -> ClusterState:
        """State of a worker of this release after reading the log."""
        return (await self.fold(profile, trace=trace)).snapshot()

    async def at(self, moment: str) -> "InputLog":
        """The same log up to another point in time.

        Raises:
            UnknownMoment: the log has no such point.
        """
        cut = await _cut(self.log, moment, self.topics, exactly_once=self.exactly_once)
        _print_problems(self.where, cut.notices)
        return msgspec.structs.replace(self, stop=dict(sorted(cut.ends.items())))

    def batches(self, topics: Iterable[str] | None = None) -> AsyncIterator[Batch]:
        """The records up to `stop`, optionally only those of some topics, in batches."""
        stop = self.stop if topics is None else {topic: self.stop[topic] for topic in topics}
        return self.log.read(list(stop), stop=stop)

    async def entries(self) -> list[Entry]:
        """The records up to `stop`, in a list."""
        return list(entries_of([batch async for batch in self.batches()]))

    async def records(self, wanted: Iterable[Position]) -> dict[Position, Entry]:
        """The records at these positions, in one pass over the smallest range with all of them."""
        positions = set(wanted)
        start, stop = await self._range(positions)
        batches = [batch async for batch in self.log.read(list(stop), start, stop)] if stop else []
        return {
            entry.position: entry for entry in entries_of(batches) if entry.position in positions
        }

    async def _range(self, positions: set[Position]) -> tuple[Ends, Ends]:
        """Start and end offsets by partition; partitions without a position have an empty range."""
        partitions = await self.log.topics() if positions else {}
        start: dict[str, list[int]] = {}
        stop: dict[str, list[int]] = {}
        for topic, partition, offset in positions:
            begins = start.setdefault(topic, [NOWHERE] * partitions[topic])
            ends = stop.setdefault(topic, [0] * partitions[topic])
            begins[partition] = min(begins[partition], offset)
            ends[partition] = max(ends[partition], offset + 1)
        for topic, ends in stop.items():
            start[topic] = [min(a, b) for a, b in zip(start[topic], ends, strict=True)]
        return start, stop

    @property
    def document_fields(self) -> dict[str, Any]:
        """Fields about the log that every JSON document has."""
        read = {topic: list(ends) for topic, ends in self.stop.items()}
        return {"log": self.where, "read_up_to": read, "problems": list(self.problems)}


@asynccontextmanager
async def opened(
    where: str, reading: LogOptions, *, exactly_once: bool, as_of: str | None = None
) -> AsyncIterator[InputLog]:
    """Open a log for reading up to `as_of` (default: its end), and close it again.

    Problems of the log are printed after the block, also if it ends with `SystemExit`.

    Raises:
        LogError: it cannot be opened.
        UnknownMoment: it has no such point in time.
    """
    opened_log = await open_log(where, reading.opening(exactly_once=exactly_once))
    log, topics = LogWithProgress(opened_log.log, where), reading.topics
    try:
        cut = await _cut(log, as_of, topics, exactly_once=exactly_once)
        stop = dict(sorted(cut.ends.items()))
        problems = (*cut.notices, *opened_log.problems)
        cluster_facts = opened_log.cluster_id, opened_log.assumed
        source = InputLog(where, log, topics, exactly_once, stop, problems, *cluster_facts)
        try:
            yield source
        except SystemExit:  # the block has printed its result, such as a hazard
            _print_problems(where, problems)
            raise
        # Not after another exception: most errors already name the problem.
        _print_problems(where, problems)
    finally:
        await log.close()


class LogContent(NamedTuple):
    """Every record of a log, and its topics with their number of partitions."""

    entries: list[Entry]
    partitions: dict[str, int]
    assumed: frozenset[str] = frozenset()
    """Topics that may have more partitions (`OpenedLog.assumed`)."""


async def read_whole(where: str, reading: LogOptions) -> LogContent:
    """Every record of every topic of a log.

    Raises:
        LogError: it cannot be opened or read.
    """
    opened_log = await open_log(where, reading.opening())
    log = LogWithProgress(opened_log.log, where)
    try:
        _print_problems(where, opened_log.problems)
        partitions = dict(await log.topics())
        batches = log.read(list(partitions))
        entries = list(entries_of([batch async for batch in batches]))
        return LogContent(entries, partitions, opened_log.assumed)
    finally:
        await log.close()


async def _cut(
    log: ReadableLog, as_of: str | None, topics: Topics, *, exactly_once: bool
) -> FittedEnds:
    """End offsets of the worker's topics at a moment; None: now."""
    now = await ends_now(log, topics, exactly_once=exactly_once)
    if as_of is None:
        return FittedEnds(now)
    return await cut_at(log, as_of, topics, now, exactly_once=exactly_once)


def _print_problems(where: str, problems: Sequence[str]) -> None:
    for problem in problems[:PROBLEMS_SHOWN]:
        note(f"{where}: {problem}")
    unlisted = len(problems) - PROBLEMS_SHOWN
    if unlisted > 0:
        note(f"{where}: … and {unlisted} more; `controlplane inspect -o json` has them all")
