"""Archives for tests, and what the service says of the same log: two ways to one state."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from controlplane.asof import cut_at, ends_now
from controlplane.core.entry import Entry
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.loading import load
from controlplane.logs.memory import MemoryLog
from controlplane.logs.opening import memory_log
from replay.archive.cluster import Cluster, open_cluster
from replay.archive.segments import Sizes
from replay.archive.store import Folder, Store
from replay.capture.capture import Capture, Captured, Target
from replay.capture.secrets import Secrets, kept
from replay.engine.local import Local, Options

NAME = "fleet-1"

SMALL = Sizes(7, 3)
"""So small that short logs have many segments, and those several row groups."""


def capture(
    folder: Path,
    log: MemoryLog,
    *,
    name: str = NAME,
    goes_on: bool = True,
    secrets: Secrets | None = None,
    sizes: Sizes = SMALL,
) -> Captured:
    """What a capture of a log into an archive came to."""
    target = Target(Folder(str(folder)), name, Topics(), secrets or kept(Topics()), sizes)
    return asyncio.run(Capture(log, target, goes_on=goes_on).run())


def capture_into(store: Store, log: MemoryLog) -> Captured:
    """The same, wherever the archive lies."""
    target = Target(store, NAME, Topics(), kept(Topics()), SMALL)
    return asyncio.run(Capture(log, target, goes_on=True).run())


def log_of(entries: Sequence[Entry]) -> MemoryLog:
    """A log that holds these entries, and whatever topics a cluster must have."""
    log = asyncio.run(memory_log(list(entries)))
    if not any(entry.topic == Topics().config for entry in entries):
        asyncio.run(log.create_topic(Topics().config, 1))
    return log


def archive(folder: Path, entries: Sequence[Entry], sizes: Sizes = SMALL) -> Cluster:
    """An archive of these entries."""
    capture(folder, log_of(entries), sizes=sizes)
    return cluster_in(folder)


def cluster_in(folder: Path, name: str = NAME) -> Cluster:
    """The archive of a cluster, opened anew."""
    return open_cluster(Folder(str(folder)), name)


def served(
    log: MemoryLog, moment: str | None, profiles: Sequence[Profile], *, exactly_once: bool = False
) -> list[ClusterState]:
    """What the service knows of a log at a moment."""
    topics = Topics()

    async def folded() -> list[ClusterState]:
        ends = await ends_now(log, topics)
        cut = ends if moment is None else (await cut_at(log, moment, topics, ends)).ends
        return [
            (await load(log, one, topics=topics, exactly_once=exactly_once, stop=cut)).snapshot()
            for one in profiles
        ]

    return asyncio.run(folded())


def replayed(
    cluster: Cluster,
    moment: str | None,
    profiles: Sequence[Profile],
    options: Options | None = None,
) -> list[ClusterState]:
    """What the archive of the same log knows."""
    local = Local(cluster, options)
    return local.states(local.plan(moment, profiles), profiles)
