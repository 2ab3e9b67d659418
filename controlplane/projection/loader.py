"""Loader: reads the topics that a worker reads at start, and folds them in the one order.

A worker reads three topics; the loader also reads this project's command topic if it exists. The
connector configs name further offsets topics, so the config topic comes first. If the log has
snapshots, only records after them are read (`snapshot_lookup`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from controlplane.core.entry import Batch
from controlplane.core.fold import Fold
from controlplane.core.fold.bulk import BulkLoader
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.views import offsets_topics
from controlplane.logs.cluster_topics import missing_topics
from controlplane.logs.log import ReadableLog
from controlplane.projection.snapshot_lookup import (
    FoundSnapshot,
    StartSnapshots,
    precedes_snapshot_end,
    start_snapshots,
    starts_of,
)


class LoadObserver(Protocol):
    """Receives the batches that a load reads, so that the log need not be read again for them."""

    def begin(self, topics: Iterable[str], resumed: Iterable[str]) -> None:
        """Note that these topics are now read, perhaps again; `resumed` start after snapshots."""
        ...

    def look_at(self, batch: Batch) -> None:
        """Examine the next batch of a partition, in offset order."""
        ...


async def load(  # noqa: PLR0913 - settings, by name only
    log: ReadableLog,
    profile: Profile,
    *,
    topics: Topics | None = None,
    exactly_once: bool = False,
    trace: bool = False,
    stop: Ends | None = None,
    observer: LoadObserver | None = None,
) -> Fold:
    """Fold a log as a worker of this release does at start, up to `stop` (default: the end).

    `observer` sees every batch that is read for the fold.

    Raises:
        LogNotUsable: the log has no config topic.
    """
    fold = Fold(profile, topics=topics, exactly_once=exactly_once, trace=trace)
    ends = stop if stop is not None else await _ends(log, fold.topics)
    await load_topics(log, fold, [fold.topics.config], ends, observer)
    if stop is None:
        connector_topics = await own_topics(log, fold)
        ends = {**ends, **await log.ends(connector_topics)}
    other_topics = [topic for topic in ends if topic != fold.topics.config]
    await load_topics(log, fold, other_topics, ends, observer)
    return fold


async def load_topics(
    log: ReadableLog,
    fold: Fold,
    topics: Iterable[str],
    ends: Ends,
    observer: LoadObserver | None = None,
) -> None:
    """Fold topics that the fold has not read yet, up to `ends`; start from their snapshots."""
    stop = {topic: ends[topic] for topic in topics}
    snapshots = await start_snapshots(log, fold, stop)
    loading = await _load_batches(log, fold, snapshots, stop, observer)
    for topic, snapshot in snapshots.items():
        fold.adopt(topic, snapshot.part, snapshot.header.ends)
    # In a thread: it may take long, and would block the event loop.
    contested = await asyncio.to_thread(loading.finish)
    # Contested keys are in several partitions or have two spellings, so the order of their records
    # counts (`core.fold.bulk`).
    if contested:
        batches = [batch async for batch in _read(log, contested, snapshots, stop)]
        await asyncio.to_thread(loading.settle, batches, contested)
    for topic, parts in stop.items():
        for partition, end in enumerate(parts):
            fold.advance(topic, partition, end)


async def _load_batches(
    log: ReadableLog,
    fold: Fold,
    snapshots: dict[str, FoundSnapshot],
    stop: Ends,
    observer: LoadObserver | None,
) -> BulkLoader:
    """Read the records after the snapshots.

    A record is late if it precedes the end of its topic's snapshot in the one order. After a late
    record, that snapshot is dropped from `snapshots`, and everything is read again.
    """
    while True:
        loading, partitions_read, contradicted = BulkLoader(fold), set(), set()
        if observer is not None:
            observer.begin(stop, snapshots)
        async for batch in _read(log, stop, snapshots, stop):
            if (batch.topic, batch.partition) not in partitions_read and precedes_snapshot_end(
                batch, snapshots
            ):
                contradicted.add(batch.topic)
            partitions_read.add((batch.topic, batch.partition))
            loading.add(batch)
            if observer is not None:
                observer.look_at(batch)
        if not contradicted:
            return loading
        for topic in contradicted:
            del snapshots[topic]


async def read_topics(log: ReadableLog, topics: Topics) -> list[str]:
    """Return those of Connect's topics and the command topic that the log has.

    Raises:
        LogNotUsable: the log has no config topic.
    """
    present = await log.topics()
    missing_topics(topics, present)
    names = (topics.config, topics.offsets, topics.status, topics.commands)
    return [topic for topic in names if topic in present]


async def own_topics(log: ReadableLog, fold: Fold) -> list[str]:
    """Return the existing offsets topics that belong to single connectors (KIP-618), sorted."""
    state = fold.snapshot()
    configured = {
        topic for name in state.config.connectors for topic in offsets_topics(state, name)
    }
    present = await log.topics() if configured - {fold.topics.offsets} else {}
    return sorted(
        topic for topic in configured if topic != fold.topics.offsets and topic in present
    )


async def _ends(log: ReadableLog, topics: Topics) -> Ends:
    return await log.ends(await read_topics(log, topics))


def _read(
    log: ReadableLog, topics: Iterable[str], snapshots: StartSnapshots, stop: Ends
) -> AsyncIterator[Batch]:
    names = list(topics)
    return log.read(names, starts_of(snapshots), {topic: stop[topic] for topic in names})
