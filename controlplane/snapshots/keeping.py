"""Making snapshots: whoever holds a log open for writing asks for it from time to time."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.core.evolve import Fold
from controlplane.core.evolve.freezing import freeze, kind_of
from controlplane.core.state import ClusterState
from controlplane.core.watermark import NEVER_MS, Watermark
from controlplane.loading import load_topics
from controlplane.logs.log import ReadableLog
from controlplane.logs.snapshots import Shelf, shelf_of
from controlplane.snapshots.finding import About, abouts, digest_of, sealed

SLICE_BYTES = 4 * 2**20
"""Bytes that are written in one transaction, beside which appends wait: some ten milliseconds."""


class SnapshotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When snapshots are made, and how many stay."""

    tail_records: int = 10_000
    """Records of a topic behind its newest snapshot after which there is to be a new one. Of the
    config topic, whose records are the dearest, so many are folded in a third of a second; fewer
    would have the state written more often."""

    lateness_ms: Annotated[int, Meta(ge=0)] = 10_000
    """How far behind the latest record of a topic a snapshot ends: by how much the clocks of its
    writers may differ, and an append be overtaken by others. What comes later still costs time,
    never truth: the topic is read whole until its next snapshot."""

    kept: int = 4
    """Snapshots of a topic that stay: the older ones serve questions about the past. Each is as
    large as what is known of the topic."""


async def keep_snapshots(
    log: ReadableLog, state: ClusterState, settings: SnapshotSettings | None = None
) -> list[str]:
    """Make a snapshot of every topic that has grown enough; answers these topics.

    `state` tells who reads the log, and up to where. Costs two short reads for each topic where
    there is nothing to do. May be cancelled at any time; a snapshot that is not complete is none.
    On a log that keeps no snapshots nothing is done.

    Raises:
        LogError: the log cannot be read or written. There are no new snapshots then.
    """
    shelf, settings = shelf_of(log), settings or SnapshotSettings()
    made = []
    if shelf is not None:
        for topic, upto in state.ends_by_topic.items():
            maker = _Maker(log, shelf, state, topic, settings)
            if await maker.is_due(upto) and await maker.make(upto):
                made.append(topic)
    return made


class _Maker:
    """Makes a snapshot of one topic."""

    def __init__(
        self,
        log: ReadableLog,
        shelf: Shelf,
        state: ClusterState,
        topic: str,
        settings: SnapshotSettings,
    ) -> None:
        self._log = log
        self._shelf = shelf
        self._topic = topic
        self._settings = settings
        self._fold = Fold(state.profile, topics=state.topics, exactly_once=state.exactly_once)
        self._kind = kind_of(self._fold, topic)

    async def is_due(self, upto: Sequence[int]) -> bool:
        """Whether so much has come since the last one that another one pays.

        That is as many records as the state has rows, too: so what is written for snapshots is in
        proportion to what is written anyway.
        """
        newest = await self._newest()
        seen = newest.seen if newest else (await self._log.starts([self._topic]))[self._topic]
        rows = newest.rows if newest else 0
        return sum(upto) - sum(seen) >= max(self._settings.tail_records, rows)

    async def make(self, upto: Sequence[int]) -> bool:
        """Make one of what has settled up to here; False if records are removed meanwhile."""
        number = await self._shelf.begin(self._topic, self._kind)
        settled = await self._settled(upto)
        await load_topics(self._log, self._fold, [self._topic], {self._topic: settled.ends})
        part = self._fold.part(self._topic)
        digest = digest_of()
        slices = _slices(freeze(part))
        while pieces := await asyncio.to_thread(next, slices, None):
            digest.update(b"".join(pieces))
            if not await self._shelf.add(number, pieces):
                return False
        about = About(settled.ends, settled.latest, upto, part.rows, digest.digest())
        told = sealed(self._topic, self._kind, about)
        return await self._shelf.finish(number, told, self._settings.kept)

    async def _newest(self) -> About | None:
        told = await abouts(self._shelf, self._topic, self._kind)
        return told[0][1] if told else None

    async def _settled(self, upto: Sequence[int]) -> Watermark:
        """Up to where the topic has settled."""
        newest = await self._newest()
        ends, latest = (newest.ends, newest.latest) if newest else ([], [])
        more = len(upto) - len(ends)
        mark = Watermark(
            self._settings.lateness_ms, [*ends, *[0] * more], [*latest, *[NEVER_MS] * more]
        )
        start, stop = {self._topic: mark.ends.copy()}, {self._topic: upto}
        async for batch in self._log.read([self._topic], start, stop):
            await asyncio.to_thread(mark.add, batch)
        return mark


def _slices(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Pieces in order, as many at a time as are written at once, and one at least."""
    some: list[bytes] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size >= SLICE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
