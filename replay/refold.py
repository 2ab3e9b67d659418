"""Folds of in-memory logs through an archive and Spark: a second opinion on the core's fold.

Each log becomes a cluster in a temporary archive. One Spark job reads all clusters. If the state
depends on the order of offset records, a second job reads their ranks. An example is an offset key
in two partitions. Each job takes about as long for a few logs as for hundreds. So callers collect
requests first. `controlplane scenario run --via spark` uses this module.
"""

import asyncio
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import LogUnavailable
from controlplane.logs.log_factory import memory_log
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.segments.segment_files import SIZES, SegmentSizes
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import CaptureTarget, LogCapture
from replay.capture.secrets import kept_secrets
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS, TaskLimits
from replay.engine.spark.engine import SparkEngine
from replay.engine.spark.location import SparkLocation
from replay.engine.spark.session import NoSpark, session


class FoldRequest(Protocol):
    """A log and the release that reads it."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in the one order (`core.order`)."""
        ...

    @property
    def profile(self) -> Profile:
        """The release that reads the log."""
        ...

    @property
    def topics(self) -> Topics:
        """Names of the cluster's topics."""
        ...

    @property
    def exactly_once(self) -> bool:
        """True if the reader skips aborted configs and offsets."""
        ...


class _LogKey(NamedTuple):
    """A log and its way of reading, as a dictionary key."""

    entries: tuple[Entry, ...]
    topics: Topics
    exactly_once: bool


def in_spark(requests: Sequence[FoldRequest]) -> list[ClusterState]:
    """Fold each request in a local Spark session of its own.

    Raises:
        LogUnavailable: Spark cannot run here. Callers do not know the errors of `replay`.
    """
    try:
        with session(SparkLocation()) as started:
            return SparkFold(started)(requests)
    except NoSpark as error:
        raise LogUnavailable(str(error)) from None


class SparkFold:
    """Fold logs through archives and Spark, all logs together.

    `sizes` and `limits` set how finely a log is cut; the result does not depend on them.
    """

    def __init__(
        self, started: SparkSession, sizes: SegmentSizes = SIZES, limits: TaskLimits = LIMITS
    ) -> None:
        self._spark = SparkEngine(started, limits)
        self._sizes = sizes

    def __call__(self, requests: Sequence[FoldRequest]) -> list[ClusterState]:
        """Return the state of each request after its last entry."""
        readers: dict[_LogKey, list[Profile]] = {}
        for request in requests:
            profiles = readers.setdefault(_log(request), [])
            if request.profile not in profiles:
                profiles.append(request.profile)
        with TemporaryDirectory(prefix="replay-") as folder:
            results = self._spark.states(self._queries(FolderStore(folder), readers))
        by_reader = dict(zip(readers, results, strict=True))
        return [
            by_reader[_log(request)][readers[_log(request)].index(request.profile)]
            for request in requests
        ]

    def _queries(
        self, store: FolderStore, readers: Mapping[_LogKey, Sequence[Profile]]
    ) -> list[StateQuery]:
        """Archive each log and return its query."""
        queries = []
        for number, (log, profiles) in enumerate(readers.items()):
            target = CaptureTarget(
                store, f"log-{number}", log.topics, kept_secrets(log.topics), self._sizes
            )
            cluster = asyncio.run(_archived(log, target))
            local = LocalEngine(cluster, LocalOptions(log.exactly_once))
            queries.append(StateQuery(local, local.plan(None, profiles), profiles))
        return queries


def _log(request: FoldRequest) -> _LogKey:
    return _LogKey(request.entries, request.topics, request.exactly_once)


async def _archived(log: _LogKey, target: CaptureTarget) -> ArchivedCluster:
    memory = await memory_log(list(log.entries))
    if log.topics.config not in await memory.topics():
        await memory.create_topic(log.topics.config, 1)
    return (await LogCapture(memory, target, goes_on=False).run()).cluster
