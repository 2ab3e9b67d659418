"""Place of an archive and the way of reading it, as a value that can be sent to tasks."""

from functools import cached_property, partial

import msgspec

from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.integrity import CheckedStore, checked
from replay.archive.stores.hadoop_settings import NONE, HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.cluster_records import ClusterRecords
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.ordered_records import doubts_at, missing, records
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.spark.location import anywhere
from replay.errors import ReplayError


class UnreadableCluster(ReplayError):
    """A cluster cannot be queried. The message names the cluster and the reason."""


class ArchiveSource(msgspec.Struct, frozen=True, dict=True):
    """An archive, and the way of reading it."""

    where: str
    """Path or URL."""
    settings: HadoopSettings = NONE
    """Settings of the archive's object store."""
    trusted: bool = False
    """True if hashes of files are not compared."""
    exactly_once: bool = False
    """Skip aborted configs and offsets, as workers with exactly-once support do."""
    derived: bool = True
    """Allow snapshots and winners in place of the records they were made from.

    Winners are the rows of a segment that may still count (`archive.segments.winners`).
    """

    @property
    def anywhere(self) -> "ArchiveSource":
        """Archive by its absolute path, for tasks that run in another folder."""
        return msgspec.structs.replace(self, where=anywhere(self.where))

    @cached_property
    def store(self) -> ArchiveStore:
        """Store of the archive. Each process opens it once, for all clusters."""
        return open_store(self.where, self.settings)

    def cluster(self, name: str) -> ArchivedCluster:
        """Open a cluster.

        Raises:
            NoArchive: the cluster has no archive.
            ArchiveCorrupt: its manifests are damaged.
        """
        cluster = open_cluster(self.store, name)
        return cluster if self.trusted else checked(cluster)

    def local(self, name: str, *, derived: bool = True) -> LocalEngine:
        """Open a cluster for queries; with `derived=False` only its segments are read."""
        options = LocalOptions(self.exactly_once, derived and self.derived)
        return LocalEngine(self.cluster(name), options)

    def records(self, name: str, moment: str | None) -> ClusterRecords:
        """Open a cluster for a pass over its original records, up to a moment.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        cluster = self.cluster(name)
        certainty = ArchiveCertainty(cluster)
        support = self.exactly_once
        doubts = doubts_at(certainty, moment, exactly_once=support)
        return ClusterRecords(
            name,
            cluster.topics,
            support,
            partial(records, cluster, moment, exactly_once=support),
            cluster.chain.head,
            missing(cluster, moment, exactly_once=support),
            doubts.present,
            doubts.past,
            certainty.may_be_older,
        )


def check_files_of(cluster: ArchivedCluster, plan: ReadPlan) -> None:
    """Compare all files of a plan with their hashes, so that no row of a damaged cluster is made.

    Raises:
        ArchiveCorrupt: a file is missing or altered.
    """
    if isinstance(cluster.store, CheckedStore):
        cluster.store.check(plan.stored)
