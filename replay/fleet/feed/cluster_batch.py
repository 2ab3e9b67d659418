"""Task of a change feed: the part of one cluster in one batch.

It writes the rows of the cluster and its checkpoint. Neither counts before the batch is committed,
so the task can be repeated.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.audit.audit_pass import AuditSubject
from replay.audit.shared_topics import SharedResources
from replay.audit.thresholds import Thresholds
from replay.cluster_problem import OF_ONE_CLUSTER
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.local_engine import LocalOptions
from replay.engine.states.state_digest import digest
from replay.errors import ArchiveBusy, NotWritable
from replay.findings import Finding
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.feed.cluster_checkpoint import CheckpointFiles, ClusterCheckpoint
from replay.fleet.feed.feed_lock import check_lease
from replay.fleet.feed.feed_tables import (
    FINDING_CHANGES,
    STATE_CHANGES,
    FeedTables,
    cluster_stem,
)
from replay.fleet.feed.followed_audit import AuditFollower
from replay.fleet.feed.followed_state import (
    FollowedState,
    StateFollower,
    offset_positions,
    plans_between,
)
from replay.fleet.feed.positions import (
    CheckpointMismatch,
    ClusterPosition,
    check_follows,
    latest_ms,
)
from replay.fleet.feed.snapshot_store import FeedSnapshotStore
from replay.fleet.feed.state_changes import StateStep
from replay.tables.cells import RowDocument, json_cell
from replay.tables.finding_rows import finding_row

_ATTEMPTS = 5
"""Maximum attempts per cluster; a merge, which is rare, may remove files while they are read."""


class FeedContext(msgspec.Struct, frozen=True):
    """Archive, tables, checkpoint and reading options of a feed.

    This is a value that can be sent to other processes.
    """

    source: ArchiveSource
    tables: FeedTables
    checkpoint: str
    """Path or URL of the checkpoint's folder."""
    settings: HadoopSettings
    """Settings of the checkpoint's object store."""
    profile: Profile
    limits: Thresholds

    @property
    def store(self) -> ArchiveStore:
        """Store of the checkpoint; a stream of Spark keeps its own files beside it."""
        return open_store(f"{self.checkpoint.rstrip('/')}/feed", self.settings)

    def files_of(self, cluster: str) -> CheckpointFiles:
        """Files of a cluster in the checkpoint."""
        return CheckpointFiles(self.store, cluster)


class ReadPart(msgspec.Struct, frozen=True):
    """Position up to which a cluster was read, and the batch that read it."""

    position: ClusterPosition
    batch: int


class ClusterWork(msgspec.Struct, frozen=True):
    """Records of one cluster in a batch: those between two positions."""

    cluster: str
    since: ReadPart | None
    """None: from the first record on."""
    target: ClusterPosition


class ClusterOutcome(msgspec.Struct, frozen=True):
    """Row of the cluster in `schemas.BATCHES`, and what other clusters may share with it."""

    row: RowDocument
    shares: SharedResources | None = None
    """None if the cluster cannot be read."""


class ClusterBatch(msgspec.Struct, frozen=True):
    """Task: fold and audit the new records of one cluster, and write what they have changed."""

    context: FeedContext
    number: int
    lease: str | None = None
    """Lease of the checkpoint; a task whose feed has lost it writes nothing."""

    def __call__(self, work: ClusterWork) -> Iterator[ClusterOutcome]:
        """Yield the outcome, or the problem of an unreadable cluster.

        Raises:
            NotWritable: the tables or the checkpoint cannot be written.
            LeaseLost: another feed has taken the checkpoint over.
        """
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                yield self._outcome(work)
            except ArchiveBusy as error:
                problem = str(error)
            except NotWritable:
                raise
            except OF_ONE_CLUSTER as error:
                problem = str(error)
                break
            else:
                return
        yield ClusterOutcome(problem_row(self.context, work.cluster, problem))

    def _opened(self, work: ClusterWork) -> ArchivedCluster:
        cluster = self.context.source.cluster(work.cluster)
        if work.since is not None:
            check_follows(cluster, work.since.position)
        check_follows(cluster, work.target)
        return cluster

    def _outcome(self, work: ClusterWork) -> ClusterOutcome:
        cluster, since = self._opened(work), work.since
        files = self.context.files_of(work.cluster)
        thinned = any(part.removed for part in cluster.parts.values())
        last = files.read(since.batch, hashed=thinned) if since else None
        if since and last is None and thinned:
            raise CheckpointMismatch(
                f"the checkpoint of batch {since.batch} is missing, damaged or of another version, "
                "and retention has removed records of this cluster. Start a new feed in other "
                "folders"
            )
        check_lease(files.store, self.lease)
        files.keep_only({since.batch: last} if since else {})
        cluster = cluster._replace(store=FeedSnapshotStore(cluster.store, files.store))
        begin, ends = since.position.ends if since else None, work.target.ends
        states = StateFollower(
            cluster,
            LocalOptions(self.context.source.exactly_once, self.context.source.derived),
            self.context.profile,
        )
        before, after = states.before(last, begin), states.after(last, ends)
        findings = self._audited(cluster, files).changes(last.audit if last else None, begin, ends)
        positions = offset_positions(
            cluster,
            self.context.profile,
            plans_between(cluster, begin, ends),
            exactly_once=self.context.source.exactly_once,
        )
        step = StateStep(work.cluster, before, after.state, positions)
        check_lease(files.store, self.lease)
        files.write(self.number, ClusterCheckpoint(after.snapshot, after.cut, findings.checkpoint))
        counts = {
            STATE_CHANGES: self._write(STATE_CHANGES, work.cluster, step.rows()),
            FINDING_CHANGES: self._write(
                FINDING_CHANGES, work.cluster, change_rows(findings.raised, findings.resolved)
            ),
        }
        time_ms = latest_ms(cluster, ends)
        row = _row(work, after) | counts | {"latest_ms": None if time_ms < 0 else time_ms}
        return ClusterOutcome(row, findings.shares)

    def _audited(self, cluster: ArchivedCluster, files: CheckpointFiles) -> AuditFollower:
        context = self.context
        subject = AuditSubject(
            cluster.name,
            context.profile,
            cluster.topics,
            context.source.exactly_once,
            context.limits,
            may_be_older=ArchiveCertainty(cluster).may_be_older,
        )
        return AuditFollower(cluster, subject, files)

    def _write(self, table: str, cluster: str, rows: Iterator[RowDocument]) -> int:
        check = partial(check_lease, self.context.store, self.lease)
        return self.context.tables.write(table, self.number, cluster_stem(cluster), rows, check)


def _row(work: ClusterWork, after: FollowedState) -> RowDocument:
    return {
        "cluster": work.cluster,
        "release": after.state.profile.release,
        "since": json_cell(work.since.position.ends) if work.since else None,
        "as_of": json_cell(after.cut),
        "head": work.target.head,
        "digest": digest(after.state),
    }


def problem_row(context: FeedContext, cluster: str, problem: str) -> RowDocument:
    """Row of `schemas.BATCHES` for a cluster that was not read."""
    return {"cluster": cluster, "release": context.profile.release, "problem": problem}


def change_rows(raised: Sequence[Finding], resolved: Sequence[Finding]) -> Iterator[RowDocument]:
    """Yield rows of `schemas.FINDING_CHANGES`: resolved findings, then raised ones."""
    for change, findings in (("resolved", resolved), ("raised", raised)):
        for finding in findings:
            yield {"change": change, **finding_row(finding)}
