"""Change feed: runs batches, each of which reads the new records of some clusters.

    feed = replay.open("fleet").follow("tables", checkpoint="checkpoint")
    feed.advance()

A batch first writes the checkpoint and the rows of changes of each cluster. Then it writes its own
checkpoint, and last the row of each cluster in `batches`. Only these last rows make the batch
count. After a crash before that, the batch is repeated, and its rows are replaced.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from replay.archive import layout
from replay.audit.shared_topics import in_common
from replay.cluster_problem import ClusterProblem
from replay.engine.executors import Executor
from replay.errors import ArchiveCorrupt, NoArchive, ReplayError
from replay.findings import Finding
from replay.fleet.feed.cluster_batch import (
    ClusterBatch,
    ClusterOutcome,
    ClusterWork,
    FeedContext,
    ReadPart,
    change_rows,
    problem_row,
)
from replay.fleet.feed.feed_lock import CheckpointLock, locked
from replay.fleet.feed.feed_tables import (
    FINDING_CHANGES,
    FLEET,
    FeedTables,
    LockCheck,
    other_feed,
)
from replay.fleet.feed.fleet_checkpoint import (
    FeedReading,
    FleetCheckpoint,
    keep_only,
    read_checkpoint,
    write_checkpoint,
)
from replay.fleet.feed.positions import (
    CheckpointMismatch,
    ClusterLook,
    check_follows,
    cluster_looks,
    followed_names,
)
from replay.tables.cells import RowDocument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class ArchiveFeed:
    """Follows an archive: `advance` by one batch, or `start` a stream of Spark.

    One process at a time writes the tables and the checkpoint of a feed.
    """

    def __init__(
        self,
        context: FeedContext,
        executor: Executor,
        clusters: Sequence[str] = (),
        spark: "SparkSession | None" = None,
    ) -> None:
        self.context = context
        self.clusters = tuple(clusters)
        """Followed clusters; empty means all, also those that are archived later."""
        self._executor = executor
        self._spark = spark
        self._store = context.store
        self._fleet = read_checkpoint(self._store, self.tables.last(), self._reading)
        self._is_first = True
        self.trouble: Exception | None = None
        """Error that has ended a stream; Spark would replace its text."""

    @property
    def tables(self) -> FeedTables:
        """Tables to which the feed writes its rows."""
        return self.context.tables

    @property
    def batch(self) -> int:
        """Number of the last batch that counts; -1 before the first."""
        return self._fleet.batch

    @property
    def last_looks(self) -> Mapping[str, ClusterLook]:
        """Last look at each cluster, by name, at the last batch that counts."""
        return self._fleet.looks

    @property
    def unread(self) -> list[str]:
        """Clusters that the last batch could not read."""
        return [work.cluster for work in self._work(self._fleet.looks)]

    @property
    def problems(self) -> list[ClusterProblem]:
        """Followed clusters whose manifests are still unreadable, for the reason of the last look.

        The next batch has a row for any other problem.

        Raises:
            NoArchive: the archive cannot be read.
        """
        store, last = self.context.source.store, self.last_looks
        unreadable = {name for name, look in last.items() if look.problem is not None}
        followed = followed_names(store, self.clusters, self._fleet.read)
        looks = cluster_looks(store, followed & unreadable, {})
        return [
            ClusterProblem(name, look.problem)
            for name, look in looks.items()
            if look.problem is not None and look.is_like(last[name])
        ]

    def check(self) -> None:
        """Check that the archive goes on from the checkpoint; nothing is written.

        Raises:
            CheckpointMismatch: no cluster of the checkpoint fits the archive.
            NoArchive: the archive cannot be read.
        """
        names = sorted(self._fleet.read)
        if not names:
            return
        archived = layout.clusters(self.context.source.store)
        problems = [problem for name in names if (problem := self._mismatch(name, archived))]
        if problems and len(problems) == len(names):
            raise CheckpointMismatch(problems[0])

    def _mismatch(self, name: str, archived: Collection[str]) -> str | None:
        try:
            cluster = self.context.source.cluster(name)
            check_follows(cluster, self._fleet.read[name].position)
        except CheckpointMismatch as error:
            return f"{name}: {error}"
        except NoArchive as error:
            return None if name in archived else f"{name}: {error}"
        except ReplayError:  # the cluster's row of `batches` will name the problem
            return None
        return None

    def advance(self) -> int | None:
        """Read what is new in the archive; return the number of the batch, None without news.

        An unreadable cluster has a problem in its row of `batches`; the others are read.

        Raises:
            CheckpointMismatch: the checkpoint belongs to another archive.
            NoArchive: the archive cannot be read.
            ArchiveBusy: another feed writes the same batch.
            NotWritable: the tables or the checkpoint cannot be written.
        """
        if self._is_first:
            self.check()
        store = self.context.source.store
        names = followed_names(store, self.clusters, self._fleet.read)
        looks = cluster_looks(store, names, {} if self._is_first else self.last_looks)
        if not self._has_news(looks):
            self._is_first = False
            return None
        self.run_batch(self.batch + 1, looks)
        self._is_first = False
        return self.batch

    def _has_news(self, looks: Mapping[str, ClusterLook]) -> bool:
        is_new = any(not look.is_like(self.last_looks.get(name)) for name, look in looks.items())
        return is_new or (self._is_first and bool(self.unread))

    def run_batch(self, number: int, looks: Mapping[str, ClusterLook]) -> bool:
        """Run a batch that reads each cluster up to its position in `looks`.

        Returns False if the batch counts already.

        Raises:
            ArchiveCorrupt: the number is not that of the next batch.
            ArchiveBusy: another feed has written the same batch.
            NotWritable: the tables or the checkpoint cannot be written.
        """
        if number == self.batch:  # a stream died before it had noted the batch
            return False
        if number != self.batch + 1:
            raise ArchiveCorrupt(
                f"the stream continues with batch {number}, but the tables {self.tables.where} "
                f"end with batch {self.batch}. Give the tables and the checkpoint of one feed"
            )
        with locked(self._store) as lock:
            check = partial(self._check_held, lock, number)
            check()
            if self.tables.last() != self.batch:
                raise other_feed(self.tables.where, number)
            task = ClusterBatch(self.context, number, lock.lease)
            self._run(task, looks, check)
        return True

    def _check_held(self, lock: CheckpointLock, number: int) -> None:
        if not lock.is_held():
            raise other_feed(self.tables.where, number)

    def _run(self, task: ClusterBatch, looks: Mapping[str, ClusterLook], check: LockCheck) -> None:
        """Run the tasks of a batch; write the rows and the checkpoint of the whole batch.

        `check` precedes each write: the lease may be lost to another feed at any time.
        """
        number = task.number
        self.tables.clear(number, check)
        every = dict(self._fleet.looks) | dict(looks)
        work = list(self._work(every))
        outcomes = list(chain.from_iterable(self._executor.run(task, work)))
        fleet = self._after(number, every, work, outcomes)
        self._write_between(number, fleet.between, check)
        if not number:
            self.tables.add_empty(number, check)
        check()
        write_checkpoint(self._store, fleet)
        rows = [*self._problems(every), *(outcome.row for outcome in outcomes)]
        check()
        self.tables.commit(number, sorted(rows, key=lambda row: str(row["cluster"])))
        self._fleet = fleet
        keep_only(self._store, number)

    def _work(self, looks: Mapping[str, ClusterLook]) -> list[ClusterWork]:
        """Work of the next batch: each cluster with records that no batch has read yet."""
        read = self._fleet.read
        return [
            ClusterWork(name, read.get(name), look.position)
            for name, look in sorted(looks.items())
            if look.position is not None
            and (name not in read or read[name].position.head != look.position.head)
        ]

    def _after(
        self,
        number: int,
        looks: dict[str, ClusterLook],
        work: Sequence[ClusterWork],
        outcomes: Sequence[ClusterOutcome],
    ) -> FleetCheckpoint:
        """Return the checkpoint of the whole batch."""
        read, shares = dict(self._fleet.read), dict(self._fleet.shares)
        for part, outcome in zip(work, outcomes, strict=True):
            if outcome.shares is not None:
                read[part.cluster] = ReadPart(part.target, number)
                shares[part.cluster] = outcome.shares
        between = tuple(in_common(shares[name] for name in sorted(shares)))
        return msgspec.structs.replace(
            self._fleet, batch=number, looks=looks, read=read, shares=shares, between=between
        )

    def _problems(self, looks: Mapping[str, ClusterLook]) -> list[RowDocument]:
        """Rows of clusters whose manifests have become unreadable."""
        return [
            problem_row(self.context, name, look.problem)
            for name, look in looks.items()
            if look.problem is not None and not look.is_like(self.last_looks.get(name))
        ]

    def _write_between(self, number: int, present: Sequence[Finding], check: LockCheck) -> None:
        """Write rows for the raised and resolved findings that concern several clusters."""
        before = self._fleet.between
        raised = [finding for finding in present if finding not in before]
        resolved = [finding for finding in before if finding not in present]
        if raised or resolved:
            rows = change_rows(raised, resolved)
            self.tables.write(FINDING_CHANGES, number, FLEET, rows, check)

    @property
    def _reading(self) -> FeedReading:
        context = self.context
        release, exactly_once = context.profile.release, context.source.exactly_once
        return FeedReading(release, exactly_once, context.limits)

    # --- Spark ------------------------------------------------------------------------------

    def start(self, every_s: float | None = 60) -> "StreamingQuery":
        """Start a query of Structured Streaming that runs a batch whenever the archive has grown.

        `every_s`: seconds between two looks at the archive; None reads what is there, and ends.

        Raises:
            ValueError: the archive was opened without a Spark session.
            CheckpointMismatch: the checkpoint belongs to another archive.
            NoSpark: Spark cannot write the checkpoint.
        """
        if self._spark is None:
            raise ValueError("there is no Spark session: open the archive with `spark=`")
        from replay.fleet.feed.archive_stream import started  # noqa: PLC0415 - needs pyspark

        self.check()
        return started(self._spark, self, every_s)
