"""Archives for tests, and the service's states for the same logs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.end_vectors import FittedEnds
from controlplane.logs.log_factory import memory_log
from controlplane.logs.memory import MemoryLog
from controlplane.projection.loader import load
from controlplane.projection.past_states import cut_at, ends_now
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.segments.segment_files import SCHEMA, SegmentSizes, opened, row_groups
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.capture.log_capture import CaptureResult, CaptureTarget, LogCapture
from replay.capture.secrets import SecretPolicy, kept_secrets
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.kernels.batches import batch

NAME = "fleet-1"

SMALL = SegmentSizes(7, 3)
"""Sizes that give short logs many segments, each with several row groups."""


def capture(
    folder: Path,
    log: MemoryLog,
    *,
    name: str = NAME,
    goes_on: bool = True,
    secrets: SecretPolicy | None = None,
    sizes: SegmentSizes = SMALL,
) -> CaptureResult:
    """Capture a log into an archive."""
    target = CaptureTarget(
        FolderStore(str(folder)), name, Topics(), secrets or kept_secrets(Topics()), sizes
    )
    return asyncio.run(LogCapture(log, target, goes_on=goes_on).run())


def capture_into(store: ArchiveStore, log: MemoryLog) -> CaptureResult:
    """Capture a log into the archive of any store."""
    target = CaptureTarget(store, NAME, Topics(), kept_secrets(Topics()), SMALL)
    return asyncio.run(LogCapture(log, target, goes_on=True).run())


def log_of(entries: Sequence[Entry]) -> MemoryLog:
    """Log of these entries; its config topic always exists, even without a record."""
    log = asyncio.run(memory_log(list(entries)))
    if not any(entry.topic == Topics().config for entry in entries):
        asyncio.run(log.create_topic(Topics().config, 1))
    return log


def archive(folder: Path, entries: Sequence[Entry], sizes: SegmentSizes = SMALL) -> ArchivedCluster:
    """Capture entries into an archive and return its cluster."""
    capture(folder, log_of(entries), sizes=sizes)
    return cluster_in(folder)


def cluster_in(folder: Path, name: str = NAME) -> ArchivedCluster:
    """Open the archive of a cluster again."""
    return open_cluster(FolderStore(str(folder)), name)


def open_clusters(store: ArchiveStore, names: Sequence[str] = ()) -> list[ArchivedCluster]:
    """Open the archives of the named clusters, once each; without names, of all clusters."""
    return [open_cluster(store, name) for name in layout.selected_clusters(store, names)]


def served(
    log: MemoryLog, moment: str | None, profiles: Sequence[Profile], *, exactly_once: bool = False
) -> list[ClusterState]:
    """States of the service at a moment, one per profile."""
    topics = Topics()

    async def folded() -> list[ClusterState]:
        ends = await ends_now(log, topics, exactly_once=exactly_once)
        if moment is None:
            cut = FittedEnds(ends)
        else:
            cut = await cut_at(log, moment, topics, ends, exactly_once=exactly_once)
        return [
            (
                await load(log, profile, topics=topics, exactly_once=exactly_once, stop=cut.ends)
            ).snapshot()
            for profile in profiles
        ]

    return asyncio.run(folded())


def replayed(
    cluster: ArchivedCluster,
    moment: str | None,
    profiles: Sequence[Profile],
    options: LocalOptions | None = None,
) -> list[ClusterState]:
    """States of the log's archive at a moment, one per profile."""
    local = LocalEngine(cluster, options)
    return local.states(local.plan(moment, profiles), profiles)


def archived(cluster: ArchivedCluster) -> list[Entry]:
    """Records of an archive by topic, partition and offset."""
    return [
        entry
        for (topic, partition), part in cluster.parts.items()
        for segment in part.segments
        for group in row_groups(opened(cluster.store, segment.stored))
        for entry in batch(topic, partition, group.read(*SCHEMA.names)).entries()
    ]


def lasting_days(log: list[Entry]) -> list[Entry]:
    """Copy of a log whose timestamps lie 5,000 times as far apart: minutes become days."""
    first_ms = log[0].timestamp
    return [
        replace(entry, timestamp=first_ms + 5_000 * (entry.timestamp - first_ms)) for entry in log
    ]
